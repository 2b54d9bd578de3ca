"""Bugs on purpose, switched on in the worker alone: a campaign that does not find them proves nothing.

Each is one that a store like ours has had somewhere. Those of the core have their home beside the
simulation (`faults.simulation`), which finds them.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from statepact.errors import Behind, StateError

Campaign = Literal[
    "power", "points", "kill", "disk", "sync", "two", "frozen", "histories", "next commit",
    "postgres points", "postgres two", "postgres frozen", "redis points", "redis two", "redis frozen",
]  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """A bug, and the campaign that has to find it."""

    says: str
    found_by: Campaign
    plant: Callable[[], None]


def _no_flush() -> None:
    from statepact.stores import _sqlite

    store: Any = _sqlite
    connect = store.connect

    def lazily(*values: Any, **named: Any) -> sqlite3.Connection:
        opened: sqlite3.Connection = connect(*values, **{**named, "full": False})
        return opened

    store.connect = lazily


def _early_answer() -> None:
    from statepact.stores import _group_commit

    commit = _group_commit.GroupCommit._commit

    def answering(self: Any, batch: Any, doubt: Any = None) -> None:
        _group_commit._settle(batch)
        commit(self, batch, doubt)

    _group_commit.GroupCommit._commit = answering  # type: ignore[method-assign]


def _each_by_itself() -> None:
    """Commit after each entry of a batch."""
    from statepact.stores._sqlite_tail import Tail

    extend = Tail._extend

    def torn(self: Any, owner: int, session: int, entries: Sequence[Any], after: int) -> None:
        for number, entry in enumerate(entries):
            if number:
                self.db.execute("commit")
                self.db.execute("begin immediate")
            extend(self, owner, session, [entry], after + number)

    Tail._extend = torn  # type: ignore[method-assign]


def _later(table: str) -> Callable[[], None]:
    """Write one kind of rows in a transaction of their own, after the commit."""

    def plant() -> None:
        from statepact.stores._sqlite_tail import Tail

        extend = Tail._extend

        class Postponing:
            def __init__(self, db: sqlite3.Connection) -> None:
                self.db, self.later = db, list[tuple[str, Any]]()

            def execute(self, statement: str, values: Any = ()) -> Any:
                if f" {table}(" in statement:
                    self.later.append((statement, values))
                    return self.db.execute("select 1")
                return self.db.execute(statement, values)

        def apart(self: Any, owner: int, session: int, entries: Sequence[Any], after: int) -> None:
            db, self.db = self.db, Postponing(self.db)
            try:
                extend(self, owner, session, entries, after)
                later = self.db.later
            finally:
                self.db = db
            if later:
                db.execute("commit")
                db.execute("begin immediate")
                for statement, values in later:
                    db.execute(statement, values)

        Tail._extend = apart  # type: ignore[method-assign]

    return plant


def _error_swallowed() -> None:
    """Acknowledge what could not be written."""
    from statepact.stores import _group_commit

    commit = _group_commit.GroupCommit._commit

    def calm(self: Any, batch: Any, doubt: Any = None) -> None:
        commit(self, batch, doubt)
        for job in batch:
            if job.error is not None and not isinstance(job.error, StateError):
                job.error = None

    _group_commit.GroupCommit._commit = calm  # type: ignore[method-assign]


def _stale_tail() -> None:
    """Remember where sessions end, whatever others have written."""
    from statepact.stores._sqlite_tail import Tail

    Tail._newest = lambda self: 0  # type: ignore[method-assign]


def _tail_kept() -> None:
    """Undo what failed, and still remember it as the end of the session."""
    from statepact.stores._sqlite_tail import Tail

    def half(self: Any) -> None:
        if self.db.in_transaction:
            self.db.execute("rollback")

    Tail._roll_back = half  # type: ignore[method-assign]


def _several_commands(store: str) -> Callable[[], None]:
    """Send the entries of a batch one after the other, each in a command or statement of its own."""

    def plant() -> None:
        from statepact import stores

        chosen: Any = getattr(stores, store)
        append = chosen.append

        async def torn(self: Any, key: Any, entries: Sequence[Any], *, after: int, hold: Any = None) -> None:
            for number, entry in enumerate(entries):
                await append(self, key, [entry], after=after + number, hold=hold)

        chosen.append = torn

    return plant


def _flush_forgotten() -> None:
    """Say of a commit that could not be flushed that it was not kept."""
    from statepact.stores import _sqlite_tail

    tail: Any = _sqlite_tail
    tail.is_of_disk = lambda error: False


def _no_note() -> None:
    """Bring Redis's index up to date after the commit, and say nothing before it."""
    from statepact.stores._redis_entities import EntityIndex, Note

    async def silent(self: Any, key: Any) -> Note:
        return Note(b"", 2**50)

    index: Any = EntityIndex
    index.note = silent


