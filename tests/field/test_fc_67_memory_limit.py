"""FC-67: the memory limit evicts live sessions, or refuses writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _valkey import Server

from statepact import Contract, Request, SqliteStore, Workflow, open_session
from statepact.errors import CorruptState, Expired, StoreFull, StoreUnavailable
from statepact.stores import CachedStore, RedisStore


class Order(Contract):
    number: str


def shop() -> Workflow:
    workflow = Workflow("shop")

    @workflow.step
    async def look_up(request: Request) -> Order:
        return Order(number="KX-5512")

    return workflow


@contextmanager
def set_to(server: Server, name: str, value: str) -> Iterator[None]:
    """Let a server have another setting for a while."""
    with server.client() as client:
        before = client.config_get(name)[name]
        client.config_set(name, value)
    try:
        yield
    finally:
        with server.client() as client:
            client.config_set(name, before)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-ttl"])
async def test_server_that_would_evict_is_refused(valkey_server: Server, valkey_url: str, policy: str) -> None:
    """Before the first commit, with the setting by its name."""
    with set_to(valkey_server, "maxmemory-policy", policy):
        async with RedisStore(valkey_url) as store:
            with pytest.raises(StoreUnavailable, match="maxmemory-policy") as caught:
                await shop().run("x", session="s-1", store=store)
    assert policy in str(caught.value)
    with valkey_server.client() as client:
        assert client.dbsize() == 0


async def test_server_that_keeps_everything_is_taken(valkey_server: Server, valkey_url: str) -> None:
    """`noeviction` is what a record needs."""
    with set_to(valkey_server, "maxmemory-policy", "noeviction"):
        async with RedisStore(valkey_url) as store:
            assert (await shop().run("x", session="s-1", store=store)).ok


async def test_write_without_room_is_a_failed_commit(valkey_server: Server, valkey_url: str) -> None:
    """Out of memory: the run says so, nothing of the step is there, and it goes on once there is room."""
    async with RedisStore(valkey_url) as store:
        await shop().run("x", session="s-1", id="r-1", store=store)
        with set_to(valkey_server, "maxmemory", "1"), pytest.raises(StoreFull):
            await shop().run("y", session="s-1", id="r-2", store=store)
        async with open_session("s-1", store=store, run="r-3") as session:
            assert list(session.runs) == ["r-1", "r-3"]
        assert (await shop().run("y", session="s-1", id="r-2", store=store)).ok


async def test_live_key_that_is_gone_is_no_empty_session(valkey_server: Server, valkey_url: str) -> None:
    """A record whose keys somebody has deleted says so; it does not begin a new session in silence."""
    async with RedisStore(valkey_url) as store:
        await shop().run("x", session="s-1", id="r-1", store=store)
        with valkey_server.client() as client:
            names = client.keys("*{local/s-1}*")
            largest = max(names, key=lambda name: client.memory_usage(name) or 0)
            client.delete(largest)
        with pytest.raises((CorruptState, Expired)):
            await shop().run("x", session="s-1", id="r-1", store=store)


async def test_live_key_that_left_the_cache_is_counted(tmp_path: Path, valkey_server: Server, valkey_url: str) -> None:
    """With a record behind it nothing is lost, and the numbers show that something was evicted."""
    record = SqliteStore(tmp_path / "state.db", durability="process")
    async with CachedStore(record, RedisStore(valkey_url, mode="cache")) as store:
        await shop().run("x", session="s-1", id="r-1", store=store)
        with valkey_server.client() as client:
            names = client.keys("*{local/s-1}*")
            client.delete(max(names, key=lambda name: client.memory_usage(name) or 0))
        again = await shop().run("x", session="s-1", id="r-1", store=store)

        assert again.steps["look_up"].ending == "stored"
        counts = store.counts
        assert counts.evicted + counts.expired + counts.misses + counts.stale > 0
