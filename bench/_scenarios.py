"""Steps, one after another, side by side and many sessions at once, against the floor and LangGraph."""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import _langgraph
from bench._floor import Floor
from bench._ours import Durability, Ours
from bench._payload import LARGE, SMALL, chain_contracts, values
from bench._report import Report
from bench._timing import Laps, Round, best
from statepact import Store
from statepact.ledger import session_key
from statepact.stores import NewEntry

SIZES = {"1 KB": SMALL, "20 KB": LARGE}
LENGTH = 8
FAN_OUT = 12
SESSIONS = 16
MANY = 64


@dataclass(frozen=True)
class Plan:
    """How often everything is done, and where."""

    rounds: int
    chains: int
    """Chains in a round."""
    steps: int
    """Steps of the long sessions together."""
    disk: Path
    """A folder on a real disk, for what is flushed."""
    memory: Path
    """A folder for what is not, in memory if the machine has such a folder."""


def chains_of(length: int, size: int, count: int) -> list[list[dict[str, Any]]]:
    return [[values(chain * length + step, size) for step in range(length)] for chain in range(count)]


@contextmanager
def folder(parent: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="statepact-bench-", dir=parent) as name:
        yield Path(name)


def chain(report: Report, plan: Plan, durability: Durability) -> None:
    """Measure eight steps, each of which reads the one before."""
    full = durability == "power"
    report.title(f"chain of {LENGTH}, durability {durability}, time of one step")
    for size, length in SIZES.items():
        warm, cold = ("<= 2", "") if full else {"1 KB": ("<= 4", "<= 5"), "20 KB": ("<= 6", "<= 7")}[size]
        times = _chain_times(plan, durability, length)
        floor = times["floor"]
        what = "a direct FULL commit and read" if full else "insert and read on raw sqlite3"
        report.add(f"floor, {size}: {what}", floor, "us")
        for name, title, aim in (
            ("warm", "step, snapshot warm in the session", warm),
            ("cold", "step, every input read from SQLite", cold),
            ("run", "workflow run / 8, with opening, request and seal", ""),
            ("ask", "the same, answers read from a model's text", ""),
        ):
            report.add(f"{title}, {size}", times[name], "us", against="floor", base=floor, aim=aim)
        if "langgraph" not in times:
            report.missing(f"LangGraph, saver sync, {size}", "not installed: pip install -e '.[bench]'")
            continue
        graph, aim = times["langgraph"], "<= 0.333" if full else ""
        report.add(f"LangGraph, saver sync, {size}", graph, "us", against="floor", base=floor)
        report.add(f"step, warm, to LangGraph, {size}", times["warm"], "us", against="LangGraph", base=graph, aim=aim)
        report.add(f"workflow run / 8 to LangGraph, {size}", times["run"], "us", against="LangGraph", base=graph)


