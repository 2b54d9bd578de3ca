"""Records what the clients of a store do and hear, to be checked when they are done."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from statepact.errors import Behind, LeaseLost, SessionHeld, StoreTimeout
from statepact.ledger import SessionKey
from statepact.stores._base import EntityUse, Hold, NewEntry, Rewrite, SessionInfo, Store, StoredHeader
from statepact.testing._linearizability import Contradiction, contradiction
from statepact.testing._operations import Kind, Operation, Result

T = TypeVar("T")

_HEARD: Mapping[type[BaseException], Result] = {Behind: "behind", SessionHeld: "held", LeaseLost: "lost"}


class History:
    """What many clients did on a store: give each of them `watch(store, its_name)`, then check.

    `clock` gives seconds; equal times are told apart, so "before" is always clear. Sessions whose log
    is rewritten cannot be checked.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = -math.inf
        self.operations: dict[SessionKey, list[Operation]] = {}
        """What happened in each session, in the order of the answers."""
        self._calls = 0
        self._open: dict[int, tuple[SessionKey, Operation]] = {}

    def watch(self, store: Store, process: str) -> WatchedStore:
        """Return the same store, with everything that is done through it written down."""
        return WatchedStore(store, process, self)

    def contradictions(self, *, clock_error: float = 0.0) -> Mapping[SessionKey, Contradiction]:
        """Return the sessions whose history cannot have happened one after the other, and why.

        See `contradiction` for `clock_error`.
        """
        found = {key: contradiction(self.of(key), clock_error=clock_error) for key in self.operations}
        return {key: wrong for key, wrong in found.items() if wrong is not None}

    def of(self, key: SessionKey) -> list[Operation]:
        """Return what happened in a session, calls that have not ended as unanswered."""
        return [*self.operations.get(key, ()), *(asked for where, asked in self._open.values() if where == key)]

    def now(self) -> float:
        """Return the time, later than every time before."""
        self._last = max(self._clock(), math.nextafter(self._last, math.inf))
        return self._last

    def begin(self, key: SessionKey, operation: Operation) -> int:
        """Write down a call. Until it ends it counts as unanswered; so it stays if its caller dies."""
        self._calls += 1
        number = self._calls
        self._open[number] = key, operation
        return number

    def end(self, number: int, operation: Operation | None) -> None:
        """Write down how a call has ended; `None` if it cannot have changed or told anything."""
        key, _ = self._open.pop(number)
        if operation is not None:
            self.add(key, operation)

    def add(self, key: SessionKey, operation: Operation) -> None:
        """Write down what has ended."""
        self.operations.setdefault(key, []).append(operation)


def name_of(header: bytes) -> str:
    """Return a short name for an entry: its header if that is a text, else a digest of it."""
    text = header.decode("ascii", "replace")
    return text if text.isprintable() and "\ufffd" not in text else hashlib.sha256(header).hexdigest()[:8]


class WatchedStore:
    """A store whose appends, reads of headers, and holds are written down in a history."""

    def __init__(self, store: Store, process: str, history: History) -> None:
        self.store = store
        self._process = process
        self._history = history

    @property
    def promise(self) -> str:
        return self.store.promise

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        names = tuple(name_of(entry.header) for entry in entries)
        call = self.store.append(key, entries, after=after, hold=hold)
        await self._watched(key, "append", call, after, names, hold)

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        await self._watched(key, "hold", self.store.hold(key, hold), 0, (), hold)

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        called = self._history.now()
        found = await self.store.headers(key, after=after)
        by_revision = {stored.revision: name_of(stored.header) for stored in found}
        newest = max(by_revision, default=after)
        # What is missing has a name that nobody has appended.
        names = tuple(by_revision.get(revision, "(missing)") for revision in range(after + 1, newest + 1))
        self._history.add(
            key,
            Operation(
                process=self._process, kind="read", called=called, returned=self._history.now(), after=after,
                entries=names,
            ),
        )  # fmt: skip
        return found

    async def _watched(
        self,
        key: SessionKey,
        kind: Kind,
        call: Awaitable[None],
        after: int,
        names: tuple[str, ...],
        hold: Hold | None,
    ) -> None:
        history = self._history
        asked = Operation(
            process=self._process, kind=kind, called=history.now(), result="unknown", after=after, entries=names,
            hold=hold,
        )  # fmt: skip
        number = history.begin(key, asked)
        try:
            await call
        except (Behind, SessionHeld, LeaseLost) as refusal:
            history.end(number, replace(asked, result=_HEARD[type(refusal)], returned=history.now()))
            raise
        except BaseException as error:
            # Of a store that has failed nothing is kept; of a call that was given up nobody knows.
            unknown = isinstance(error, StoreTimeout) or not isinstance(error, Exception)
            history.end(number, asked if unknown else None)
            raise
        history.end(number, replace(asked, result="ok", returned=history.now()))

    # -- the rest is passed on ---------------------------------------------------------------------

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        return await self.store.payloads(key, revisions)

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        return await self.store.blocks(key, addresses)

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        await self.store.rewrite(key, change, entries, after=after)

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        return await self.store.changed(key, after=after, within=within)

    async def owners(self) -> Sequence[str]:
        return await self.store.owners()

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        return await self.store.sessions(owner)

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        return await self.store.entities(owner, kind=kind, value=value, most=most)

    async def aclose(self) -> None:
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
