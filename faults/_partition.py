"""C6, the network between the hosts is cut: the old primary goes on alone with whoever stands beside it.

Each host is a network namespace, so this needs root and `ip`; without them the campaign says so.
"""

import asyncio
import ctypes
import os
import pickle
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from faults._checker import Findings, check
from faults._children import Child
from faults._ensemble import NAME, Node, data_node, is_ready, primary_by, running, sentinel_node, until
from faults._failover import Score
from faults._kill_server import compared
from faults._place import Place
from faults._receipts import Receipts, Remembering
from faults._tally import Tally
from faults._worker import OWNER, Job, run_worker

CUT = 11.0
"""Seconds."""
_NEW_NETWORK = 0x4000_0000


def why_not() -> str:
    """Return why hosts cannot be simulated here, empty if they can."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "needs root and ip(8), for network namespaces"
    name = f"faults{os.getpid()}probe"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no network namespaces here: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return ""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    """Four hosts at a switch: three with a server and a Sentinel, and one with clients only."""

    HOSTS = ("a", "b", "c", "d")

    def __init__(self) -> None:
        self._base = f"faults{os.getpid()}"
        self._switch = f"{self._base}x"

    def space(self, host: str) -> str:
        return self._base + host

    def address(self, host: str) -> str:
        return f"10.77.0.{self.HOSTS.index(host) + 1}"

    def prefix(self, host: str) -> list[str]:
        return ["ip", "netns", "exec", self.space(host)]

    def make(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "name", "br0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "br0", "up")
        for host in self.HOSTS:
            space = self.space(host)
            _ip("netns", "add", space)
            _ip(
                "link",
                "add",
                "name",
                "eth",
                "netns",
                space,
                "type",
                "veth",
                "peer",
                "name",
                f"p{host}",
                "netns",
                self._switch,
            )
            _ip("-n", self._switch, "link", "set", f"p{host}", "master", "br0", "up")
            _ip("-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "eth")
            _ip("-n", space, "link", "set", "eth", "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def cut(self, host: str) -> None:
        _ip("-n", self._switch, "link", "set", f"p{host}", "down")

    def heal(self, host: str) -> None:
        _ip("-n", self._switch, "link", "set", f"p{host}", "up")

    def remove(self) -> None:
        for space in (*map(self.space, self.HOSTS), self._switch):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    @contextmanager
    def made(self) -> Iterator["Network"]:
        try:
            self.make()
            yield self
        finally:
            self.remove()

    def enter(self, host: str) -> None:
        """Move this process to a host, for good."""
        with open(f"/run/netns/{self.space(host)}") as file:  # noqa: PTH123 - as the kernel names it
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")

    def ask(self, host: str, work: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Do something on a host and return what it returns."""
        reading, writing = os.pipe()

        def there() -> None:
            self.enter(host)
            with os.fdopen(writing, "wb") as out:
                pickle.dump(work(), out)

        child = Child(there, quiet=False)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            raw = answer.read()
        if child.wait(seconds) != 0:
            child.kill()
            raise RuntimeError(f"something has failed on host {host}")
        return pickle.loads(raw)

    def ask_until(self, host: str, condition: Callable[[], bool], seconds: float, what: str) -> None:
        def waited() -> bool:
            until(condition, seconds, what)
            return True

        self.ask(host, waited, seconds + 10)


def partition(place: Place, mode: str, rounds: int, *, wait: int, control: bool = False) -> Tally:
    """Cut off the primary with a client beside it, let the others choose a new one, and heal."""
    tally = Tally("redis", mode, "the primary's host is cut off for 11 s", control, seeds=place.seeds(rounds))
    tally.must_hold = False
    if reason := why_not():
        tally.void = reason
        return tally.done()
    score = Score()
    for _ in range(rounds):
        with place.folder() as folder, Network().made() as network:
            first = network.address("a"), 6379
            nodes, watchers = [], []
            for host in "abc":
                where = network.address(host)
                of = None if host == "a" else first
                nodes.append(data_node(folder / host, where, 6379, network.prefix(host), of=of))
                watchers.append(sentinel_node(folder / f"s{host}", where, 26379, first, network.prefix(host)))
            with running([*nodes, *watchers]):
                network.ask_until("d", lambda: is_ready(nodes[0], watchers, 2), 40, "Sentinel knows everybody")  # noqa: B023
                _one_partition(place, network, watchers, tally, score, folder, wait)
    return score.told(tally)


def _one_partition(
    place: Place, network: Network, watchers: Sequence[Node], tally: Tally, score: Score, folder: Path, wait: int
) -> None:
    place.ledger.clear()
    hosts = ",".join(f"{network.address(host)}:26379" for host in "abc")
    url = f"redis+sentinel://{hosts}/{NAME}?timeout=1" + f"&wait={wait}" * bool(wait)
    receipts = [Receipts(folder / f"receipts-{host}") for host in "ad"]
    children = []
    for host, kept in zip("ad", receipts, strict=True):
        wrap = partial(Remembering, receipts=kept)
        sessions = (f"{host}0", f"{host}1", f"{host}2")
        job = Job(url, place.ledger.path, sessions, batches=(), patience=30, pause=0.002, wrap=wrap)

        def live(host: str = host, job: Job = job) -> None:
            network.enter(host)
            run_worker(job)

        children.append(Child(live))
    try:
        _sleep_until(place, lambda: place.ledger.acked() > 100, 20)
        flying = place.ledger.read().flying_now
        network.cut("a")
        cut = time.monotonic()
        majority = place.ledger.read().committed
        network.ask_until(
            "d", lambda: primary_by(watchers[1])[0] != network.address("a"), 30, "a new primary is chosen"
        )
        _sleep_until(
            place, lambda: any(name.startswith("acme/d") for name in place.ledger.read().committed - majority), 30
        )
        score.gaps.append(time.monotonic() - cut)
        time.sleep(max(0.0, CUT - (time.monotonic() - cut)))
        network.heal("a")
        time.sleep(1.0)
    finally:
        for child in children:
            child.kill()
    old = data_node(folder / "a", network.address("a"), 6379)
    network.ask_until("d", lambda: old.client().info("replication")["role"] == "slave", 60, "the old primary gives in")

    def looked() -> tuple[Findings, set[str]]:
        said: set[str] = set()
        for kept in receipts:
            said |= asyncio.run(kept.missing(url))
        return check(url, books), said

    books = place.ledger.read()
    found, report = network.ask("d", looked)
    tally.add(found, hit=flying > 0)
    tally.count(found)
    score.exact = [old + new for old, new in zip(score.exact, compared(report, found, books), strict=True)]


def _of_majority(names: set[str]) -> bool:
    return any(name.startswith(f"{OWNER}/d") for name in names)


def _sleep_until(place: Place, condition: Callable[[], bool], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            errors = Counter((name[:6], one.error) for name, one in place.ledger.read().records.items() if one.error)
            raise TimeoutError(f"the workers do not work: {errors.most_common(6)}")
        time.sleep(0.05)
