"""C13, open data of every layout, and a worker killed at each statement of its migration."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable

from faults import _points, _servers
from faults._checker import Findings, check
from faults._children import Child
from faults._place import Place, nothing
from faults._tally import Tally
from faults._worker import Job, work

MOST = 200
"""Statements of a migration, at most."""


def sqlite_migrations(place: Place, *, bug: Callable[[], None] = nothing) -> Tally:
    """Kill a worker before and after each statement that makes or changes the tables of a file."""
    from statepact.stores._sqlite_schema import MIGRATIONS

    tally = Tally(
        "sqlite", "power", "kill -9 at each statement of a migration", seeds=f"layouts 0 to {len(MIGRATIONS)}"
    )
    for layout in range(len(MIGRATIONS)):
        if layout:
            # The day there is a second layout, the first one's data has to be kept for this campaign.
            tally.void = f"no data of layout {layout} is kept here"
            continue
        for moment in range(1, MOST):
            with place.folder() as folder:
                url = place.sqlite(folder)
                died = _killed_at(_points.watch_statements, url, moment, bug)
                if not died:
                    break
                _go_on(place, url, tally, f"layout {layout}, moment {moment}")
    return tally.done()


def postgres_migrations(place: Place, *, bug: Callable[[], None] = nothing, step: int = 1) -> Tally:
    """The same on PostgreSQL, where each new schema is a store of its own."""
    tally = Tally("postgres", "power", "kill -9 at each statement of a migration", seeds=f"layout 0, step {step}")
    with _servers.postgres(place, "power") as served:
        for moment in range(1, MOST, step):
            url = f"{served.url}&schema=at_{moment}"
            if not _killed_at(_watch_postgres, url, moment, bug):
                break
            _go_on(place, url, tally, f"moment {moment}")
    return tally.done()


def _watch_postgres(reached: Callable[[str], None]) -> None:
    import psycopg

    execute = psycopg.AsyncConnection.execute

    async def watched(self: object, *values: object, **named: object) -> object:
        reached("before")
        result = await execute(self, *values, **named)  # type: ignore[call-overload]
        reached("after")
        return result

    psycopg.AsyncConnection.execute = watched  # type: ignore[method-assign, assignment]


def _killed_at(watch: Callable[[Callable[[str], None]], None], url: str, moment: int, bug: Callable[[], None]) -> bool:
    """Open a store for the first time, and die at a moment of it; return whether it came to that."""

    def live() -> None:
        bug()
        left = moment

        def reached(_: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

        watch(reached)
        asyncio.run(_look(url))

    child = Child(live)
    ended = child.wait(20)
    child.kill()
    return ended == -signal.SIGKILL


async def _look(url: str) -> None:
    from statepact.stores import open_store

    async with open_store(url) as store:
        await store.owners()


def _go_on(place: Place, url: str, tally: Tally, where: str) -> None:
    """Whatever the dead one has left, the next one must be able to work with it."""
    place.ledger.clear()
    try:
        asyncio.run(work(Job(url, place.ledger.path, ("s0",), runs=1)))
    except sqlite3.Error as error:
        tally.remark(f"{where}: {error}")
    books = place.ledger.read()
    found: Findings = check(url, books)
    if not books.committed:
        errors = {record.error for record in books.records.values()} or {"nothing was even tried"}
        found.remark(f"{where}: nothing could be committed afterwards ({', '.join(sorted(errors))})")
    tally.add(found, hit=True)
    tally.count(found)
