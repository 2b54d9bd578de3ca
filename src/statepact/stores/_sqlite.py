"""The default store: one file, standard library only."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from statepact.errors import (
    Behind,
    LeaseLost,
    SessionHeld,
    SetupError,
    StoreFull,
    StoreReadOnly,
    StoreTimeout,
    StoreUnavailable,
)
from statepact.ledger import SessionKey
from statepact.stores._base import EntityUse, Hold, NewEntry, Rewrite, SessionInfo, StoredHeader
from statepact.stores._group_commit import GroupCommit, Job
from statepact.stores._sqlite_schema import connect, explain, migrate
from statepact.stores._sqlite_tail import Tail

T = TypeVar("T")

Durability = Literal["power", "process"]

_PROMISES: Mapping[str, str] = {
    "power": "survives a power cut",
    "process": "survives a killed process, not a power cut",
}
_SESSION = "(select s.id from session s join owner o on o.id = s.owner where o.name=? and s.name=?)"
LONGEST_POLL = 0.1
"""Most seconds between two looks of somebody who waits for a change; the first wait is 5 ms."""
_MOST_VARIABLES = 500
"""Values bound to one statement; SQLite's own limit is higher on all supported versions."""


class SqliteStore:
    """A log in an SQLite file (WAL), for all processes of one machine.

    `durability="power"` (the default, `synchronous=FULL`) acknowledges a commit once the disk has
    it; commits that arrive together share one flush. `"process"` acknowledges once the operating
    system has it: a killed process loses nothing, a power cut may lose the newest commits.

    `lock_timeout` is how many seconds a commit waits for another process's transaction.
    `read_only` opens an existing file without the right to change it. `clock` gives the seconds since
    1970 by which holds end.

    The file is opened at first use. Errors: `StoreUnavailable` (cannot be opened, or is another
    program's), `StoreTooNew`, `CorruptState`, `StoreReadOnly`, `StoreFull`, `StoreTimeout`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        lock_timeout: float = 5.0,
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if durability not in _PROMISES:
            raise SetupError(f"durability is {durability!r}", hint='choose "power" or "process"')
        self.path = Path(path)
        self.durability: Durability = durability
        self.promise = _PROMISES[durability]
        self._lock_timeout = lock_timeout
        self._read_only = read_only
        self._clock = clock
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._tail: Tail | None = None
        self._explained = _Explained(self.path)
        self._group: GroupCommit | None = None
        self._closed = False

    # -- writing ---------------------------------------------------------------------------------

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        await self._write(lambda tail: tail.append(key, entries, after, hold))

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        await self._write(lambda tail: tail.rewrite(key, change, entries, after))

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        refusals: list[SessionHeld] = []

        def claim(tail: Tail) -> None:
            if (refusal := tail.hold(key, hold)) is not None:
                refusals.append(refusal)

        await self._write(claim)
        if refusals:
            raise refusals[-1]

    async def _write(self, work: Callable[[Tail], None]) -> None:
        with self._lock:
            self._open()
            if self._read_only:
                raise StoreReadOnly(f"{self.path} was opened read-only", hint="open it without read_only")
            if self.durability == "process":
                try:
                    self._write_here(work)
                    return
                except StoreTimeout:
                    # Another process holds the write lock. Waiting for it here would stop the
                    # event loop, so the writer thread does.
                    pass
            group = self._group or self._start_group()
        import asyncio

        loop = asyncio.get_running_loop()
        job = Job(work, loop, loop.create_future())
        group.submit(job)
        await job.done

    def _write_here(self, work: Callable[[Tail], None]) -> None:
        tail = self._tail
        assert tail is not None
        with self._explained, tail:
            work(tail)

    def _start_group(self) -> GroupCommit:
        own: list[Tail] = []

        def write(batch: Sequence[Job]) -> None:
            with self._explained:
                if not own:
                    full = self.durability == "power"
                    db = connect(self.path, read_only=False, full=full, wait=self._lock_timeout)
                    own.append(Tail(db, self._clock))
                tail = own[0]
                with tail:
                    for job in batch:
                        try:
                            job.work(tail)
                        except (Behind, SessionHeld, LeaseLost) as refusal:
                            job.error = refusal

        def finish() -> None:
            for tail in own:
                tail.db.close()

        self._group = GroupCommit(write, finish)
        return self._group

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        import asyncio

        give_up = time.monotonic() + within
        wait = 0.005
        while True:
            rows = self._select(f"select max(revision) from entry where session = {_SESSION}", key)
            revision: int = rows[0][0] or 0
            left = give_up - time.monotonic()
            if revision > after or left <= 0:
                return revision
            await asyncio.sleep(min(wait, left))
            wait = min(wait * 2, LONGEST_POLL)

    # -- reading ---------------------------------------------------------------------------------

    # `cast`, because whoever has edited a value by hand may have left text, which Python would
    # refuse to decode or hand out as `str`; `statepact verify` must be able to read it.

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        with self._lock, self._explained:
            if self._tail is not None and self._tail.ends_at(key, after):
                return ()
        rows = self._select(
            "select e.revision, cast(h.bytes as blob) from entry e left join header h on h.id = e.id"
            f" where e.session = {_SESSION} and e.revision > ? order by e.revision",
            (*key, after),
        )
        return [StoredHeader(revision, header or b"") for revision, header in rows]

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        found: dict[int, bytes] = {}
        for some in _portions(revisions):
            rows = self._select(
                "select e.revision, cast(e.payload as blob) from entry e"
                f" where e.payload is not null and e.session = {_SESSION}"
                f" and e.revision in ({','.join('?' * len(some))})",
                (*key, *some),
            )
            found.update(rows)
        return found

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for some in _portions(addresses):
            rows = self._select(
                "select b.address, cast(b.bytes as blob) from block b"
                f" where b.session = {_SESSION} and b.address in ({','.join('?' * len(some))})",
                (*key, *some),
            )
            found.update(rows)
        return found

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        # A refused append in a batch may leave the name of a session that has no entries.
        rows = self._select(
            "select s.name, (select max(revision) from entry where session = s.id) as newest"
            " from session s join owner o on o.id = s.owner where o.name=? and newest is not null order by s.name",
            (owner,),
        )
        return [SessionInfo(session=name, revision=revision) for name, revision in rows]

    async def owners(self) -> Sequence[str]:
        rows = self._select(
            "select name from owner o where exists (select 1 from session s join entry e on e.session = s.id"
            " where s.owner = o.id) order by name"
        )
        return [name for (name,) in rows]

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        rows = self._select(
            "select e.kind, e.value, s.name, e.at from entity e join session s on s.id = e.session"
            " where e.owner = (select id from owner where name=?)"
            " and (? is null or e.kind = ?) and (? is null or e.value = ?)"
            " order by e.at desc, s.name, e.kind, e.value limit ?",
            (owner, kind, kind, value, value, most),
        )
        return [EntityUse(kind=kind, value=value, session=session, at=at) for kind, value, session, at in rows]

    def _select(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            db = self._open()
            with self._explained:
                return db.execute(statement, values).fetchall()

    # -- erasing ---------------------------------------------------------------------------------

    async def scrub(self) -> bool:
        """Write over everything that was deleted, in the file and in its log.

        The file is written anew (`VACUUM`), because pages that were split keep old bytes, and its write-ahead
        log is emptied. That takes as long as a copy of the file. Returns false if somebody was reading an
        old state, or there was no room: the old bytes are then still there, call it again later.
        """
        import asyncio

        with self._lock:
            self._open()
            if self._read_only:
                raise StoreReadOnly(f"{self.path} was opened read-only", hint="open it without read_only")
        return await asyncio.to_thread(self._scrub)

    def _scrub(self) -> bool:
        db = connect(self.path, read_only=False, full=True, wait=self._lock_timeout)
        try:
            with self._explained:
                db.execute("vacuum")
                ((busy, *_),) = db.execute("pragma wal_checkpoint(truncate)").fetchall()
                return not busy
        except (StoreTimeout, StoreFull):
            return False
        finally:
            db.close()

    # -- opening and closing ---------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._db is not None:
            return self._db
        if self._closed:
            raise StoreUnavailable(f"the store on {self.path} is closed", hint="keep it open until every run has ended")
        if not self.path.absolute().parent.is_dir():
            raise StoreUnavailable(f"the folder of {self.path} does not exist", hint="make the folder first")
        if self._read_only and not self.path.exists():
            raise StoreUnavailable(f"{self.path} does not exist", hint="check the path")
        with self._explained:
            # Several processes may create the file at once: the first one does it, the others wait.
            # After that this connection never waits, because it stands on the event loop's thread.
            wait = 0.0 if self._read_only else self._lock_timeout
            db = connect(self.path, read_only=self._read_only, full=self.durability == "power", wait=wait)
            try:
                if not self._read_only:
                    migrate(db, self.path)
                db.execute("pragma busy_timeout=0")
            except BaseException:
                db.close()
                raise
        self._db = db
        self._tail = Tail(db, self._clock)
        return db

    async def aclose(self) -> None:
        with self._lock:
            self._closed = True
            group, self._group = self._group, None
            db, self._db, self._tail = self._db, None, None
        try:
            if group is not None:
                import asyncio

                await asyncio.to_thread(group.close)
        finally:
            if db is not None:
                db.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Explained:
    """`with` this, an error of SQLite becomes the one that a user sees."""

    # A class and not `@contextmanager`, as below: both stand in the path of every step, and a
    # generator costs a microsecond.

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, sqlite3.Error):
            raise explain(error, self._path) from error


def _portions(values: Iterable[T]) -> Iterator[list[T]]:
    every = list(values)
    for start in range(0, len(every), _MOST_VARIABLES):
        yield every[start : start + _MOST_VARIABLES]
