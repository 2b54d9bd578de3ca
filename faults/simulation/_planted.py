"""Bugs of the kind that such code has had elsewhere, put in from outside to see whether they are found.

A simulation that finds none of them says nothing about the code it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from faults.simulation._world import Outcome, World
from statepact.errors import Behind, StoreTimeout
from statepact.ledger._header import Names
from statepact.stores import _memory
from statepact.stores._base import StoredHeader
from statepact.stores._memory import MemoryStore
from statepact.stores._open_log import OpenLog
from statepact.testing import SimulatedStore


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug that can be switched on."""

    says: str
    """What is wrong, as its report would say."""
    patches: Sequence[tuple[Any, str, Any]]
    synced_every: float | None = None

    @contextmanager
    def on(self) -> Iterator[None]:
        """Run with the bug."""
        with ExitStack() as stack:
            for owner, name, value in self.patches:
                stack.enter_context(patch.object(owner, name, value))
            yield


def found_by(planted: Planted, seeds: range) -> Outcome | None:
    """Return the first simulation in which a planted bug breaks an invariant, `None` if none does."""
    with planted.on():
        for seed in seeds:
            outcome = World(seed, synced_every=planted.synced_every).run()
            if outcome.wrong:
                return outcome
    return None


_extend = _memory._extend
_check_hold = MemoryStore._check_hold
_append = SimulatedStore.append
_changed = SimulatedStore.changed

# -- the bugs ----------------------------------------------------------------------------------------


def _keep_names(self: Names, count: int) -> None:
    """Leave the names of a failed batch where they are."""


async def _send_again(self: OpenLog, batch: Sequence[Any], error: BaseException) -> None:
    """Send again after a lost answer, without a look at whether it has landed."""
    if not isinstance(error, Exception):
        raise error
    await self._read_on()
    if isinstance(error, StoreTimeout):
        return
    for waiting, _ in batch:
        waiting.error = error


def _nothing_stored(self: OpenLog, draft: Any) -> None:
    return None


def _compare_nothing(key: Any, session: Any, after: int) -> None:
    """Append wherever the log ends."""


def _ask_nobody(self: MemoryStore, key: Any, session: Any, hold: Any) -> None:
    """Grant every claim."""


def _renewed_late(self: MemoryStore, key: Any, session: Any, hold: Any) -> None:
    """Take a renewal for a claim, so that a succeeded worker may go on once its successor is late."""
    _check_hold(self, key, session, replace(hold, claim=True))


def _tear(session: Any, entries: Sequence[Any]) -> None:
    """Keep the first two entries of a batch."""
    _extend(session, entries[:2])


async def _call_it_done(self: OpenLog, behind: Behind) -> None:
    """Read what others have committed, and take our own entries for a part of it."""
    await self._read_on()
    for waiting in self._waiting:
        if waiting.entry is None and self.log.entries:
            waiting.entry = self.log.entries[-1]


def _outdated(original: Callable[..., Any]) -> Callable[..., Any]:
    async def headers(self: MemoryStore, key: Any, *, after: int = 0) -> Sequence[StoredHeader]:
        """Read from a replica that is one entry behind."""
        return list(await original(self, key, after=after))[:-1]

    return headers


async def _append_unclaimed(self: SimulatedStore, key: Any, entries: Any, *, after: int, hold: Any = None) -> None:
    """Commit without asking whether the session is still ours."""
    await _append(self, key, entries, after=after)


async def _wait_for_a_notice(self: SimulatedStore, key: Any, *, after: int, within: float) -> int:
    """Trust that every notice arrives."""
    return await _changed(self, key, after=after, within=1e9)


PLANTED: Mapping[str, Planted] = {
    "names": Planted("names of a failed batch are kept", [(Names, "cut_back", _keep_names)]),
    "resend": Planted(
        "a commit whose answer was lost is sent again without a look",
        [(OpenLog, "_failed", _send_again), (OpenLog, "_stored", _nothing_stored)],
    ),
    "compare": Planted("the store compares nothing", [(_memory, "_compare", _compare_nothing)]),
    "hold": Planted("the store does not ask who holds a session", [(MemoryStore, "_check_hold", _ask_nobody)]),
    "renewal": Planted("a renewal is taken for a claim", [(MemoryStore, "_check_hold", _renewed_late)]),
    "torn": Planted("a large batch is kept in part", [(_memory, "_extend", _tear)]),
    "refused": Planted("a refused commit is reported as done", [(OpenLog, "_catch_up", _call_it_done)]),
    "replica": Planted("reads come from a replica", [(MemoryStore, "headers", _outdated(MemoryStore.headers))]),
    "unclaimed": Planted("commits do not carry the claim", [(SimulatedStore, "append", _append_unclaimed)]),
    "notice": Planted("a lost notice is waited for", [(SimulatedStore, "changed", _wait_for_a_notice)]),
    "unsynced": Planted("the store acknowledges before the disk has it", [], synced_every=5.0),
}
