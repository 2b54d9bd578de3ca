"""Statements on a PostgreSQL server, from any event loop: connections, deadlines, what is tried again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statepact.errors import SetupError, StoreReadOnly, StoreUnavailable
from statepact.stores._per_loop import PerLoop
from statepact.stores._postgres_errors import AGAIN, explain, late
from statepact.stores._postgres_listen import Listener
from statepact.stores._postgres_pool import Pool, closed, cut
from statepact.stores._postgres_schema import Schema, check_server, migrate, refuse_unflushed
from statepact.stores._postgres_target import Target

if TYPE_CHECKING:
    import psycopg


@dataclass(slots=True)
class _Here:
    """What belongs to one event loop."""

    pool: Pool
    listener: Listener

    def abandon(self) -> None:
        """Close everything at once; for a loop that has ended."""
        self.pool.abandon()
        self.listener.abandon()

    def close(self) -> None:
        """Take no more work, and wake all who wait."""
        self.listener.close()
        self.pool.close()


class Connections:
    """A place and a schema there, checked and with our tables from the first connection on.

    `durable` refuses a server that does not flush what it acknowledges; otherwise `flushes` says so.
    """

    def __init__(self, target: Target, schema: Schema, *, durable: bool, timeout: float, most: int) -> None:
        self.target = target
        self.flushes = True
        """Whether the server flushes at all, as far as is known."""
        self.closed = False
        self._schema = schema
        self._durable = durable
        self._timeout = timeout
        self._most = most
        self._loops = PerLoop(
            lambda: _Here(Pool(self._connect, size=self._most), Listener(self._connect, self._schema))
        )
        self._ready = False

    async def run(self, statement: str, values: Sequence[object], *, writing: bool) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, which is one transaction.

        A read whose connection has ended is done once more; a write never is, unless the server has said
        that it undid the first try.
        """
        import psycopg

        until = time.monotonic() + self._timeout
        here = self._here()
        where = self.target.shown
        tries = 0
        while True:
            loan = here.pool.lend(until=until)
            try:
                async with loan as db:
                    cursor = await db.execute(statement, values, binary=True)
                    return await cursor.fetchall()
            except psycopg.Error as error:
                tries += 1
                left = until - time.monotonic()
                if loan.is_late:
                    raise late(where, self._timeout, writing=writing) from error
                if error.sqlstate in AGAIN and left > 0:
                    await asyncio.sleep(min(0.002 * tries * tries, 0.1, left))
                    continue
                explained = explain(error, where, writing=writing)
                if isinstance(explained, StoreReadOnly):
                    here.pool.drop_idle()
                if not writing and tries == 1 and left > 0 and isinstance(explained, StoreUnavailable):
                    here.pool.drop_idle()
                    continue
                raise explained from self.target.cause(error)
            except UnicodeEncodeError as error:
                raise SetupError("a name holds half of a surrogate pair, which is not text") from error

    @property
    def listener(self) -> Listener:
        """Who hears of commits for the running loop."""
        return self._here().listener

    def _here(self) -> _Here:
        if self.closed:
            raise closed()
        return self._loops.here()

    async def _connect(self, timeout: float) -> psycopg.AsyncConnection[Any]:
        """Return a connection to a server that keeps what it acknowledges and has our tables."""
        import psycopg

        db = await self.target.connect(timeout=timeout)
        cutter = asyncio.get_running_loop().call_later(max(0.0, timeout), cut, db)
        try:
            if not await check_server(db, timeout=self._timeout):
                if self._durable:
                    raise refuse_unflushed()
                self.flushes = False
            if not self._ready:
                await migrate(db, self._schema)
                self._ready = True
        except psycopg.errors.InsufficientPrivilege as error:
            db.pgconn.finish()
            raise StoreUnavailable(
                f"{self.target.shown}: this role may not make the schema {self._schema.name!r} or its tables",
                hint=f"let its owner open the store once, or run: create schema {self._schema.quoted}"
                " authorization our_role",
            ) from self.target.cause(error)
        except psycopg.Error as error:
            db.pgconn.finish()
            raise explain(error, self.target.shown, writing=False) from self.target.cause(error)
        except BaseException:
            db.pgconn.finish()
            raise
        finally:
            cutter.cancel()
        return db

    async def close(self) -> None:
        """Take no more work, finish what is under way on this loop, and let go of the server."""
        self.closed = True
        ours = asyncio.get_running_loop()
        for loop, here in self._loops.take_all():
            if loop is ours:
                here.close()
                await here.pool.finished()
            else:
                loop.call_soon_threadsafe(here.close)