def _chain_times(plan: Plan, durability: Durability, length: int) -> dict[str, float]:
    full = durability == "power"
    with folder(plan.disk if full else plan.memory) as here, ExitStack() as stack:
        floor, ours = Floor(here / "floor.db", full=full), Ours(here / "ours.db", durability=durability)
        stack.callback(floor.close)
        stack.callback(ours.close)
        contracts = chain_contracts(LENGTH)
        chains = chains_of(LENGTH, length, plan.chains)
        plain, asking = ours.chain(contracts), ours.chain(contracts, ask=True)
        candidates: dict[str, Round] = {
            "floor": lambda: floor.chain(chains),
            "warm": lambda: ours.run(ours.steps(contracts, chains)),
            "cold": lambda: ours.run(ours.steps(contracts, chains, cold=True)),
            "run": lambda: ours.run(ours.runs(plain, contracts, chains)),
            "ask": lambda: ours.run(ours.runs(asking, contracts, chains, asked=True)),
        }
        if _langgraph.INSTALLED:
            graph = _langgraph.LangGraph(here / "langgraph.db", full=full)
            stack.callback(graph.close)
            candidates["langgraph"] = lambda: graph.chain(chains[: max(1, plan.chains // 4)])
        return _microseconds(best(candidates, plan.rounds), LENGTH)


def fan_out(report: Report, plan: Plan) -> None:
    """Measure one step, ten that read it at once, and one that reads those."""
    report.title(f"ten-way fan-out and join ({FAN_OUT} steps), durability process, time of the whole")
    for size, length in SIZES.items():
        times = _fan_out_times(plan, length)
        floor = times["floor"]
        report.add(f"floor, {size}", floor, "us")
        report.add(f"workflow run, {size}", times["ours"], "us", against="floor", base=floor, aim="<= 4")
        if "langgraph" in times:
            report.add(f"LangGraph, saver sync, {size}", times["langgraph"], "us", against="floor", base=floor)


def _fan_out_times(plan: Plan, length: int) -> dict[str, float]:
    with folder(plan.memory) as here, ExitStack() as stack:
        floor, ours = Floor(here / "floor.db"), Ours(here / "ours.db")
        stack.callback(floor.close)
        stack.callback(ours.close)
        contracts = chain_contracts(FAN_OUT)
        workflow = ours.fan_out(contracts)
        chains = chains_of(FAN_OUT, length, max(1, plan.chains // 2))
        candidates: dict[str, Round] = {
            "floor": lambda: floor.fan_out(chains),
            "ours": lambda: ours.run(ours.runs(workflow, contracts, chains)),
        }
        if _langgraph.INSTALLED:
            graph = _langgraph.LangGraph(here / "langgraph.db", full=False)
            stack.callback(graph.close)
            candidates["langgraph"] = lambda: graph.fan_out(chains[: max(1, plan.chains // 8)])
        return _microseconds(best(candidates, plan.rounds), 1)


def many_sessions(report: Report, plan: Plan) -> None:
    """Measure 16 sessions that flush at once: the store alone, and whole steps."""
    report.title(f"{SESSIONS} sessions at once, 1 KB, on the disk")
    payloads = [b"x" * SMALL] * (plan.chains * LENGTH)
    contracts = chain_contracts(LENGTH)
    chains = chains_of(LENGTH, SMALL, SESSIONS * max(1, plan.chains // 8))
    with folder(plan.disk) as here, ExitStack() as stack:
        floor = Floor(here / "floor.db", full=True)
        power, process = (Ours(here / f"{name}.db", durability=name) for name in ("power", "process"))
        for closing in (floor, power, process):
            stack.callback(closing.close)
        times = best(
            {
                "direct": lambda: floor.appends(payloads),
                "alone": lambda: power.run(_appends(power.store, power.owner(), len(payloads))),
                "power": lambda: power.run(power.at_once(contracts, chains, SESSIONS)),
                "process": lambda: process.run(process.at_once(contracts, chains, SESSIONS)),
                "one": lambda: process.run(process.at_once(contracts, chains, 1)),
                "many": lambda: process.run(process.at_once(contracts, chains, MANY)),
            },
            plan.rounds,
        )
    rates = {name: 1 / seconds for name, seconds in times.items()}
    report.add("one FULL commit for each step, raw sqlite3", rates["direct"], "per s")
    report.add(
        "store alone, group commit", rates["alone"], "per s", against="a commit each", base=rates["direct"], aim=">= 5"
    )
    report.add("whole steps, process", rates["process"], "per s")
    report.add("whole steps, power", rates["power"], "per s", against="process", base=rates["process"], aim=">= 0.7")
    report.add("whole steps, process, one session", rates["one"], "per s")
    report.add(
        f"whole steps, process, {MANY} sessions", rates["many"], "per s", against="one", base=rates["one"], aim=">= 0.6"
    )


def written(report: Report, plan: Plan) -> None:
    """Measure the bytes that a step makes the process write, by the count of the kernel."""
    report.title("bytes written for a step of 1 KB, durability power")
    if not Path("/proc/self/io").exists():
        report.missing("bytes written", "this system does not count them")
        return
    contracts = chain_contracts(LENGTH)
    chains = chains_of(LENGTH, SMALL, SESSIONS * max(1, plan.chains // 8))
    for sessions, limit in ((1, 24_000), (SESSIONS, 5_000)):
        with folder(plan.disk) as here:
            ours = Ours(here / "ours.db", durability="power")
            ours.run(ours.at_once(contracts, chains[:SESSIONS], sessions))  # makes the file
            before = _written()
            ours.run(ours.at_once(contracts, chains, sessions))
            each = (_written() - before) / (len(chains) * LENGTH)
            ours.close()
        what = f"{sessions} session{'s' * (sessions > 1)}"
        report.add(what, each, "bytes", against=f"{limit:,} bytes", base=limit, aim="<= 1")


def _written() -> int:
    """Return how many bytes this process has handed to write calls so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


async def _appends(store: Store, owner: str, count: int) -> float:
    """Return the seconds of one append when 16 sessions append at once."""

    async def one(number: int) -> None:
        key = session_key(owner, f"s{number}")
        for after in range(count):
            await store.append(key, [NewEntry(b"h" * 80, b"x" * SMALL)], after=after)

    with Laps() as laps:
        await asyncio.gather(*(one(number) for number in range(SESSIONS)))
    return laps.typical / (SESSIONS * count)


def _microseconds(times: Mapping[str, float], steps: int) -> dict[str, float]:
    return {name: seconds / steps * 1e6 for name, seconds in times.items()}
