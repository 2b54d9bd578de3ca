"""Whether what many clients heard can have happened one after the other.

The search is that of Wing and Gong with Lowe's memory of states already seen: put operations into an
order that respects "returned before the other was called", and in which each gets the answer that it
got. Two facts about a log keep it small:

- A log only grows, so what any answer says about a revision holds for ever. All answers together say
  which entry each revision is; where they disagree, no order exists. During the search the log is then
  only a length.
- An append without an answer matters only while the log has the length that it compares, so nobody
  has to remember whether it has happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from statepact.stores._base import Hold
from statepact.testing._operations import NEVER, Operation

NOBODY = -1
"""The session is held by nobody."""


class _State(NamedTuple):
    """How far an order has come."""

    first: int
    """Place of the first answered operation that has not happened."""
    beyond: int
    """Bit i is set if the operation `first + i` has happened."""
    length: int
    grant: int
    """Place of the operation by which the session is held."""
    late: int
    """Bit i is set if the unanswered claim i has happened."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Answers that cannot all be true.

    Take away any of `operations`, and the rest of the history can have happened; all the others may
    have happened or not.
    """

    operations: tuple[Operation, ...]
    refused: tuple[Operation, ...] = ()
    """Appends that were refused, although somebody has read their entries."""

    def __str__(self) -> str:
        lines = ["these answers cannot all be true:"]
        lines += [f"  {operation}" for operation in (*self.operations, *self.refused)]
        lines += [f"  → {reason}" for reason in self._reasons()]
        return "\n".join(lines)

    def _reasons(self) -> Iterator[str]:
        seen: dict[int, str] = {}
        for operation in self.operations:
            for revision, name in _says(operation):
                if seen.setdefault(revision, name) != name:
                    yield f"revision {revision} is {seen[revision]} and {name}"
                    return


def contradiction(history: Iterable[Operation], *, clock_error: float = 0.0) -> Contradiction | None:
    """Return what is wrong with the history of one session, `None` if nothing is.

    `clock_error` is by how many seconds the clock of the history may differ from the store's when a
    hold ends; `math.inf` if they have nothing to do with each other.
    """
    operations = sorted(history, key=lambda one: one.called)
    if _can_have_happened(operations, clock_error):
        return None
    blamed = _smallest(operations, clock_error)
    read = {name for one in blamed if one.kind == "read" for name in one.entries}
    refused = [
        one
        for one in operations
        if one.kind == "append" and one.result in ("behind", "held", "lost") and read.intersection(one.entries)
    ]
    return Contradiction(tuple(blamed), tuple(one for one in refused if one not in blamed))


def _smallest(operations: Sequence[Operation], clock_error: float) -> list[Operation]:
    """Return answers that contradict each other, none of which can be left out.

    An answer is left out by taking it for lost: then more can have happened, never less. What is left
    contradicts itself for the same reason as the whole.
    """
    blamed = [one for one in operations if one.result != "unknown"]
    lost = [one for one in operations if one.result == "unknown"]
    size = len(blamed)
    while size:
        start = 0
        while start < len(blamed):
            rest = blamed[:start] + blamed[start + size :]
            more = lost + [_unanswered(one) for one in blamed[start : start + size] if _has_effect(one)]
            if _can_have_happened(sorted(rest + more, key=lambda one: one.called), clock_error):
                start += size
            else:
                blamed, lost = rest, more
        size //= 2
    return blamed


def _has_effect(operation: Operation) -> bool:
    return operation.kind != "read" and operation.result == "ok"


def _unanswered(operation: Operation) -> Operation:
    return replace(operation, result="unknown", returned=NEVER)


def _says(operation: Operation) -> Iterator[tuple[int, str]]:
    """Yield what an answer says about revisions."""
    if operation.result == "ok" and operation.kind in ("append", "read"):
        yield from enumerate(operation.entries, operation.after + 1)


def _told(operations: Iterable[Operation]) -> Mapping[int, str] | None:
    """Return which entry each revision is, as far as anybody was told; `None` if they disagree."""
    told: dict[int, str] = {}
    for operation in operations:
        for revision, name in _says(operation):
            if told.setdefault(revision, name) != name:
                return None
    return told


def _can_have_happened(operations: Sequence[Operation], clock_error: float) -> bool:
    told = _told(operations)
    return told is not None and _Search(operations, told, clock_error).succeeds()


class _Search:
    """The search for an order. `operations` are sorted by the time of their call."""

    def __init__(self, operations: Sequence[Operation], told: Mapping[int, str], clock_error: float) -> None:
        self._all = operations
        self._told = told
        self._clock_error = clock_error
        self._answered: list[int] = []
        self._appends: dict[int, list[int]] = {}
        """Appends without an answer by the length that they compare."""
        self._claims: list[int] = []
        """Holds without an answer, and appends of nothing: they leave the length as it is."""
        for place, one in enumerate(operations):
            if one.result != "unknown":
                self._answered.append(place)
            elif one.kind == "append" and one.entries:
                self._appends.setdefault(one.after, []).append(place)
            elif one.kind != "read" and one.hold is not None:
                self._claims.append(place)

    def succeeds(self) -> bool:
        begin = _State(0, 0, 0, NOBODY, 0)
        seen = {begin}
        open_ends = [begin]
        while open_ends:
            state = open_ends.pop()
            if state.first == len(self._answered):
                return True
            following = [after for after in self._following(state) if after not in seen]
            seen.update(following)
            open_ends.extend(reversed(following))  # what was called first is tried first
        return False

    def _following(self, state: _State) -> Iterator[_State]:
        """Yield every state that one more operation leads to."""
        next_ones, limit = self._next_ones(state)
        for number, place in next_ones:
            for length, grant, late in self._ways(place, state, limit, self._happens):
                yield self._with(state, number, (length, grant, late))
        for place in self._appends.get(state.length, ()):
            if self._all[place].called <= limit:
                for length, grant, late in self._ways(place, state, limit, self._takes_effect):
                    yield state._replace(length=length, grant=grant, late=late)

    def _next_ones(self, state: _State) -> tuple[list[tuple[int, int]], float]:
        """Return which answered operations can be next, and until when one must have been called for that."""
        next_ones: list[tuple[int, int]] = []
        limit = NEVER
        number, bits = state.first, state.beyond
        while number < len(self._answered):
            place = self._answered[number]
            if not bits & 1:
                if self._all[place].called > limit:
                    break  # somebody had his answer before
                limit = min(limit, self._all[place].returned)
                next_ones.append((number, place))
            number, bits = number + 1, bits >> 1
        return next_ones, limit

    def _ways(
        self, place: int, state: _State, limit: float, happens: Callable[[int, int, int], tuple[int, int] | None]
    ) -> Iterator[tuple[int, int, int]]:
        """Yield length, grant and late claims after an operation.

        A claim without an answer is granted right before the operation that cannot be explained without
        it: it could be granted earlier, but what has happened in between did not need it.
        """
        moved = happens(place, state.length, state.grant)
        if moved is not None:
            yield (*moved, state.late)
            return
        operation = self._all[place]
        if operation.hold is None or not self._claims or not self._fits_the_length(operation, state.length):
            return
        for grant, late in self._after_claims(state, limit):
            moved = happens(place, state.length, grant)
            if moved is not None:
                yield (*moved, late)

    @staticmethod
    def _fits_the_length(operation: Operation, length: int) -> bool:
        if operation.kind != "append" or operation.result in ("held", "lost"):
            return True
        return (operation.after == length) is (operation.result != "behind")

    def _after_claims(self, state: _State, limit: float) -> Iterator[tuple[int, int]]:
        """Yield grant and late claims after one claim, and after two: one gives up, one takes."""
        for grant, late in self._after_one_claim(state.length, state.grant, state.late, limit):
            yield grant, late
            yield from self._after_one_claim(state.length, grant, late, limit)

    def _after_one_claim(self, length: int, grant: int, late: int, limit: float) -> Iterator[tuple[int, int]]:
        tried: set[Hold | None] = set()
        for number, place in enumerate(self._claims):
            operation = self._all[place]
            # Of equal claims the one that was called first can do whatever the others can.
            if late >> number & 1 or operation.called > limit or operation.hold in tried:
                continue
            tried.add(operation.hold)
            moved = self._takes_effect(place, length, grant)
            if moved is not None and moved[1] != grant:
                yield moved[1], late | 1 << number

    @staticmethod
    def _with(state: _State, number: int, moved: tuple[int, int, int]) -> _State:
        first, beyond = state.first, state.beyond | 1 << (number - state.first)
        while beyond & 1:
            first, beyond = first + 1, beyond >> 1
        return _State(first, beyond, *moved)

    def _happens(self, place: int, length: int, grant: int) -> tuple[int, int] | None:
        """Return length and grant after an answered operation, `None` if it cannot have got its answer here."""
        operation = self._all[place]
        if operation.result == "ok":
            if operation.kind == "read":
                seen = operation.after + len(operation.entries)
                fits = length == seen if operation.entries else length <= seen
                return (length, grant) if fits else None
            return self._takes_effect(place, length, grant)
        if operation.result == "behind":
            fits = length != operation.after and self._is_granted(operation, grant)
        elif operation.result == "held":
            fits = self._is_held_by_another(operation, grant)
        else:
            fits = self._is_lost(operation, grant)
        return (length, grant) if fits else None

    def _takes_effect(self, place: int, length: int, grant: int) -> tuple[int, int] | None:
        operation = self._all[place]
        hold = operation.hold
        if operation.kind == "hold" and hold is not None and hold.seconds <= 0:
            return length, NOBODY if self._is_ours(operation, grant) else grant
        if not self._is_granted(operation, grant):
            return None
        if operation.kind == "append":
            if operation.after != length:
                return None
            for revision, name in enumerate(operation.entries, length + 1):
                if self._told.get(revision, name) != name:
                    return None
            length += len(operation.entries)
        if hold is not None:
            grant = place if hold.seconds > 0 else NOBODY
        return length, grant

    # -- who holds it ------------------------------------------------------------------------------

    def _is_ours(self, operation: Operation, grant: int) -> bool:
        held = self._all[grant].hold if grant != NOBODY else None
        return held is not None and operation.hold is not None and held.holder == operation.hold.holder

    def _is_granted(self, operation: Operation, grant: int) -> bool:
        """Whether the claim of an operation can have been granted, if it has one."""
        if operation.hold is None or self._is_ours(operation, grant):
            return True
        if not operation.hold.claim or grant == NOBODY:
            return operation.hold.claim
        held = self._all[grant].hold
        if held is not None and held.holder == operation.hold.succeeds:
            return True
        return operation.returned >= self._ends(grant, self._all[grant].called) - self._clock_error

    def _is_held_by_another(self, operation: Operation, grant: int) -> bool:
        if operation.hold is None or not operation.hold.claim or grant == NOBODY or self._is_ours(operation, grant):
            return False
        held = self._all[grant].hold
        if held is not None and held.holder == operation.hold.succeeds:
            return False
        return operation.called <= self._ends(grant, self._all[grant].returned) + self._clock_error

    def _is_lost(self, operation: Operation, grant: int) -> bool:
        return operation.hold is not None and not operation.hold.claim and not self._is_ours(operation, grant)

    def _ends(self, grant: int, since: float) -> float:
        held = self._all[grant].hold
        return since + (held.seconds if held is not None else math.inf)
