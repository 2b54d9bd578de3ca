"""C15, a Valkey server that runs out of memory: refused loudly, or not used at all."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from faults import _servers
from faults._checker import check
from faults._children import Child
from faults._place import Place, nothing
from faults._tally import Tally
from faults._worker import Job, run_worker, work
from statepact.errors import StoreUnavailable
from statepact.stores import open_store

POLICIES = ("allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl")
ROOM = 3 << 20
"""Bytes beyond what the empty server takes."""


def out_of_memory(place: Place, rounds: int, *, bug: Callable[[], None] = nothing) -> Tally:
    """Fill a server under load until it has no memory left, give it more, and look at what it has kept."""
    tally = Tally("redis", "always", "maxmemory reached under noeviction", seeds=place.seeds(rounds))
    for _ in range(rounds):
        with _servers.valkey(place, "always") as served:
            place.ledger.clear()
            client = served.server.client()  # type: ignore[attr-defined]
            client.config_set("maxmemory", client.info("memory")["used_memory"] + ROOM)
            job = Job(served.url, place.ledger.path)

            def live(job: Job = job) -> None:
                bug()
                run_worker(job)

            child = Child(live)
            full = _until_full(place)
            client.config_set("maxmemory", 0)
            before = place.ledger.acked()
            goes_on = _until(partial(_acked_more_than, place, before + 5))
            child.kill()
            found = check(served.url, place.ledger.read())
            if not goes_on:
                found.remark("nothing could be committed after there was memory again")
            tally.add(found, hit=full)
            tally.count(found)
            client.close()
    return tally.done()


def evicting_policies(place: Place, *, bug: Callable[[], None] = nothing) -> Tally:
    """Offer servers that delete what was committed when they are full: as a record they are refused."""
    tally = Tally("redis", "always", "a server with an evicting policy", seeds=f"{len(POLICIES)} policies")
    with _servers.valkey(place, "always") as served:
        place.ledger.clear()
        client = served.server.client()  # type: ignore[attr-defined]
        asyncio.run(work(Job(served.url, place.ledger.path, runs=1)))
        for policy in POLICIES:
            client.config_set("maxmemory-policy", policy)

            def live(policy: str = policy) -> None:
                bug()
                asyncio.run(_refused(served.url, policy))

            if Child(live).wait(20) != 0:
                tally.remark(f"{policy} was not refused with the setting's name")
            tally.hits += 1
        client.config_set("maxmemory-policy", "noeviction")
        found = check(served.url, place.ledger.read())
        tally.add(found, hit=False)
        tally.count(found)
        client.close()
    return tally.done()


async def _refused(url: str, policy: str) -> None:
    async with open_store(url) as store:
        try:
            await store.owners()
        except StoreUnavailable as refusal:
            if policy in str(refusal) and "maxmemory-policy" in str(refusal):
                return
    raise AssertionError(policy)


def _acked_more_than(place: Place, count: int) -> bool:
    return place.ledger.acked() > count


def _until_full(place: Place) -> bool:
    return _until(lambda: any(r.error == "StoreFull" for r in place.ledger.read().records.values()))


def _until(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if condition():
            return True
        time.sleep(0.05)
    return False
