"""Connections of one event loop, lent to one operation at a time.

Our own and not `psycopg_pool`, because we need less and something else: nothing runs in the background,
a pool belongs to a loop and can be let go of after that loop has ended, an idle connection that the
server has closed is noticed before a commit is sent (afterwards nobody could say whether it happened),
and a deadline covers waiting, connecting and the answer together.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from statepact.errors import StoreUnavailable

if TYPE_CHECKING:
    import psycopg

Connect = Callable[[float], "Awaitable[psycopg.AsyncConnection[Any]]"]
"""Makes a connection that is ready for use, within some seconds."""


class Pool:
    """At most `size` connections; the one used last is used next."""

    def __init__(self, connect: Connect, *, size: int) -> None:
        self._connect = connect
        self._free = asyncio.Semaphore(size)
        self._size = size
        self._idle: list[psycopg.AsyncConnection[Any]] = []
        self._lent: set[psycopg.AsyncConnection[Any]] = set()
        self._closed = False

    def lend(self, *, until: float) -> Loan:
        """Return a connection to be used with `async with`, which has to be done by `until`."""
        return Loan(self, until)

    async def take(self, until: float) -> psycopg.AsyncConnection[Any]:
        """Return a connection that is alive as far as one can see."""
        if self._free.locked():
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await self._free.acquire()
            except TimeoutError:
                raise StoreUnavailable(
                    f"all {self._size} connections to PostgreSQL were busy", hint="raise connections or timeout"
                ) from None
        else:
            await self._free.acquire()
        try:
            if self._closed:
                raise closed()
            db = self._next_idle() or await self._connect(until - time.monotonic())
        except BaseException:
            self._free.release()
            raise
        self._lent.add(db)
        return db

    def _next_idle(self) -> psycopg.AsyncConnection[Any] | None:
        while self._idle:
            db = self._idle.pop()
            if _is_quiet(db):
                return db
            db.pgconn.finish()
        return None

    def give_back(self, db: psycopg.AsyncConnection[Any]) -> None:
        """Keep a connection for the next one, unless something is wrong with it."""
        self._lent.discard(db)
        self._free.release()
        if self._closed or not _is_idle(db):
            db.pgconn.finish()
        else:
            self._idle.append(db)

    def drop_idle(self) -> None:
        """Close what is not in use, such as connections to a server that is not the primary any more."""
        for db in self._idle:
            db.pgconn.finish()
        self._idle.clear()

    def close(self) -> None:
        """Take no more work; what is under way is finished and then closed."""
        self._closed = True
        self.drop_idle()

    async def finished(self) -> None:
        """Wait until nothing is under way any more."""
        for _ in range(self._size):
            await self._free.acquire()
        for _ in range(self._size):
            self._free.release()

    def abandon(self) -> None:
        """Close everything at once; for a loop that has ended, where nothing can be under way."""
        self.close()
        for db in self._lent:
            db.pgconn.finish()


class Loan:
    """A connection that is given back at the end, and cut off at its deadline."""

    def __init__(self, pool: Pool, until: float) -> None:
        self._pool = pool
        self._until = until
        self.is_late = False
        """Whether the deadline has passed before the answer came."""

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        self._db = db = await self._pool.take(self._until)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, self._until - time.monotonic()), self._cut_off)
        return db

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._pool.give_back(self._db)

    def _cut_off(self) -> None:
        # Not by cancelling: the driver would first try to be polite to a server that does not answer.
        # The end of the socket ends whatever waits for it, and nothing else.
        self.is_late = True
        cut(self._db)


def cut(db: psycopg.AsyncConnection[Any]) -> None:
    """End a connection from outside, so that whoever waits for its answer gets an error now."""
    try:
        with socket.socket(fileno=os.dup(db.pgconn.socket)) as ours:
            ours.shutdown(socket.SHUT_RDWR)
    except Exception:
        return  # it is closed already


def closed() -> StoreUnavailable:
    """Return the error for a store that is used after it was closed."""
    return StoreUnavailable("the store is closed", hint="keep it open until every run has ended")


def _is_idle(db: psycopg.AsyncConnection[Any]) -> bool:
    from psycopg.pq import ConnStatus, TransactionStatus

    return db.pgconn.status == ConnStatus.OK and db.pgconn.transaction_status == TransactionStatus.IDLE


def _is_quiet(db: psycopg.AsyncConnection[Any]) -> bool:
    """Whether an idle connection has nothing to say: what would be there is the news of its end."""
    if not _is_idle(db):
        return False
    if not _has_news(db):
        return True
    # A notice of a changed setting, perhaps; the end of the connection otherwise.
    try:
        db.pgconn.consume_input()
    except Exception:
        return False
    return _is_idle(db) and not _has_news(db)


def _has_news(db: psycopg.AsyncConnection[Any]) -> bool:
    if hasattr(select, "poll"):
        look = select.poll()
        look.register(db.pgconn.socket, select.POLLIN)
        return bool(look.poll(0))
    return bool(select.select([db.pgconn.socket], [], [], 0)[0])
