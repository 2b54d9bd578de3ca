"""The default store: one file, standard library only."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from statepact.errors import Behind, SetupError, StoreReadOnly, StoreTimeout, StoreUnavailable
from statepact.ledger import SessionKey
from statepact.stores._base import NewEntry, SessionInfo, StoredHeader
from statepact.stores._group_commit import GroupCommit, Job
from statepact.stores._sqlite_schema import connect, explain, migrate

T = TypeVar("T")

Durability = Literal["power", "process"]

_PROMISES: Mapping[str, str] = {
    "power": "survives a power cut",
    "process": "survives a killed process, not a power cut",
}
_MOST_VARIABLES = 500
"""Values bound to one statement; SQLite's own limit is higher on all supported versions."""


class SqliteStore:
    """A log in an SQLite file (WAL), for all processes of one machine.

    `durability="power"` (the default, `synchronous=FULL`) acknowledges a commit once the disk has
    it; commits that arrive together share one flush. `"process"` acknowledges once the operating
    system has it: a killed process loses nothing, a power cut may lose the newest commits.

    `lock_timeout` is how many seconds a commit waits for another process's transaction.
    `read_only` opens an existing file without the right to change it.

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
    ) -> None:
        if durability not in _PROMISES:
            raise SetupError(f"durability is {durability!r}", hint='choose "power" or "process"')
        self.path = Path(path)
        self.durability: Durability = durability
        self.promise = _PROMISES[durability]
        self._lock_timeout = lock_timeout
        self._read_only = read_only
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._tail: _Tail | None = None
        self._explained = _Explained(self.path)
        self._group: GroupCommit | None = None
        self._closed = False

    # -- writing ---------------------------------------------------------------------------------

    async def append(self, key: SessionKey, entries: Sequence[NewEntry], *, after: int) -> None:
        with self._lock:
            db = self._open()
            if self._read_only:
                raise StoreReadOnly(f"{self.path} was opened read-only", hint="open it without read_only")
            if self.durability == "process":
                try:
                    self._write_here(db, key, entries, after)
                    return
                except StoreTimeout:
                    # Another process holds the write lock. Waiting for it here would stop the
                    # event loop, so the writer thread does.
                    pass
            group = self._group or self._start_group()
        import asyncio

        loop = asyncio.get_running_loop()
        job = Job(key, entries, after, loop, loop.create_future())
        group.submit(job)
        await job.done

    def _write_here(self, db: sqlite3.Connection, key: SessionKey, entries: Sequence[NewEntry], after: int) -> None:
        tail = self._tail
        assert tail is not None
        with self._explained, tail:
            tail.append(key, entries, after)

    def _start_group(self) -> GroupCommit:
        own: list[_Tail] = []

        def write(batch: Sequence[Job]) -> None:
            with self._explained:
                if not own:
                    full = self.durability == "power"
                    own.append(_Tail(connect(self.path, read_only=False, full=full, wait=self._lock_timeout)))
                tail = own[0]
                with tail:
                    for job in batch:
                        try:
                            tail.append(job.key, job.entries, job.after)
                        except Behind as behind:
                            job.error = behind

        def finish() -> None:
            for tail in own:
                tail.db.close()

        self._group = GroupCommit(write, finish)
        return self._group

    # -- reading ---------------------------------------------------------------------------------

    # `cast`, because whoever has edited a value by hand may have left text, which Python would
    # refuse to decode or hand out as `str`; `statepact verify` must be able to read it.

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        with self._lock, self._explained:
            if self._tail is not None and self._tail.ends_at(key, after):
                return ()
        rows = self._select(
            "select e.revision, cast(h.bytes as blob) from entry e left join header h on h.id = e.id"
            " where e.session = (select s.id from session s join owner o on o.id = s.owner where o.name=? and s.name=?)"
            " and e.revision > ? order by e.revision",
            (key.owner, key.session, after),
        )
        return [StoredHeader(revision, header or b"") for revision, header in rows]

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        found: dict[int, bytes] = {}
        for some in _portions(revisions):
            rows = self._select(
                "select e.revision, cast(e.payload as blob) from entry e"
                " where e.payload is not null and e.session ="
                " (select s.id from session s join owner o on o.id = s.owner where o.name=? and s.name=?)"
                f" and e.revision in ({','.join('?' * len(some))})",
                (key.owner, key.session, *some),
            )
            found.update(rows)
        return found

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for some in _portions(addresses):
            rows = self._select(
                "select b.address, cast(b.bytes as blob) from block b"
                " where b.owner = (select id from owner where name=?)"
                f" and b.address in ({','.join('?' * len(some))})",
                (key.owner, *some),
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

    def _select(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with self._lock:
            db = self._open()
            with self._explained:
                return db.execute(statement, values).fetchall()

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
        self._tail = _Tail(db)
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


class _Tail:
    """Appends through one connection, remembering where each session ends; `with` it, a transaction.

    The memory is dropped when another connection has written (`data_version`) and after every
    rollback, so it can be wrong in neither direction.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self._ids: dict[SessionKey, tuple[int, int]] = {}
        self._last: dict[int, int] = {}
        self._version = -1

    def __enter__(self) -> None:
        self.db.execute("begin immediate")
        try:
            version = self._newest()
            if version != self._version:
                self._forget()
                self._version = version
        except BaseException:
            self._roll_back()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._roll_back()
            return
        try:
            self.db.execute("commit")
        except BaseException:
            self._roll_back()
            raise

    def _newest(self) -> int:
        """Return a number that changes whenever another connection has written."""
        version: int = self.db.execute("pragma data_version").fetchone()[0]
        return version

    def _roll_back(self) -> None:
        self._forget()
        if self.db.in_transaction:
            self.db.execute("rollback")

    def ends_at(self, key: SessionKey, revision: int) -> bool:
        """Whether a session is known to end at a revision, without a look at its entries."""
        known = self._ids.get(key)
        return known is not None and self._last.get(known[1]) == revision and self._newest() == self._version

    def append(self, key: SessionKey, entries: Sequence[NewEntry], after: int) -> None:
        owner, session = self._ids.get(key) or self._find(key)
        last = self._last.get(session)
        if last is None:
            row = self.db.execute("select max(revision) from entry where session=?", (session,)).fetchone()
            last = self._last[session] = row[0] or 0
        if last != after:
            raise Behind(f"session {key.session!r} is at revision {last}, not {after}")
        execute = self.db.execute
        for entry in entries:
            after += 1
            place = execute(
                "insert into entry(session, revision, payload) values(?, ?, ?)", (session, after, entry.payload)
            ).lastrowid
            execute("insert into header(id, bytes) values(?, ?)", (place, entry.header))
            for address, data in entry.blocks:
                execute("insert or ignore into block(owner, address, bytes) values(?, ?, ?)", (owner, address, data))
        self._last[session] = after

    def _find(self, key: SessionKey) -> tuple[int, int]:
        execute = self.db.execute
        execute("insert or ignore into owner(name) values(?)", (key.owner,))
        owner = execute("select id from owner where name=?", (key.owner,)).fetchone()[0]
        execute("insert or ignore into session(owner, name) values(?, ?)", (owner, key.session))
        session = execute("select id from session where owner=? and name=?", (owner, key.session)).fetchone()[0]
        self._ids[key] = owner, session
        return owner, session

    def _forget(self) -> None:
        self._ids.clear()
        self._last.clear()


def _portions(values: Iterable[T]) -> Iterator[list[T]]:
    every = list(values)
    for start in range(0, len(every), _MOST_VARIABLES):
        yield every[start : start + _MOST_VARIABLES]
