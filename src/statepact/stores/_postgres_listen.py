"""Hearing of commits: one connection of an event loop listens for all who wait there.

Who waits for a session holds a shared advisory lock on its place, so that commits know that somebody
wants a notice. All of this is a hint. Without it, a waiter looks again by itself.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from statepact.stores._postgres_pool import Connect, cut
from statepact.stores._postgres_schema import Schema

if TYPE_CHECKING:
    import psycopg

MOST_PLACES = 256
"""Sessions that one listener asks notices for. Each takes a lock of the server's table of locks, which
is shared by everybody; who waits for more than these looks by itself."""

PATIENCE = 5.0
"""Seconds that the listener waits for one answer of the server."""

RETRY = 1.0
"""Seconds before another try to listen after one has failed."""


class Listener:
    """Wakes those who wait for a place. Belongs to one event loop."""

    def __init__(self, connect: Connect, schema: Schema) -> None:
        self._connect = connect
        self._schema = schema
        self._db: psycopg.AsyncConnection[Any] | None = None
        self._asking = asyncio.Lock()
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._locked: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._not_before = 0.0
        self._closed = False

    async def expect(self, place: int, woken: asyncio.Event) -> bool:
        """Have an event set at the next commit there; return whether notices can be expected.

        What was committed before this returns may come without a notice, so look afterwards.
        """
        self._waiting.setdefault(place, set()).add(woken)
        if place in self._locked:
            return True
        if self._closed or len(self._locked) >= MOST_PLACES or time.monotonic() < self._not_before:
            return False
        async with self._asking:
            if place in self._locked:
                return True
            try:
                if self._db is None:
                    await self._open()
                await self._ask("select pg_advisory_lock_shared($1)", place)
            except Exception:
                # A hint less; whoever waits looks by itself, and finds out what is wrong.
                self._end()
                self._not_before = time.monotonic() + RETRY
                return False
            self._locked.add(place)
        return True

    def forget(self, place: int, woken: asyncio.Event) -> None:
        """Take back what `expect` was asked for."""
        waiting = self._waiting.get(place, set())
        waiting.discard(woken)
        if not waiting:
            self._waiting.pop(place, None)

    def close(self) -> None:
        """Listen no more, and wake all who wait."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        self._end()

    def abandon(self) -> None:
        """Close the connection; for a loop that has ended."""
        self._closed = True
        db, self._db = self._db, None
        if db is not None:
            db.pgconn.finish()

    # -- the connection --------------------------------------------------------------------------

    async def _open(self) -> None:
        self._db = db = await self._connect(PATIENCE)
        db.add_notify_handler(lambda notice: self._heard(notice.payload))
        await self._ask(f"listen {self._schema.quoted}")

    async def _ask(self, statement: str, *values: object) -> None:
        db = self._db
        if db is None or self._closed:
            raise ConnectionError
        loop = asyncio.get_running_loop()
        # The driver watches the socket while it waits for an answer; we do at all other times.
        loop.remove_reader(db.pgconn.socket)
        timer = loop.call_later(PATIENCE, cut, db)
        try:
            await db.execute(statement, values or None)
        finally:
            timer.cancel()
        if self._db is not db:
            raise ConnectionError
        loop.add_reader(db.pgconn.socket, self._readable, db)

    def _readable(self, db: psycopg.AsyncConnection[Any]) -> None:
        try:
            db.pgconn.consume_input()
            while (notice := db.pgconn.notifies()) is not None:
                self._heard(notice.extra.decode())
        except Exception:
            self._end()

    def _heard(self, payload: str) -> None:
        with suppress(ValueError):  # anybody may send on the channel
            place = int(payload)
            waiting = self._waiting.get(place)
            for woken in waiting or ():
                woken.set()
            if not waiting and place in self._locked:
                task = asyncio.ensure_future(self._unlock(place))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _unlock(self, place: int) -> None:
        async with self._asking:
            if place in self._waiting or place not in self._locked:
                return
            self._locked.discard(place)
            try:
                await self._ask("select pg_advisory_unlock_shared($1)", place)
            except Exception:
                self._end()

    def _end(self) -> None:
        """Let go of the connection; who waits is woken to look, and to ask again."""
        db, self._db = self._db, None
        self._locked.clear()
        if db is not None and not db.closed:
            with suppress(RuntimeError, ValueError):
                asyncio.get_running_loop().remove_reader(db.pgconn.socket)
            db.pgconn.finish()
        for waiting in self._waiting.values():
            for woken in waiting:
                woken.set()
