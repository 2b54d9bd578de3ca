"""What stays on the disk, and whether the thousandth step costs what the first did."""

import sqlite3
import statistics
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter

from bench._ours import Ours, step
from bench._payload import SMALL, Brief, Record, chain_contracts, values
from bench._report import Report
from bench._scenarios import SIZES, Plan, folder
from statepact import open_session

RUN = 10
"""Steps of a run in a long session."""


def stored(report: Report, plan: Plan) -> None:
    """Measure bytes per step for many short sessions and for one long one."""
    report.title(f"stored bytes of a step: growth over the empty file, runs of {RUN} chained steps")
    for size, length in SIZES.items():
        lowest = highest = 0.0
        sessions = plan.steps // RUN
        while sessions:
            steps = plan.steps // sessions
            with folder(plan.memory) as here:
                ours = Ours(here / "ours.db")
                ours.run(_nothing(ours))
                empty = _settled(here / "ours.db")
                ours.run(_sessions(ours, sessions, steps, length))
                each = (_settled(here / "ours.db") - empty) / plan.steps
                ours.close()
            lowest, highest = min(lowest or each, each), max(highest, each)
            aim = {"1 KB": "<= 1.3", "20 KB": "<= 1.1"}[size]
            what = f"{sessions:,} x {steps:,} steps, {size}"
            report.add(what, each, "bytes", against="payload", base=length, aim=aim)
            sessions //= 10
        report.add(f"most to least of these, {size}", highest, "bytes", against="least", base=lowest, aim="<= 1.05")


def length(report: Report, plan: Plan) -> None:
    """Measure the first and the last ten steps of a long session."""
    report.title(f"{plan.steps:,} steps in one session, 1 KB, median of ten steps")
    for what, work, aim in (
        (f"runs of {RUN} chained steps", _in_runs, "<= 1.2"),
        ("one run, one pinned fact", _in_one_run, "<= 1.2"),
        ("one run, each step adds a pinned fact", _growing, ""),
    ):
        ends: list[tuple[float, float]] = []
        for _ in range(max(1, plan.rounds // 2) if aim else 1):
            with folder(plan.memory) as here:
                ours = Ours(here / "ours.db")
                times: list[float] = []
                ours.run(work(ours, plan.steps, times))
                ours.close()
            ends.append((statistics.median(times[:10]), statistics.median(times[-10:])))
        first, last = (min(end[at] for end in ends) * 1e6 for at in (0, 1))
        report.add(f"{what}: first ten", first, "us")
        report.add(f"{what}: last ten", last, "us", against="first ten", base=first, aim=aim)


async def _nothing(ours: Ours) -> float:
    await ours.store.sessions("nobody")
    return 0.0


def _settled(path: Path) -> int:
    """Return the size of a database after a checkpoint."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma wal_checkpoint(truncate)").fetchall()
    return path.stat().st_size


async def _sessions(ours: Ours, sessions: int, steps: int, size: int) -> float:
    contracts = chain_contracts(RUN)
    seed = 0
    for number in range(sessions):
        for run in range(steps // RUN):
            await _run(ours, f"s{number}", run, contracts, range(seed, seed + RUN), size)
            seed += RUN
    return 0.0


async def _run(
    ours: Ours, session: str, run: int, contracts: Sequence[type[Record]], seeds: range, size: int
) -> list[float]:
    """Do one run of a session and return the time of each step."""
    times = []
    outputs = [contract(**values(seed, size)) for contract, seed in zip(contracts, seeds, strict=True)]
    async with open_session(session, store=ours.store, run=f"r{run}") as opened:
        for at, output in enumerate(outputs):
            start = perf_counter()
            await step(opened, f"step{at}", contracts[max(at - 1, 0) : at], output)
            times.append(perf_counter() - start)
    return times


async def _in_runs(ours: Ours, steps: int, times: list[float]) -> float:
    contracts = chain_contracts(RUN)
    await _run(ours, "warm-up", 0, contracts, range(RUN), SMALL)
    for run in range(steps // RUN):
        times += await _run(ours, "long", run, contracts, range(run * RUN, (run + 1) * RUN), SMALL)
    return 0.0


async def _in_one_run(ours: Ours, steps: int, times: list[float], *, pins: bool = False) -> float:
    """Do all steps in one run: the same step again and again, a branch for each."""
    for name, count in (("warm-up", 10), ("long", steps)):
        outputs = [_pin(number) if pins else Record(**values(number, SMALL)) for number in range(count)]
        times.clear()
        async with open_session(name, store=ours.store) as session:
            await step(session, "brief", [], Brief(problem="the blade broke"))
            for number, output in enumerate(outputs):
                start = perf_counter()
                await step(session, "work", [], output, branch=str(number))
                times.append(perf_counter() - start)
    return 0.0


def _pin(number: int) -> Brief:
    return Brief(problem=f"fact {number}: the lid leaks")


async def _growing(ours: Ours, steps: int, times: list[float]) -> float:
    return await _in_one_run(ours, steps, times, pins=True)
