"""`python -m bench`: prints a table and writes `build/bench.json`."""

import argparse
import gc
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from bench import _growth, _pins, _scenarios, _servers, _startup
from bench._report import Report
from bench._scenarios import Plan

_BUILD = Path(__file__).parent.parent / "build"
_SCENARIOS: dict[str, Callable[[Report, Plan], None]] = {
    "power": lambda report, plan: _scenarios.chain(report, plan, "power"),
    "process": lambda report, plan: _scenarios.chain(report, plan, "process"),
    "fan-out": _scenarios.fan_out,
    "sessions": _scenarios.many_sessions,
    "written": _scenarios.written,
    "postgres": _servers.postgres,
    "redis": _servers.redis,
    "stored": _growth.stored,
    "length": _growth.length,
    "pins": _pins.pins,
    "memory": _startup.memory,
    "start": lambda report, plan: _startup.startup(report, plan.rounds + 2),
}


def main() -> None:
    options = _options()
    started = perf_counter()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=_made(options.disk)) as disk:
        memory = Path("/dev/shm")
        if not os.access(memory, os.W_OK):
            memory = Path(disk)
        rounds, chains, steps = (1, 2, 100) if options.quick else (6, 20, 1_000)
        plan = Plan(rounds=rounds, chains=chains, steps=steps, disk=Path(disk), memory=memory)
        _describe(report, plan)
        # What was imported up to here is nobody's garbage, so no collection should walk over it.
        gc.collect()
        gc.freeze()
        for name, scenario in _SCENARIOS.items():
            if not options.only or name in options.only:
                scenario(report, plan)
    report.note("load at the end", _load())
    report.write(options.out)
    print(f"\n{report.summary()}\n{len(report.rows)} rows in {options.out}, {perf_counter() - started:.0f} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; shows that it runs, no more")
    parser.add_argument("--only", nargs="+", choices=_SCENARIOS, metavar="NAME", help=f"of: {', '.join(_SCENARIOS)}")
    parser.add_argument("--out", type=Path, default=_BUILD / "bench.json", help="where the rows go as JSON")
    parser.add_argument("--disk", type=Path, default=_BUILD, help="a folder on a real disk")
    return parser.parse_args()


def _describe(report: Report, plan: Plan) -> None:
    from statepact import __version__

    report.note("statepact", __version__)
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    report.note("machine", f"{os.cpu_count()} CPUs, {versions}")
    report.note("load at the start", _load())
    report.note("power rows on", _filesystem(plan.disk))
    report.note("process rows on", _filesystem(plan.memory))
    if _filesystem(plan.disk).startswith("tmpfs"):
        print("  the power rows mean nothing here: choose a real disk with --disk", file=sys.stderr)


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg()) + " (1, 5, 15 minutes)"


def _filesystem(path: Path) -> str:
    """Return the file system that a folder is on, as far as the machine tells."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    here = path.resolve()
    holding = [(mount, kind) for mount, kind in mounts if here.is_relative_to(mount)]
    mount, kind = max(holding, key=lambda found: len(found[0]), default=("?", "unknown"))
    return f"{kind}, mounted at {mount}"


if __name__ == "__main__":
    main()
