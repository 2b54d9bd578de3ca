"""A store that lives and ends with its process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from statepact.errors import Behind, LeaseLost, SessionHeld, StoreUnavailable
from statepact.ledger import SessionKey
from statepact.stores._base import Entity, EntityUse, Hold, NewEntry, Rewrite, SessionInfo, StoredHeader

if TYPE_CHECKING:
    import asyncio


@dataclass(slots=True)
class _Session:
    first: int = 1
    """Revision of the oldest entry."""
    entries: list[tuple[bytes, bytes]] = field(default_factory=list)
    blocks: dict[bytes, bytes] = field(default_factory=dict)
    entities: dict[Entity, int] = field(default_factory=dict)
    hold: Hold | None = None
    until: float = 0.0
    waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = field(default_factory=list)
    """Who is to be woken by the next entry."""

    @property
    def revision(self) -> int:
        return self.first + len(self.entries) - 1

    def entry(self, revision: int) -> tuple[bytes, bytes] | None:
        place = revision - self.first
        return self.entries[place] if 0 <= place < len(self.entries) else None


class MemoryStore:
    """Keeps everything in this process and promises nothing beyond it.

    `clock` gives the seconds by which holds end.
    """

    promise = "nothing survives the end of the process"
    in_process = True
    """What is read here was never anywhere else, so readers need not check it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sessions: dict[SessionKey, _Session] = {}
        self._clock = clock
        # Sessions may be used from several threads (`with session.step(...)` beside a loop).
        self._lock = threading.Lock()
        self._closed = False

    # -- the log ---------------------------------------------------------------------------------

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        self._check_open()
        with self._lock:
            session = self._sessions.get(key) or _Session()
            if hold is not None:
                self._check_hold(key, session, hold)
            _compare(key, session, after)
            if hold is not None:
                self._take(session, hold)
            if entries or hold is not None:
                self._sessions[key] = session
            _extend(session, entries)

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        self._check_open()
        session = self._sessions.get(key)
        if session is None:
            return []
        start = max(after + 1, session.first)
        return [
            StoredHeader(revision, session.entries[revision - session.first][0])
            for revision in range(start, session.revision + 1)
        ]

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        self._check_open()
        session = self._sessions.get(key) or _Session()
        found = ((revision, session.entry(revision)) for revision in revisions)
        return {revision: entry[1] for revision, entry in found if entry is not None}

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        self._check_open()
        session = self._sessions.get(key) or _Session()
        return {address: session.blocks[address] for address in addresses if address in session.blocks}

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        self._check_open()
        with self._lock:
            session = self._sessions.get(key) or _Session()
            _compare(key, session, after)
            for revision, entry in change.replace.items():
                if session.entry(revision) is not None:
                    session.entries[revision - session.first] = entry
            if not after and entries:
                session.first = max(change.first, 1)
                self._sessions[key] = session
            removed = min(max(change.first - session.first, 0), len(session.entries))
            del session.entries[:removed]
            session.first += removed
            for address, data in change.blocks.items():
                session.blocks.pop(address, None)
                if data is not None:
                    session.blocks[address] = data
            for entity in list(session.entities) if change.forget is None else change.forget:
                session.entities.pop(entity, None)
            _extend(session, entries)

    async def drop(self, key: SessionKey) -> None:
        """Let go of everything of a session, for one who uses this store as a cache."""
        self._check_open()
        with self._lock:
            self._sessions.pop(key, None)

    # -- who runs, and what is new ---------------------------------------------------------------

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        self._check_open()
        with self._lock:
            session = self._sessions.get(key) or _Session()
            if hold.seconds <= 0 and (session.hold is None or session.hold.holder != hold.holder):
                return
            self._check_hold(key, session, hold)
            self._take(session, hold)
            self._sessions[key] = session

    def _check_hold(self, key: SessionKey, session: _Session, hold: Hold) -> None:
        other = session.hold
        if other is not None and other.holder == hold.holder:
            return
        if not hold.claim:
            raise LeaseLost(key.session, holder=hold.holder, run=hold.run)
        left = session.until - self._clock()
        if other is not None and left > 0 and other.holder != hold.succeeds:
            raise SessionHeld(key.session, holder=other.holder, run=other.run, seconds=left)

    def _take(self, session: _Session, hold: Hold) -> None:
        session.hold = hold if hold.seconds > 0 else None
        session.until = self._clock() + hold.seconds

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        import asyncio

        give_up = time.monotonic() + within
        loop = asyncio.get_running_loop()
        while True:
            with self._lock:
                self._check_open()
                session = self._sessions.setdefault(key, _Session())
                left = give_up - time.monotonic()
                if session.revision > after or left <= 0:
                    return session.revision
                entry = loop, loop.create_future()
                session.waiting.append(entry)
            try:
                await asyncio.wait([entry[1]], timeout=left)
            finally:
                with self._lock, suppress(ValueError):
                    session.waiting.remove(entry)

    # -- finding ---------------------------------------------------------------------------------

    async def owners(self) -> Sequence[str]:
        self._check_open()
        with self._lock:
            return sorted({key.owner for key, session in self._sessions.items() if session.revision})

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        return [SessionInfo(session=name, revision=session.revision) for name, session in self._of(owner)]

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        uses = [
            EntityUse(kind=entity.kind, value=entity.value, session=name, at=at)
            for name, session in self._of(owner)
            for entity, at in session.entities.items()
            if kind in (None, entity.kind) and value in (None, entity.value)
        ]
        uses.sort(key=lambda use: (-use.at, use.session, use.kind, use.value))
        return uses[:most]

    def _of(self, owner: str) -> Sequence[tuple[str, _Session]]:
        self._check_open()
        with self._lock:
            mine = [(key.session, one) for key, one in self._sessions.items() if key.owner == owner and one.revision]
        return sorted(mine, key=lambda pair: pair[0])

    # -- the end ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed", hint="keep it open until every run has ended")

    async def aclose(self) -> None:
        with self._lock:
            self._closed = True
            for session in self._sessions.values():
                _wake_all(session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _compare(key: SessionKey, session: _Session, after: int) -> None:
    if session.revision != after:
        raise Behind(f"session {key.session!r} is at revision {session.revision}, not {after}")


def _extend(session: _Session, entries: Sequence[NewEntry]) -> None:
    for entry in entries:
        for address, data in entry.blocks:
            session.blocks.setdefault(address, data)
        for entity in entry.entities:
            session.entities[entity] = max(entry.at, session.entities.get(entity, 0))
        session.entries.append((entry.header, entry.payload))
    if entries and session.waiting:
        _wake_all(session)


def _wake_all(session: _Session) -> None:
    for loop, woken in session.waiting:
        with suppress(RuntimeError):  # its loop was closed: nobody is left to be woken
            loop.call_soon_threadsafe(_wake, woken)
    session.waiting.clear()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
