"""C7, the primary is killed under load, and a replica takes its place: Sentinel, and a cluster."""

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from faults._checker import check
from faults._children import Child
from faults._ensemble import (
    DOWN_AFTER,
    NAME,
    Node,
    data_node,
    is_ready,
    primary_by,
    running,
    sentinel_node,
    start_cluster,
    until,
)
from faults._kill_server import compared
from faults._place import Place
from faults._receipts import Receipts, Remembering
from faults._tally import Tally
from faults._worker import Job, run_worker

HOST = "127.0.0.1"


def sentinel_failover(place: Place, mode: str, rounds: int, *, wait: int) -> Tally:
    """Kill the primary of three servers under load; Sentinel promotes a replica."""
    tally = Tally(
        "redis", mode, "the primary is killed, Sentinel fails over", seeds=place.seeds(rounds), must_hold=False
    )
    score = Score()
    for _ in range(rounds):
        with place.folder() as folder:
            a, b, c, *watching = free_ports(6)
            nodes = [data_node(folder / "a", HOST, a)]
            nodes += [data_node(folder / name, HOST, port, of=(HOST, a)) for name, port in (("b", b), ("c", c))]
            watchers = [sentinel_node(folder / f"s{n}", HOST, port, (HOST, a)) for n, port in enumerate(watching)]
            with running([*nodes, *watchers]):
                until(lambda: is_ready(nodes[0], watchers, 2), 40, "Sentinel knows everybody")  # noqa: B023
                hosts = ",".join(f"{HOST}:{port}" for port in watching)
                url = f"redis+sentinel://{hosts}/{NAME}?timeout=1" + f"&wait={wait}" * bool(wait)
                _one_failover(
                    place, url, tally, score, folder / "receipts",
                    kill=nodes[0].kill,
                    is_over=lambda: all(primary_by(one) != (HOST, a) for one in watchers),  # noqa: B023
                )  # fmt: skip
    return score.told(tally)


def cluster_failover(place: Place, rounds: int) -> Tally:
    """Kill one of three primaries of a cluster under load; its replica takes over."""
    tally = Tally("redis", "cluster", "a primary is killed, failover", seeds=place.seeds(rounds), must_hold=False)
    score = Score()
    clustered = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(DOWN_AFTER))
    for number in range(rounds):
        with place.folder() as folder:
            ports = free_ports(6)
            nodes = []
            for n, port in enumerate(ports):
                nodes.append(data_node(folder / f"n{n}", HOST, port, more=clustered))
            with running(nodes):
                start_cluster(nodes)
                victim, heir = nodes[number % 3], nodes[number % 3 + 3]
                _one_failover(
                    place, f"redis+cluster://{HOST}:{ports[(number + 1) % 3]}?timeout=1", tally, score,
                    folder / "receipts",
                    kill=victim.kill,
                    is_over=partial(_is_primary, heir),
                )  # fmt: skip
    return score.told(tally)


class Score:
    """What is measured beside the counts."""

    def __init__(self) -> None:
        self.exact = [0, 0, 0]
        self.gaps: list[float] = []

    def told(self, tally: Tally) -> Tally:
        named, missed, false = self.exact
        tally.also = (
            f"writes stood still for up to {max(self.gaps, default=0):.1f} s; own report: {named} of"
            f" {named + missed} lost facts named, {false} false alarms"
        )
        if missed or false:
            tally.inexact = missed + false
            tally.remark(f"the product's own report missed {missed} lost facts and named {false} that are there")
        return tally.done()


def _is_primary(node: Node) -> bool:
    return bool(node.client().info("replication")["role"] == "master")


def _one_failover(
    place: Place,
    url: str,
    tally: Tally,
    score: Score,
    notes: Path,
    *,
    kill: Callable[[], None],
    is_over: Callable[[], bool],
) -> None:
    place.ledger.clear()
    receipts = Receipts(notes)
    sessions = tuple(f"s{n}" for n in range(6))  # several slots of a cluster
    wrap = partial(Remembering, receipts=receipts)
    job = Job(url, place.ledger.path, sessions, batches=(), patience=30, pause=0.002, wrap=wrap)
    child = Child(partial(run_worker, job))
    try:
        until(lambda: place.ledger.acked() > 60, 20, "the worker works")
        time.sleep(random.Random(place.seed).random() * 0.3)
        flying = place.ledger.read().flying_now
        kill()
        died = time.monotonic()
        until(is_over, 40, "somebody has taken over")
        before = place.ledger.acked()
        until(lambda: place.ledger.acked() > before + 20, 40, "writes go on")
        score.gaps.append(time.monotonic() - died)
    finally:
        child.kill()
    books = place.ledger.read()
    found = check(url, books)
    tally.add(found, hit=flying > 0)
    tally.count(found)
    report = asyncio.run(receipts.missing(url))
    score.exact = [old + new for old, new in zip(score.exact, compared(report, found, books), strict=True)]


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses at the moment, low enough for a cluster's second port."""
    import socket

    found: list[int] = []
    chance = random.Random()
    while len(found) < count:
        port = chance.randint(20_000, 30_000)
        with socket.socket() as one, socket.socket() as bus:
            try:
                one.bind((HOST, port))
                bus.bind((HOST, port + 10_000))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found