def _note_taken_back_early() -> None:
    """Take the note back before the index is up to date."""
    from statepact.stores import RedisStore

    store: Any = RedisStore
    finish = store._finish

    async def hasty(self: Any, index: Any, key: Any, entries: Any, gone: Any, note: Any) -> None:
        await index.take_back(key, note)
        await finish(self, index, key, entries, gone, note)

    store._finish = hasty


def _not_compared(store: str) -> Callable[[], None]:
    """Append at the end, wherever the writer thought that it was, whatever the server answers."""

    def plant() -> None:
        from statepact import stores

        chosen: Any = getattr(stores, store)
        append = chosen.append

        async def blind(self: Any, key: Any, entries: Sequence[Any], *, after: int, hold: Any = None) -> None:
            while True:
                try:
                    await append(self, key, entries, after=after, hold=hold)
                    return
                except Behind:
                    after = len(await self.headers(key))

        chosen.append = blind

    return plant


def _not_fenced(store: str) -> Callable[[], None]:
    """Do not tell the server who commits."""

    def plant() -> None:
        from statepact import stores

        chosen: Any = getattr(stores, store)
        append = chosen.append

        async def anybody(self: Any, key: Any, entries: Sequence[Any], *, after: int, hold: Any = None) -> None:
            await append(self, key, entries, after=after)

        chosen.append = anybody

    return plant


def _no_compare() -> None:
    """Append at the end, wherever the writer thought that it was."""
    from statepact.stores._sqlite_tail import Tail

    append, compare = Tail.append, Tail._compare

    def anywhere(self: Any, key: Any, entries: Any, after: int, hold: Any) -> None:
        _, session = self._ids.get(key) or self._find(key)
        row = self.db.execute("select max(revision) from entry where session=?", (session,)).fetchone()
        append(self, key, entries, row[0] or 0, hold)

    Tail.append = anywhere  # type: ignore[method-assign]
    Tail._compare = lambda self, key, session, after: None  # type: ignore[method-assign]
    assert compare is not None


def _no_fence() -> None:
    """Let anybody commit, whoever holds the session."""
    from statepact.stores._sqlite_tail import Tail

    Tail._check_hold = lambda self, key, session, hold: None  # type: ignore[method-assign]


PLANTED = {
    "no flush": Planted("the disk is not asked to flush", "power", _no_flush),
    "early answer": Planted("commits are acknowledged before they are written", "kill", _early_answer),
    "torn batch": Planted("the entries of a batch are committed one by one", "points", _each_by_itself),
    "index apart": Planted("entities are written in a transaction of their own", "points", _later("entity")),
    "block apart": Planted("large values are written in a transaction of their own", "points", _later("block")),
    "header apart": Planted("headers are written in a transaction of their own", "points", _later("header")),
    "error swallowed": Planted("a failed write is acknowledged", "disk", _error_swallowed),
    "tail kept": Planted("where a session ends is not forgotten when a commit fails", "next commit", _tail_kept),
    "stale tail": Planted("what other processes have written is not noticed", "histories", _stale_tail),
    "not kept": Planted("a commit that could not be flushed is called not kept", "sync", _flush_forgotten),
    "two statements": Planted(
        "a batch takes several statements of PostgreSQL", "postgres points", _several_commands("PostgresStore")
    ),
    "two scripts": Planted("a batch takes several scripts of Redis", "redis points", _several_commands("RedisStore")),
    "no note": Planted("Redis's index is written without a note before the commit", "redis points", _no_note),
    "early note": Planted(
        "the note is taken back before Redis's index is written", "redis points", _note_taken_back_early
    ),
    "pg no compare": Planted(
        "PostgreSQL is not asked for the revision", "postgres two", _not_compared("PostgresStore")
    ),
    "pg no fence": Planted("PostgreSQL is not told who commits", "postgres frozen", _not_fenced("PostgresStore")),
    "redis no compare": Planted("Redis is not asked for the revision", "redis two", _not_compared("RedisStore")),
    "redis no fence": Planted("Redis is not told who commits", "redis frozen", _not_fenced("RedisStore")),
    "no compare": Planted("the revision is not compared", "two", _no_compare),
    "no fence": Planted("who holds a session is not asked", "frozen", _no_fence),
}
