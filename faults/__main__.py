"""`python -m faults`: let everything fail around the stores, and say what was lost.

Prints a table, writes `build/faults.json`, and ends with 0 only if the stores that promise to keep
everything have, the control arms have lost something, and every planted bug was found.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from faults import (
    _beside,
    _clocks,
    _errors,
    _eviction,
    _failed_sync,
    _failover,
    _full_disk,
    _histories,
    _kill,
    _kill_server,
    _machine,
    _migrations,
    _network,
    _partition,
    _planted,
    _power,
    _servers,
    _shim,
)
from faults._ledger import Ledger
from faults._place import Place, sweep_up
from faults._report import Report
from faults._stores import sqlite
from faults._tally import Tally

BUILD = Path(__file__).parent.parent / "build"
PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"


def main() -> int:
    """Return the exit code."""
    options = _options()
    if not _shim.is_loaded():
        try:
            _shim.start_again_under_it(["-m", "faults", *sys.argv[1:]])
        except _shim.NoCompiler as missing:
            print(missing, file=sys.stderr)
            return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Like Ctrl-C: servers end and folders go, which the default would leave behind.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    started = time.monotonic()
    BUILD.mkdir(exist_ok=True)
    sweep_up(BUILD)
    report = Report(seed=options.seed, long=options.long)
    with Ledger() as ledger:
        # Before any server is forked: the ledger must outlive them all.
        os.environ.pop("LD_PRELOAD", None)
        place = Place(ledger, options.seed, options.long, BUILD)
        for name, campaign in _campaigns(place, factor=10 if options.long else 1):
            if _chosen(options, name):
                for tally in campaign():
                    report.add(tally)
        if _chosen(options, "planted"):
            _find_planted(place, report)
        if _chosen(options, "simulation"):
            report.simulate(seeds=20_000 if options.long else options.simulations)
    report.seconds = time.monotonic() - started
    report.write_json(BUILD / "faults.json")
    for path in options.join:
        report.join(path)
    if options.write:
        report.write_page(PAGE)
    print(report.summary())
    return 0 if report.ok(complete=not options.only and not options.store) else 1


def _chosen(options: argparse.Namespace, name: str) -> bool:
    if options.store and not name.startswith(options.store):
        return False
    return not options.only or any(word in name for word in options.only)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--long", action="store_true", help="ten times as many faults; some hours")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="campaigns whose name holds a word")
    parser.add_argument("--store", choices=["memory", "sqlite", "postgres", "redis"], help="campaigns on one store")
    parser.add_argument("--seed", type=int, default=1, help="draws the moments of faults")
    parser.add_argument("--simulations", type=int, default=2_000, help="seeds of the deterministic simulation")
    parser.add_argument(
        "--join", nargs="+", type=Path, default=[], metavar="FILE", help="build/faults.json of earlier runs"
    )
    parser.add_argument("--write", action="store_true", help="write the table to docs/reliability.md")
    return parser.parse_args()


def _campaigns(place: Place, *, factor: int) -> Iterator[tuple[str, Callable[[], list[Tally]]]]:
    power, process = sqlite("power"), sqlite("process")
    pg, aof = _servers.target("postgres", "power"), _servers.target("redis", "always")
    yield "memory clocks", lambda: [_clocks.clock_jumps(place, "memory", 20 * factor)]
    yield "sqlite kill", lambda: [_kill.kill_at_random(place, power, 50 * factor)]
    yield "sqlite points", lambda: [_kill.kill_at_points(place, power, factor)]
    yield "sqlite process kill", lambda: [_kill.kill_at_random(place, process, 20 * factor)]
    yield "sqlite power", lambda: [_power.power_loss(place, "power", 200 * factor)]
    yield "sqlite power control", lambda: [_power.power_loss(place, "process", 60 * factor, control=True)]
    yield (
        "sqlite disk",
        lambda: [*_errors.disk_errors(place, "power", 90 * factor, step=3), _errors.next_commit(place, "power")],
    )
    yield (
        "sqlite disk, then killed",
        lambda: [_failed_sync.end_after_failed_sync(place, "power", 90 * factor, step=5)],
    )
    yield "sqlite read-only", lambda: [_errors.read_only(place)]
    yield "sqlite two", lambda: [_beside.two_at_once(place, power, 2 * factor)]
    yield "sqlite frozen", lambda: [_beside.frozen_worker(place, power, 20 * factor)]
    yield "sqlite histories", lambda: [_histories.histories(place, power, 110 * factor)]
    yield "sqlite clocks", lambda: [_clocks.clock_jumps(place, "sqlite", 30 * factor)]
    yield "sqlite migrations", lambda: [_migrations.sqlite_migrations(place)]
    yield "postgres kill", lambda: [_kill.kill_at_random(place, pg, 12 * factor)]
    yield "postgres points", lambda: [_kill.kill_at_points(place, pg, factor)]
    yield "postgres two", lambda: [_beside.two_at_once(place, pg, 2 * factor)]
    yield "postgres frozen", lambda: [_beside.frozen_worker(place, pg, 20 * factor)]
    yield "postgres histories", lambda: [_histories.histories(place, pg, 30 * factor)]
    yield "postgres migrations", lambda: [_migrations.postgres_migrations(place, step=1 if place.long else 4)]
    serve = _servers.postgres
    yield "postgres server", lambda: [_kill_server.kill_server(place, "postgres", "power", serve, 20 * factor)]
    yield (
        "postgres server control",
        lambda: [_kill_server.kill_server(place, "postgres", "process", serve, 5 * factor, control=True)],
    )
    yield "postgres network", lambda: [_network.broken_network(place, "postgres", "power", 2 * factor)]
    yield "redis kill", lambda: [_kill.kill_at_random(place, aof, 30 * factor)]
    yield "redis points", lambda: [_kill.kill_at_points(place, aof, factor)]
    yield "redis two", lambda: [_beside.two_at_once(place, aof, 2 * factor)]
    yield "redis frozen", lambda: [_beside.frozen_worker(place, aof, 20 * factor)]
    yield "redis histories", lambda: [_histories.histories(place, aof, 60 * factor)]
    yield "redis eviction", lambda: [_eviction.out_of_memory(place, 2 * factor), _eviction.evicting_policies(place)]
    yield "redis network", lambda: [_network.broken_network(place, "redis", "always", 2 * factor)]
    valkey = _servers.valkey
    yield (
        "redis server",
        lambda: [
            _kill_server.kill_server(place, "redis", "always", valkey, 20 * factor),
            _kill_server.kill_server(place, "redis", "everysec", valkey, 20 * factor, must_hold=False),
        ],
    )
    slow = partial(valkey, slow_sync=1.5)
    yield (
        "redis server, slow disk",
        lambda: [
            _kill_server.kill_server(
                place, "redis", "everysec", slow, 4 * factor, must_hold=False, longest=2.5, lives=1,
                what="kill -9 of the server while a flush takes 1.5 s",
            )
        ],
    )  # fmt: skip
    yield (
        "redis machine",
        lambda: [
            _machine.machine_stops(place, "always", 4 * factor),
            _machine.machine_stops(place, "everysec", 2 * factor, control=True, longest=1.5),
        ],
    )
    yield (
        "redis server control",
        lambda: [_kill_server.kill_server(place, "redis", "none", valkey, 2 * factor, control=True)],
    )
    if place.long:
        yield "postgres disk", lambda: [_full_disk.full_disk(place, 10)]
        yield (
            "redis partition",
            lambda: [
                _partition.partition(place, "defaults", 3, wait=0, control=True),
                _partition.partition(place, "wait=1", 3, wait=1),
            ],
        )
        yield (
            "redis failover",
            lambda: [
                _failover.sentinel_failover(place, "defaults", 3, wait=0),
                _failover.sentinel_failover(place, "wait=1", 3, wait=1),
                _failover.cluster_failover(place, 3),
            ],
        )


def _find_planted(place: Place, report: Report) -> None:
    """Look for each planted bug with the campaign that has to find it."""
    power, pg, aof = sqlite("power"), _servers.target("postgres", "power"), _servers.target("redis", "always")
    campaigns: dict[str, Callable[[Place, Callable[[], None]], list[Tally]]] = {
        "power": lambda place, bug: [_power.power_loss(place, "power", 60, bug=bug)],
        "points": lambda place, bug: [_kill.kill_at_points(place, power, 1, bug=bug)],
        "postgres points": lambda place, bug: [_kill.kill_at_points(place, pg, 1, bug=bug)],
        "redis points": lambda place, bug: [_kill.kill_at_points(place, aof, 1, bug=bug)],
        "postgres two": lambda place, bug: [_beside.two_at_once(place, pg, 2, bug=bug)],
        "postgres frozen": lambda place, bug: [_beside.frozen_worker(place, pg, 1, bug=bug)],
        "redis two": lambda place, bug: [_beside.two_at_once(place, aof, 2, bug=bug)],
        "redis frozen": lambda place, bug: [_beside.frozen_worker(place, aof, 1, bug=bug)],
        "kill": lambda place, bug: [_kill.kill_at_random(place, power, 12, bug=bug)],
        "disk": lambda place, bug: _errors.disk_errors(place, "power", 60, step=3, bug=bug),
        "sync": lambda place, bug: [_failed_sync.end_after_failed_sync(place, "power", 24, step=3, bug=bug)],
        "next commit": lambda place, bug: [_errors.next_commit(place, "power", bug=bug)],
        "two": lambda place, bug: [_beside.two_at_once(place, power, 2, bug=bug)],
        "frozen": lambda place, bug: [_beside.frozen_worker(place, power, 2, bug=bug)],
        "histories": lambda place, bug: [_histories.histories(place, power, 24, bug=bug)],
    }
    for name, planted in _planted.PLANTED.items():
        found = None
        for again in range(6):
            # What a bug shows depends on who is scheduled when; six tries, with other moments.
            here = replace(place, seed=place.seed + again)
            found = next((t for t in campaigns[planted.found_by](here, planted.plant) if t.found_something), None)
            if found is not None:
                break
        report.planted(name, planted.says, found)


if __name__ == "__main__":
    sys.exit(main())
