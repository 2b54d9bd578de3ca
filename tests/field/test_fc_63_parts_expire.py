"""FC-63: parts of one session expire at different times."""

from __future__ import annotations

import itertools
from pathlib import Path

from _valkey import Server

from statepact import Contract, Request, SqliteStore, Workflow, open_session
from statepact.errors import CorruptState, Expired
from statepact.ledger import SessionKey
from statepact.ledger._lifetime import Lifetimes
from statepact.stores import CachedStore, RedisStore
from statepact.stores._open_log import OpenLog

KEY = SessionKey("local", "s-1")


class Chain(Contract):
    text: str


class Product(Contract):
    name: str


def shop() -> Workflow:
    workflow = Workflow("shop", results=[Chain, Product])

    @workflow.step
    async def think(request: Request) -> Chain:
        return Chain(text="long thought " * 500)

    @workflow.step
    async def pick(request: Request) -> Product:
        return Product(name="KX-210")

    return workflow


async def read(store: CachedStore | RedisStore) -> tuple[int, Product | None]:
    """Return what somebody reads who comes later: how many entries, and the product."""
    log = await OpenLog.open(store, KEY)
    cells = log.log.runs["r-1"].by_contract["Product"]
    await log.fetch(cells)
    async with open_session("s-1", store=store, run="r-1") as session:
        return log.log.revision, await session.get(Product)


async def test_every_subset_of_the_cached_keys_may_go(tmp_path: Path, valkey_server: Server, valkey_url: str) -> None:
    """With a record behind the cache the session is complete, whatever has left; it is counted, not hidden."""
    record = SqliteStore(tmp_path / "state.db", durability="process")
    async with CachedStore(record, RedisStore(valkey_url, mode="cache")) as store:
        await shop().run("x", session="s-1", id="r-1", store=store)
        with valkey_server.client() as client:
            kept = {name: client.dump(name) for name in client.keys("*{local/s-1}*")}
        assert kept
        subsets = [s for size in range(len(kept) + 1) for s in itertools.combinations(sorted(kept), size)]
        for gone in subsets:
            with valkey_server.client() as client:
                for name, dumped in kept.items():
                    client.restore(name, 0, dumped, replace=True)
                if gone:
                    client.delete(*gone)
            revision, product = await read(store)
            assert revision >= 4
            assert product == Product(name="KX-210")


async def test_session_in_a_cache_alone_is_whole_or_expired(valkey_server: Server, valkey_url: str) -> None:
    """Without a record: all of it, or "expired", or "evicted"; never a shorter state, never "never existed"."""
    async with RedisStore(valkey_url, mode="cache") as store:
        await shop().run("x", session="s-1", id="r-1", store=store)
        with valkey_server.client() as client:
            names = sorted(client.keys("*{local/s-1}*"))
            kept = {name: client.dump(name) for name in names}
        for size in range(1, len(names)):
            for gone in itertools.combinations(names, size):
                with valkey_server.client() as client:
                    for name, dumped in kept.items():
                        client.restore(name, 0, dumped, replace=True)
                    client.delete(*gone)
                try:
                    headers = await store.headers(KEY)
                except (Expired, CorruptState):
                    continue
                assert len(headers) == 4
                assert len(await store.payloads(KEY, range(1, 5))) == 4


async def test_no_key_of_a_session_is_left_without_an_end(valkey_server: Server, valkey_url: str) -> None:
    """All keys that hold state end, none of them before the others."""
    async with RedisStore(valkey_url, mode="cache") as store:
        await shop().run("x", session="s-1", id="r-1", store=store)
        with valkey_server.client() as client:
            ends = sorted(client.pttl(name) for name in client.keys("*{local/s-1}*"))

    usual = Lifetimes().keep(1)
    assert usual is not None
    assert ends
    assert all(end > 0 for end in ends)
    assert ends[0] > (usual - 30) * 1000


async def test_use_keeps_a_session_alive(valkey_server: Server, valkey_url: str) -> None:
    """A run that takes longer than the lifetime renews it with each entry and each renewal of its claim."""
    async with RedisStore(valkey_url, mode="cache") as store:
        await shop().run("x", session="s-1", id="r-1", store=store)
        with valkey_server.client() as client:
            for name in client.keys("*{local/s-1}*"):
                client.pexpire(name, 5_000)
        await shop().run("y", session="s-1", id="r-2", store=store)
        with valkey_server.client() as client:
            assert min(client.pttl(name) for name in client.keys("*{local/s-1}*")) > 300_000
