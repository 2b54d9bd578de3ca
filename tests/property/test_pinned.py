"""Pinned facts by rule: what the log says in two numbers is what a read for each fact would say."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from statepact import Contract, Limit, MemoryStore, Pinned, open_session
from statepact.ledger import DEFAULT_OWNER, session_key
from statepact.ledger._header import Reached, Read
from statepact.ledger._view import RunView
from statepact.stores._log_reader import LogReader
from statepact.stores._open_log import OpenLog
from statepact.workflow import AsyncSession


class Asked(Contract):
    words: Pinned[str]
    never: Limit[str]
    note: str


class Wish(Contract):
    wish: Pinned[str]
    note: str


class Rule(Contract):
    most: Limit[str]


class Both(Contract):
    note: str
    wish: Pinned[str]
    most: Limit[str]


class Plain(Contract):
    note: str


KINDS = (Wish, Rule, Both, Plain)
LONG = 3_000
"""Characters of a value of which two fit the budget of pinned facts."""


@dataclass(frozen=True)
class Turn:
    """What one step does."""

    writes: type[Contract]
    reads: frozenset[type[Contract]]
    shows: str
    """How its model was asked: `no`, `unsent`, `taken`, `whole`, `some`, `twice` or `own`."""
    long: bool
    inside: bool
    """Whether another step commits a pinned fact while this one is open."""
    seed: int


turns = st.builds(
    Turn,
    writes=st.sampled_from([*KINDS, Both]),
    reads=st.frozensets(st.sampled_from(KINDS), max_size=2),
    shows=st.sampled_from(["no", "unsent", "taken", "whole", "whole", "some", "some", "twice", "own"]),
    long=st.booleans(),
    inside=st.booleans(),
    seed=st.integers(0, 10**6),
)


def written(contract: type[Contract], name: str, *, long: bool = False) -> Contract:
    """Return a value whose facts stand nowhere else."""
    end = "." * LONG if long else "."
    return contract(**{field: f"{field} of {name}{end}" for field in contract.model_fields})


async def take(session: AsyncSession, number: int, turn: Turn) -> str | None:
    """Do a step; return what was sent, `None` if nobody said it."""
    chance = random.Random(turn.seed)
    name = f"s{number}-"  # so that no name is the beginning of another
    sent: list[str] = []
    async with session.step(name, reads=[list[kind] for kind in sorted(turn.reads, key=str)]) as step:  # type: ignore[valid-type]
        if turn.inside:
            async with session.step(f"in-{name}") as other:
                await other.commit(written(Wish, f"in-{name}"))
        if turn.shows == "own":
            sent = [f"by hand: {chance.choice(['wish', 'words'])} of s0-. and most of s{chance.randrange(9)}-."]
        elif turn.shows != "no":
            text = (await step.prompt("Go on.")).text
            lines = [line for line in text.splitlines() if chance.random() < 0.7]
            sent = {"whole": [text], "some": ["\n".join(lines)], "twice": ["\n".join(lines), text]}.get(turn.shows, [])
        for kind in turn.reads if turn.shows == "taken" else ():
            step.all(kind)
        for text in sent:
            step.sent(text)
        await step.commit(written(turn.writes, name, long=turn.long))
    if turn.shows == "taken" and turn.reads:
        return ""  # what the step used came out of its inputs, so nothing was sent
    return "\n".join(sent) if sent else None


def explicit(run: RunView, turn: Turn, name: str, sent: str | None) -> Iterator[Read]:
    """Yield the read of each pinned fact that a step did not declare, as plain as can be."""
    entry = next(entry for entry in run.commits if entry.step == name)
    declared = {kind.__name__ for kind in turn.reads}
    if turn.shows == "no":
        return
    for earlier in run.commits:
        if earlier.revision >= entry.revision or earlier.step == f"in-{name}":
            continue
        for cell in earlier.cells:
            pinned = [(at, field) for at, field in enumerate(cell.contract.fields) if field.pinned]
            if not pinned or cell.contract.name in declared:
                continue
            if sent is None:
                yield Read(cell.revision, cell.number, declared=False)
                continue
            mask = sum(1 << at for at, field in pinned if cell.values[field.name] in sent)
            yield Read(cell.revision, cell.number, Reached.PARTLY, mask, declared=False)


async def play(script: list[Turn], *, asked: bool) -> tuple[list[str | None], RunView, list[int]]:
    store = MemoryStore()
    key = session_key(DEFAULT_OWNER, "s")
    request = written(Asked, "the request") if asked else None
    said: list[str | None] = []
    half = len(script) // 2
    for part in (range(half), range(half, len(script))):  # the second half by somebody who reads the log first
        async with open_session("s", store=store, run="r", request=request) as session:
            said += [await take(session, number, script[number]) for number in part]
    reader: LogReader = await OpenLog.open(store, key)
    return said, await reader.view("r"), [len(entry.header.reads) for entry in reader.log.entries]


def as_reads(found: Any) -> set[Read]:
    return {Read(r.cell.revision, r.cell.number, r.reached, r.mask, r.declared) for r in found if not r.declared}


@st.composite
def scripts(draw: st.DrawFn) -> list[Turn]:
    """Return what the steps of a run do. What a step had no room for is not looked for in its own prompt."""
    found = draw(st.lists(turns, min_size=1, max_size=9))
    by_hand = any(turn.shows == "own" for turn in found)
    return [replace(turn, long=turn.long and not by_hand) for turn in found]


@settings(deadline=None, max_examples=400)
@given(scripts(), st.booleans())
def test_the_rule_says_what_a_read_for_each_fact_would(script: list[Turn], asked: bool) -> None:
    """Whatever was declared, cut, sent by half, sent not at all, or committed meanwhile."""
    said, run, _ = asyncio.run(play(script, asked=asked))

    for number, (turn, sent) in enumerate(zip(script, said, strict=True)):
        name = f"s{number}-"
        entry = next(entry for entry in run.commits if entry.step == name)
        assert as_reads(entry.reads) == set(explicit(run, turn, name, sent))


@settings(deadline=None, max_examples=30)
@given(st.lists(turns, min_size=1, max_size=9), st.booleans())
def test_a_header_names_no_pinned_fact_that_arrived(script: list[Turn], asked: bool) -> None:
    """Shown whole, or nobody knows: then the rule is all there is, however many facts the run holds."""
    plain = [replace(t, reads=frozenset(), shows="whole" if t.seed % 2 else "unsent") for t in script]

    _, _, reads = asyncio.run(play(plain, asked=asked))

    assert sum(reads) == 0
