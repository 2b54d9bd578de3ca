"""The tables of the SQLite store, how they come to be, and what SQLite's errors mean to us.

Layout, and why it is this one (measured, `docs/explain/decisions.md`):

- `entry` is an ordinary rowid table with one index of two integers. Text keys, or a table WITHOUT
  ROWID, write about twice as much per step.
- `header` holds the headers apart from the payloads, under the same rowid. A page holds four
  payloads of 1 KB; 90 bytes more in the same row leave room for three, a third more disk.
- `unique(session, revision)` is the fence between processes.
- `session` holds who runs there now, until when (seconds since 1970) and for how long at a time.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from statepact.errors import (
    CorruptState,
    StatepactError,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTimeout,
    StoreTooNew,
    StoreUnavailable,
)

APPLICATION_ID = 0x73706163
"""Marks the file as ours ("spac"), so that no other program's database is ever written to."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "create table owner(id integer primary key, name text not null unique)",
        "create table session(id integer primary key, owner integer not null, name text not null,"
        " run text, holder text, seconds real, until real, unique(owner, name))",
        "create table entry(id integer primary key, session integer not null, revision integer not null, payload blob)",
        "create unique index entry_place on entry(session, revision)",
        "create table header(id integer primary key, bytes blob not null)",
        "create table block(id integer primary key, session integer not null, address blob not null, bytes blob)",
        "create unique index block_address on block(session, address)",
        "create table entity(owner integer not null, kind text not null, value text not null, session integer not null,"
        " at integer not null, primary key(owner, kind, value, session)) without rowid",
        "create index entity_session on entity(session)",
    ),
)
"""Statements of each schema version, forward only. A released version is never edited."""


def connect(path: Path, *, read_only: bool, full: bool, wait: float = 0.0) -> sqlite3.Connection:
    """Open a connection in autocommit mode, ready for use from any one thread at a time.

    A file that is not ours is refused before anything is written to it. `wait` is how many seconds
    the connection may wait for another one's lock; leave it at 0 on an event loop's thread.
    """
    db = _opened(path, "mode=ro" if read_only else "mode=rwc", wait)
    try:
        try:
            version = _checked_version(db, path)
        except sqlite3.OperationalError as error:
            # A reader of a WAL file wants to make its index file. On a medium where it cannot, a
            # file without a log beside it does not change either.
            if not (read_only and _code(error) == sqlite3.SQLITE_CANTOPEN and not _wal_of(path).exists()):
                raise
            db.close()
            db = _opened(path, "mode=ro&immutable=1", wait)
            version = _checked_version(db, path)
        if read_only and version == 0:
            raise StoreUnavailable(f"{path} holds no statepact state", hint="check the path")
        if not read_only:
            _use_wal(db, wait)
            db.execute(f"pragma synchronous={'full' if full else 'normal'}")
            # What is deleted or replaced is overwritten with zeros at once; `scrub` does the rest.
            db.execute("pragma secure_delete=on").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _opened(path: Path, options: str, wait: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{options}"
    return sqlite3.connect(
        uri, uri=True, timeout=wait, isolation_level=None, check_same_thread=False, cached_statements=64
    )


def _wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _use_wal(db: sqlite3.Connection, wait: float) -> None:
    if db.execute("pragma journal_mode").fetchone()[0] == "wal":
        return
    # While another process changes the mode of a new file, SQLite answers "locked" without waiting.
    give_up = time.monotonic() + wait
    while True:
        try:
            db.execute("pragma journal_mode=wal").fetchone()
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= give_up:
                raise
            time.sleep(0.005)


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the tables to the newest version, under SQLite's write lock.

    Raises `StoreTooNew` for a file of a newer library and `StoreUnavailable` for a database that
    is not ours.
    """
    if _version(db) == len(MIGRATIONS):
        return
    db.execute("begin immediate")
    try:
        version = _checked(db, path)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                db.execute(statement)
        db.execute(f"pragma application_id={APPLICATION_ID}")
        db.execute(f"pragma user_version={len(MIGRATIONS)}")
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _checked_version(db: sqlite3.Connection, path: Path) -> int:
    # In one transaction, or the tables that another process has just made would look like a stranger's.
    db.execute("begin")
    try:
        return _checked(db, path)
    finally:
        if db.in_transaction:
            db.execute("rollback")


def _checked(db: sqlite3.Connection, path: Path) -> int:
    """Return the schema version, 0 for an empty file; raise for what we cannot read."""
    version = _version(db)
    if version > len(MIGRATIONS):
        raise StoreTooNew(
            f"{path} has schema {version}, this version of statepact knows {len(MIGRATIONS)}",
            hint="update statepact; the file is unchanged",
        )
    if version == 0 and db.execute("select count(*) from sqlite_master").fetchone()[0]:
        raise StoreUnavailable(
            f"{path} is a database of another program", hint="name another file; this one is unchanged"
        )
    return version


def _version(db: sqlite3.Connection) -> int:
    if db.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
        return 0
    version: int = db.execute("pragma user_version").fetchone()[0]
    return version


def _code(error: sqlite3.Error) -> int:
    # Errors that the Python module raises by itself have no code.
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code


def is_of_disk(error: sqlite3.Error) -> bool:
    """Whether reading, writing or flushing has failed, for another reason than a lack of room."""
    return _code(error) == sqlite3.SQLITE_IOERR


class InDoubt(sqlite3.OperationalError):
    """A commit failed while it was written or flushed.

    It was undone, but it stands in the log until the next one is written over it, and recovery after a crash
    may find it there.
    """


def explain(error: sqlite3.Error, path: Path) -> StatepactError:
    """Return the error a user sees for an error of SQLite."""
    if isinstance(error, InDoubt):
        return StoreTimeout(
            f"the disk of {path} failed during a commit; whether it was kept is not known",
            hint="check the disk; run again, which commits again what is not there",
        )
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"no room left for {path}; the commit was not kept", hint="free disk space and run again")
    if code == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"{path} is read-only", hint="make the file and its folder writable, or name another file")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreTimeout(
            f"{path} is locked by another process; the commit was not kept",
            hint="close the program that holds a transaction open, or raise lock_timeout",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CorruptState(
            f"{path} is damaged or is not an SQLite database",
            hint="restore it from a backup; nothing was written to it",
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(f"{path} cannot be opened", hint="check that the folder exists and is writable")
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(f"reading or writing {path} failed; the commit was not kept", hint="check the disk")
    return StoreError(f"SQLite refused an operation on {path}: {error}")
