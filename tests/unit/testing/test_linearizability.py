"""The checker of histories lets good ones pass, and says what is wrong with bad ones."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Literal

import pytest

from statepact.stores import Hold
from statepact.testing import Operation, contradiction

Result = Literal["ok", "behind", "held", "lost", "unknown"]
NEVER = float("inf")


def append(who: str, entries: str, called: float, returned: float, *, after: int, result: Result = "ok") -> Operation:
    return Operation(
        process=who, kind="append", called=called, returned=returned, result=result, after=after,
        entries=tuple(entries.split()),
    )  # fmt: skip


def lost(who: str, entries: str, called: float, *, after: int) -> Operation:
    return append(who, entries, called, NEVER, after=after, result="unknown")


def read(who: str, entries: str, called: float, returned: float, *, after: int = 0) -> Operation:
    return Operation(
        process=who, kind="read", called=called, returned=returned, after=after, entries=tuple(entries.split())
    )


def claim(
    who: str, called: float, returned: float, *, seconds: float = 10, result: Result = "ok", renew: bool = False
) -> Operation:
    hold = Hold(run="r", holder=who, seconds=seconds, claim=not renew)
    return Operation(process=who, kind="hold", called=called, returned=returned, result=result, hold=hold)


def under(operation: Operation, who: str, *, renew: bool = False, seconds: float = 10) -> Operation:
    return replace(operation, hold=Hold(run="r", holder=who, seconds=seconds, claim=not renew))


GOOD = {
    "nothing": [],
    "one after the other": [append("a", "x", 0, 1, after=0), append("b", "y", 2, 3, after=1), read("c", "x y", 4, 5)],
    "one wins": [append("a", "x", 0, 2, after=0), append("b", "y", 1, 3, after=0, result="behind")],
    "the loser called first": [append("b", "y", 0, 9, after=0, result="behind"), append("a", "x", 5, 6, after=0)],
    "a read beside a write": [append("a", "x", 0, 10, after=0), read("b", "", 1, 2), read("c", "x", 3, 4)],
    "a batch is seen whole": [append("a", "x y", 0, 10, after=0), read("b", "", 1, 2), read("c", "x y", 3, 4)],
    "a read of what is new": [append("a", "x y z", 0, 1, after=0), read("b", "z", 2, 3, after=2)],
    "a read beyond the end": [append("a", "x", 0, 1, after=0), read("b", "", 2, 3, after=7)],
    "a lost append that happened": [
        lost("a", "x", 0, after=0), append("b", "y", 5, 6, after=1), read("c", "x y", 7, 8),
    ],
    "a lost append that did not happen": [lost("a", "x", 0, after=0), append("b", "y", 5, 6, after=0)],
    "a lost append that happened late": [
        lost("a", "x", 0, after=1), append("b", "y", 5, 6, after=0), read("c", "y", 7, 8), read("c", "y x", 9, 10),
    ],
    "a lost append that made another one late": [
        lost("a", "x", 0, after=0), append("b", "y", 5, 6, after=0, result="behind"),
    ],
    "two lost appends of one revision": [lost("a", "x", 0, after=0), lost("b", "y", 0, after=0), read("c", "y", 5, 6)],
    "an empty append asks": [
        append("a", "", 0, 1, after=0), append("a", "x", 2, 3, after=0), append("a", "", 4, 5, after=0, result="behind")
    ],
    "holds one after the other": [
        claim("a", 0, 1), claim("b", 2, 3, result="held"), claim("a", 4, 5, seconds=0), claim("b", 6, 7),
    ],
    "a hold that ended": [claim("a", 0, 1), claim("b", 10.5, 11), claim("a", 12, 13, renew=True, result="lost")],
    "a late holder goes on": [claim("a", 0, 1), under(append("a", "x", 50, 51, after=0), "a", renew=True)],
    "giving up what one has not": [claim("a", 0, 1), claim("b", 2, 3, seconds=0), claim("b", 4, 5, result="held")],
    "a lost claim that was granted late": [
        replace(claim("a", 0, NEVER), result="unknown"), claim("b", 1, 2, seconds=0.1), claim("b", 5, 6, result="held"),
    ],
    "an append that gives up": [
        claim("a", 0, 1), under(append("a", "x", 2, 3, after=0), "a", seconds=0), claim("b", 4, 5),
    ],
}  # fmt: skip

BAD = {
    "lost update": (
        [append("a", "x", 0, 1, after=0), append("b", "y", 2, 3, after=0), read("c", "y", 4, 5)],
        {"x", "y"},
    ),
    "stale read": ([append("a", "x", 0, 1, after=0), read("b", "", 2, 3)], {"x", ""}),
    "fork": ([append("a", "x", 0, 5, after=0), append("b", "y", 1, 4, after=0)], {"x", "y"}),
    "torn batch": ([append("a", "x y", 0, 10, after=0), read("b", "x", 1, 2), read("b", "x y", 3, 4)], {"x"}),
    "read going backwards": (
        [append("a", "x", 0, 10, after=0), read("b", "x", 1, 2), read("b", "", 3, 4)],
        {"x", ""},
    ),
    "two readers, backwards": (
        [lost("a", "x", 0, after=0), read("b", "x", 1, 2), read("c", "", 3, 4)],
        {"x", ""},
    ),
    "phantom of a refused append": (
        [append("a", "w", 0, 1, after=0), append("b", "x", 2, 3, after=0, result="behind"), read("c", "w x", 4, 5)],
        {"w x"},
    ),
    "phantom of nobody": ([read("c", "ghost", 4, 5)], {"ghost"}),
    "duplicate after a lost answer": (
        [lost("a", "x", 0, after=0), append("b", "y", 4, 5, after=1), read("c", "x y x", 6, 7)],
        {"x y x"},
    ),
    "acknowledged and gone": (
        [append("a", "x", 0, 1, after=0), read("c", "x", 2, 3), append("b", "y", 4, 5, after=0)],
        {"x", "y"},
    ),
    "order turned round": (
        [lost("a", "x", 0, after=0), lost("b", "y", 0, after=1), read("c", "x y", 2, 3), read("d", "y x", 2, 3)],
        {"y x"},
    ),
    "refused without a reason": ([append("a", "x", 0, 1, after=0, result="behind")], {"x"}),
    "happened before it was called": ([read("c", "x", 0, 1), append("a", "x", 2, 3, after=0)], {"x"}),
    "landed at another revision": ([append("a", "x", 0, 1, after=3)], {"x"}),
    "two hold it": ([claim("a", 0, 1), claim("b", 2, 3)], {""}),
    "append past a holder": ([claim("a", 0, 1), under(append("b", "x", 2, 3, after=0), "b")], {"", "x"}),
    "late append of a succeeded holder": (
        [claim("a", 0, 1, seconds=2), claim("b", 5, 6), under(append("a", "x", 7, 8, after=0), "a", renew=True)],
        {"", "x"},
    ),
    "held for ever": ([claim("a", 0, 1, seconds=2), claim("b", 50, 51, result="held")], {""}),
    "lost though still ours": ([claim("a", 0, 1), claim("a", 2, 3, renew=True, result="lost")], {""}),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_can_have_happened_passes(name: str) -> None:
    """Some order explains every answer, so the history is good."""
    assert contradiction(GOOD[name]) is None
    assert contradiction(reversed(GOOD[name])) is None


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_have_happened_is_named(name: str) -> None:
    """The operations that contradict each other are found, and no others."""
    history, blamed = BAD[name]

    wrong = contradiction(history)

    assert wrong is not None
    assert {" ".join(operation.entries) for operation in wrong.operations} == blamed


@pytest.mark.parametrize("name", BAD)
def test_what_is_named_is_minimal(name: str) -> None:
    """Without any one of the operations that are named, the rest can have happened."""
    history, _ = BAD[name]
    wrong = contradiction(history)
    assert wrong is not None

    for one in wrong.operations:
        beside = [lost_answer(other) for other in history if other not in wrong.operations or other is one]
        rest = [other for other in wrong.operations if other is not one]
        assert contradiction([*rest, *(other for other in beside if other is not None)]) is None


def lost_answer(operation: Operation) -> Operation | None:
    """Return the operation as if its answer were lost, `None` if it then says nothing."""
    if operation.kind == "read" or operation.result not in ("ok", "unknown"):
        return None
    return replace(operation, result="unknown", returned=NEVER)


def test_a_person_can_read_what_is_wrong() -> None:
    """Two acknowledged appends at one revision: who, when, and which revision."""
    history = [append(f"w{n}", f"e{n}", n, n + 0.5, after=n) for n in range(40)]
    history += [append("w41", "stranger", 7.1, 7.4, after=7)]

    assert str(contradiction(history)) == (
        "these answers cannot all be true:\n"
        "  [7 – 7.5] w7 appends e7 after 7\n"
        "  [7.1 – 7.4] w41 appends stranger after 7\n"
        "  → revision 8 is e7 and stranger"
    )


def test_a_phantom_is_shown_with_its_refusal() -> None:
    """Somebody has read what another was told is not there."""
    history, _ = BAD["phantom of a refused append"]

    assert "[2 – 3] b appends x after 0: refused, behind" in str(contradiction(history))


def test_holds_are_not_judged_by_a_clock_that_nobody_shares() -> None:
    """How long a hold lasts is only compared as far as the clocks agree."""
    history = [claim("a", 0, 1, seconds=5), claim("b", 4, 4.5)]

    assert contradiction(history) is not None
    assert contradiction(history, clock_error=1) is None


def simulated(seed: int, operations: int, *, processes: int = 8) -> list[Operation]:
    """Return a history of a correct log, with answers that come late, early or never."""
    chance = random.Random(seed)
    log: list[str] = []
    history = []
    for number in range(operations):
        moment = float(number)
        called, returned = moment - chance.uniform(0, processes), moment + chance.uniform(0, processes)
        kind = chance.random()
        if kind < 0.4:
            start = chance.randint(0, len(log))
            history.append(read(f"p{number}", " ".join(log[start:]), called, returned, after=start))
            continue
        after = len(log) if chance.random() < 0.6 else max(0, len(log) - chance.randint(0, 2))
        names = [f"e{number}.{n}" for n in range(chance.randint(1, 3))]
        happens = after == len(log)
        if happens:
            log += names
        one = append(f"p{number}", " ".join(names), called, returned, after=after, result="ok" if happens else "behind")
        history.append(replace(one, result="unknown", returned=NEVER) if chance.random() < 0.15 else one)
    return history


@pytest.mark.parametrize("seed", range(40))
def test_histories_of_a_correct_log_pass(seed: int) -> None:
    """What a correct log has answered is never blamed, whatever was late or lost."""
    assert contradiction(simulated(seed, 60)) is None


@pytest.mark.parametrize("seed", range(40))
def test_one_wrong_answer_is_found(seed: int) -> None:
    """A read, later than everything, that misses the newest entry that was acknowledged."""
    history = simulated(seed, 60)
    newest = max(one.after for one in history if one.kind == "append" and one.result == "ok")
    late = read("late", "", 1_000, 1_001, after=newest)

    wrong = contradiction([*history, late])

    assert wrong is not None
    assert late in wrong.operations
    assert len(wrong.operations) == 2


def test_hundreds_of_operations_are_checked_in_a_moment() -> None:
    """A good history of 500 operations, eight at a time, and the same with one wrong answer."""
    history = simulated(7, 500)
    began = time.process_time()
    assert contradiction(history) is None
    assert time.process_time() - began < 2

    began = time.process_time()
    wrong = contradiction([*history, read("late", "", 1_000, 1_001)])
    assert wrong is not None
    assert len(wrong.operations) == 2
    assert time.process_time() - began < 10
