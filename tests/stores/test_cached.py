"""The store suite on a record with a cache, and what a cache can do to us: cost time, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from _valkey import Server

from statepact.errors import SetupError
from statepact.ledger import SessionKey
from statepact.stores import CachedStore, MemoryStore, RedisStore, Rewrite, SqliteStore, Store, open_store
from statepact.stores._open_log import OpenLog
from statepact.testing import StoreSuite
from statepact.testing._sentences import said, transcript

KEY = SessionKey("acme", "s-1")


class TestSqliteWithValkey(StoreSuite):
    """Everything a store promises, with a real cache in front of a file."""

    @pytest.fixture
    async def store(self, valkey_url: str, tmp_path: Path) -> AsyncIterator[Store]:
        record = SqliteStore(tmp_path / "state.db", durability="process")
        async with CachedStore(record, RedisStore(valkey_url, mode="cache")) as store:
            yield store


class TestMemoryWithMemory(StoreSuite):
    """The same without a server."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with CachedStore(MemoryStore(), MemoryStore()) as store:
            yield store


@pytest.fixture
def record() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def cache(valkey_url: str) -> RedisStore:
    """A cache in a real server."""
    return RedisStore(valkey_url, mode="cache")


async def settled(store: CachedStore) -> None:
    """Wait until what is copied beside the work has been copied."""
    await asyncio.gather(*store._copying.values())


async def written(store: Store, *steps: str) -> None:
    """Commit steps as a run does."""
    log = await OpenLog.open(store, KEY)
    for step in steps:
        await log.append(said(step))


async def test_second_reader_gets_it_from_the_cache(record: MemoryStore, cache: RedisStore) -> None:
    """What a run has committed is there for the next one without asking the record for it."""
    await written(CachedStore(record, cache), "a", "b", "c")

    second = CachedStore(record, cache)
    assert await transcript(second, KEY) == ["r-1 a: a", "r-1 b: b", "r-1 c: c"]
    assert (second.counts.hits, second.counts.misses, second.counts.stale) == (4, 0, 0)
    await second.aclose()


async def test_session_that_was_not_there_is_copied(record: MemoryStore, cache: RedisStore) -> None:
    """A miss falls through to the record, is counted, and the next reader finds it."""
    await written(record, "a", "b")
    first = CachedStore(record, cache)
    assert await transcript(first, KEY) == ["r-1 a: a", "r-1 b: b"]
    assert (first.counts.misses, first.counts.hits) == (1, 0)
    await settled(first)

    second = CachedStore(record, cache)
    assert len(await transcript(second, KEY)) == 2
    assert (second.counts.hits, second.counts.misses) == (3, 0)
    await second.aclose()


async def test_what_others_have_committed_since_is_seen(record: MemoryStore, cache: RedisStore) -> None:
    """A cached revision that is not current is no answer: the rest comes from the record."""
    await written(CachedStore(record, cache), "a")
    await written(record, "b")  # somebody without this cache

    store = CachedStore(record, cache)
    assert await transcript(store, KEY) == ["r-1 a: a", "r-1 b: b"]
    await settled(store)
    assert await transcript(CachedStore(record, cache), KEY) == ["r-1 a: a", "r-1 b: b"]
    await store.aclose()


async def test_cache_of_another_history_is_dropped(record: MemoryStore, cache: RedisStore) -> None:
    """The record was set back, or is another one: what the cache holds is not believed, and counted."""
    await written(CachedStore(record, cache), "a", "b", "c")
    other = MemoryStore()
    await written(other, "x")
    store = CachedStore(other, cache)

    assert await transcript(store, KEY) == ["r-1 x: x"]
    assert store.counts.stale == 1
    await settled(store)
    assert await transcript(CachedStore(other, cache), KEY) == ["r-1 x: x"]
    await store.aclose()


async def test_evicted_values_come_from_the_record(
    record: MemoryStore, cache: RedisStore, valkey_server: Server
) -> None:
    """Keys that disappear are counted as evicted; the session is never shorter. FC-63, FC-67."""
    await written(CachedStore(record, cache), "a", "b")
    with valkey_server.client() as client:
        client.delete(*client.keys("*{acme/s-1}:state"))
    store = CachedStore(record, cache)

    assert await transcript(store, KEY) == ["r-1 a: a", "r-1 b: b"]
    assert store.counts.evicted + store.counts.expired > 0
    await store.aclose()


async def test_dead_cache_fails_nothing(record: MemoryStore, tmp_path: Path) -> None:
    """Neither a commit nor a read; it is counted, and left alone for a while."""
    server = Server(tmp_path)
    server.start()
    store = CachedStore(record, RedisStore(server.url, mode="cache", timeout=1))
    try:
        await written(store, "a")
        server.kill()
        async with asyncio.timeout(10):
            await written(store, "b", "c")
            assert await transcript(store, KEY) == ["r-1 a: a", "r-1 b: b", "r-1 c: c"]
        assert store.counts.dead >= 1
    finally:
        server.kill()
    await store.aclose()


async def test_what_is_erased_leaves_the_cache(record: MemoryStore, cache: RedisStore, valkey_server: Server) -> None:
    """Nothing of a rewritten session stays behind in the copy."""
    store = CachedStore(record, cache)
    await written(store, "a", "hunter2-canary")
    header = (await record.headers(KEY))[1].header
    await store.rewrite(KEY, Rewrite(replace={2: (header, b"gone")}), after=2)

    with valkey_server.client() as client:
        for name in client.keys("*"):
            assert b"hunter2-canary" not in (client.dump(name) or b"")
    await store.aclose()


def test_cache_has_a_url_of_its_own(valkey_url: str) -> None:
    """`open_store(record, cache=...)`; what is no cache is refused."""
    assert isinstance(open_store("memory:", cache=valkey_url), CachedStore)
    assert isinstance(open_store("memory:", cache="memory:"), CachedStore)
    for wrong in ("sqlite:///x.db", f"{valkey_url}?mode=record"):
        with pytest.raises(SetupError):
            open_store("memory:", cache=wrong)
