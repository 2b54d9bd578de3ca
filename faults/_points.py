"""Named crash points: moments inside a commit at which the worker kills itself.

They are put around the product's own functions and the driver's from outside, in the worker alone, so
the product has no trace of them. A name says what and when: `before commit`, `after insert into entry`.
"""

import functools
import inspect
import os
import selectors
import signal
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

STATEMENTS = ("begin immediate", "insert into entry", "insert into header", "insert or ignore into block",
              "insert into entity", "commit")  # fmt: skip
CALLS = ("append", "batch", "settle", "answer")
"""`append` of the store, the writer thread's batch, waking those who wait, the log's taking in of an answer."""


def names(kind: str) -> list[str]:
    """Return the crash points of a store: `sqlite`, `postgres` or `redis`."""
    places = {
        "sqlite": (*STATEMENTS, *CALLS),
        "postgres": ("append", "answer", "execute", "wait", "answer of the server"),
        "redis": ("append", "answer", "send", "receive", "list", "note", "commit", "index", "take back"),
    }[kind]
    return [f"{when} {place}" for place in places for when in ("before", "after")]


RARE = ("list",)
"""Places that a worker comes to once for each session."""


class CrashPoint:
    """Kills this process when a named point is reached for the n-th time."""

    def __init__(self, name: str, n: int) -> None:
        self.name = name
        self.left = n

    def reached(self, name: str) -> None:
        if name == self.name:
            self.left -= 1
            if self.left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with a point before and one after it."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waiting(*values: Any, **named: Any) -> Any:
                self.reached(f"before {place}")
                result = await function(*values, **named)
                self.reached(f"after {place}")
                return result

            return waiting

        @functools.wraps(function)
        def calling(*values: Any, **named: Any) -> Any:
            self.reached(f"before {place}")
            result = function(*values, **named)
            self.reached(f"after {place}")
            return result

        return calling

    def install(self, kind: str) -> None:
        """Put all points of a store in place, in this process."""
        from statepact.stores import _open_log

        self._wrap(_open_log.OpenLog, "_send", "answer")
        if kind == "sqlite":
            self._install_sqlite()
        elif kind == "postgres":
            self._install_postgres()
        elif kind == "redis":
            self._install_redis()

    def _install_sqlite(self) -> None:
        from statepact.stores import SqliteStore, _group_commit

        watch_statements(self.reached)
        self._wrap(SqliteStore, "append", "append")
        self._wrap(_group_commit.GroupCommit, "_commit", "batch")
        self._wrap(_group_commit, "_settle", "settle")

    def _install_postgres(self) -> None:
        import psycopg

        from statepact.stores import PostgresStore

        self._wrap(PostgresStore, "append", "append")
        self._wrap(psycopg.AsyncConnection, "execute", "execute")
        wait = psycopg.AsyncConnection.wait

        async def waiting(db: Any, answers: Any, *values: Any, **named: Any) -> Any:
            return await wait(db, self._between(answers), *values, **named)

        connection: Any = psycopg.AsyncConnection
        connection.wait = self.around("wait", waiting)

    def _install_redis(self) -> None:
        from redis.asyncio.connection import AbstractConnection

        from statepact.stores import RedisStore
        from statepact.stores._redis_entities import EntityIndex

        self._wrap(RedisStore, "append", "append")
        # Listing the session, noting it, committing, bringing the index up to date, taking the note back.
        self._wrap(RedisStore, "_list", "list")
        self._wrap(RedisStore, "_commit", "commit")
        for name, place in (("note", "note"), ("add", "index"), ("take_back", "take back")):
            self._wrap(EntityIndex, name, place)
        self._wrap(AbstractConnection, "send_packed_command", "send")
        self._wrap(AbstractConnection, "read_response", "receive")

    def _between(self, answers: Any) -> Generator[Any, Any, Any]:
        """Stand between the statement that was sent and the answer of the server, which works meanwhile."""
        ready = None
        try:
            while True:
                wanted = answers.send(ready)
                reads = wanted == selectors.EVENT_READ
                if reads:
                    self.reached("before answer of the server")
                ready = yield wanted
                if reads:
                    self.reached("after answer of the server")
        except StopIteration as end:
            return end.value

    def _wrap(self, owner: Any, name: str, place: str) -> None:
        setattr(owner, name, self.around(place, getattr(owner, name)))


@contextmanager
def much_later() -> Iterator[None]:
    """Look at Redis when the notes of the dead are old, so that whoever asks finishes what they had begun."""
    from statepact.stores import _redis_entities

    patience = _redis_entities.ABANDONED
    _redis_entities.ABANDONED = -1
    try:
        yield
    finally:
        _redis_entities.ABANDONED = patience


def watch_statements(reached: Callable[[str], None]) -> None:
    """Call `reached` before and after each statement of every SQLite connection opened from now on."""

    class Watched(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            place = next((one for one in STATEMENTS if statement.startswith(one)), statement[:40])
            reached(f"before {place}")
            result = super().execute(statement, *values)
            reached(f"after {place}")
            return result

    connect = sqlite3.connect
    sqlite3.connect = functools.partial(connect, factory=Watched)  # type: ignore[assignment]
