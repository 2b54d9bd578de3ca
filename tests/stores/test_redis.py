"""The store suite on Valkey, and what only such a server can do to us."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _valkey import Server

from statepact.errors import (
    Behind,
    CorruptState,
    Expired,
    SessionHeld,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTimeout,
    StoreUnavailable,
)
from statepact.ledger import SessionKey
from statepact.stores import Entity, Hold, NewEntry, RedisStore, Rewrite, Store
from statepact.stores._open_log import OpenLog
from statepact.stores._redis_check import EvictingCache
from statepact.testing import StoreSuite
from statepact.testing._sentences import add, entry, said, texts, transcript

KEY = SessionKey("acme", "s-1")
ORDER = Entity("order", "67890")


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


class TestRedisStore(StoreSuite):
    """Everything a store promises, run against a real server."""

    @pytest.fixture
    async def store(self, valkey_url: str) -> AsyncIterator[Store]:
        async with RedisStore(valkey_url) as store:
            yield store

    @pytest.fixture
    async def second_store(self, store: Store, valkey_url: str) -> AsyncIterator[Store]:
        async with RedisStore(valkey_url) as second:
            yield second

    @pytest.fixture
    def kill_writer(self, store: Store, valkey_server: Server) -> Callable[[], Awaitable[None]]:
        async def kill() -> None:
            with valkey_server.client() as client:
                client.client_kill_filter(_type="normal", skipme=True)

        return kill


def about(text: str, *, keep: float | None = None) -> NewEntry:
    """Return an entry that a cache keeps for so many seconds."""
    return NewEntry(b"header of " + text.encode(), text.encode(), ((b"a", b"block"),), (ORDER,), at=1, keep=keep)


# -- what the server is set to do ------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lru"])
async def test_record_refuses_a_server_that_evicts(valkey_server: Server, valkey_url: str, policy: str) -> None:
    """The setting is named, and nothing was written. FC-67."""
    with set_to(valkey_server, "maxmemory-policy", policy):
        async with RedisStore(valkey_url) as store:
            with pytest.raises(StoreUnavailable, match=f"maxmemory-policy {policy}"):
                await add(store, KEY, "one")
        with pytest.warns(EvictingCache, match=policy):
            async with RedisStore(valkey_url, mode="cache") as cache:
                await add(cache, KEY, "one")


async def test_promise_says_what_survives(valkey_server: Server, valkey_url: str) -> None:
    """It is what the server does, not what one would like."""
    async with RedisStore(valkey_url) as store:
        await add(store, KEY, "one")
        assert "not the end of the server" in store.promise
    with set_to(valkey_server, "appendonly", "yes"), set_to(valkey_server, "appendfsync", "everysec"):
        async with RedisStore(valkey_url) as store:
            await add(store, KEY, "two")
            assert "about a second" in store.promise


async def test_commit_without_room_is_no_commit(valkey_server: Server, valkey_url: str) -> None:
    """Out of memory is an error, nothing of it is kept, and what was there can be read. FC-67."""
    async with RedisStore(valkey_url) as store:
        await add(store, KEY, "one")
        with set_to(valkey_server, "maxmemory", "1"):
            with pytest.raises(StoreFull):
                await store.append(KEY, [entry("two")], after=1)
            assert await texts(store, KEY) == ["one"]
        await add(store, KEY, "two")
        assert await texts(store, KEY) == ["one", "two"]


async def test_wrong_password_is_not_shown(tmp_path: Path) -> None:
    """Neither in the message nor in what caused it."""
    server = Server(tmp_path, requirepass="the-right-one")
    server.start()
    try:
        for secret in ("hunter2-geheim", ""):
            at = f":{secret}@" if secret else ""
            async with RedisStore(f"redis://{at}127.0.0.1:{server.port}/0") as store:
                with pytest.raises(StoreUnavailable, match="password") as caught:
                    await store.headers(KEY)
            shown = "".join(traceback.format_exception(caught.value)) + repr(store)
            assert not secret or secret not in shown
        async with RedisStore(f"redis://:the-right-one@127.0.0.1:{server.port}/0") as store:
            await add(store, KEY, "one")
    finally:
        server.kill()


async def test_server_that_is_not_there(tmp_path: Path) -> None:
    """An error that names the place, within the deadline."""
    async with RedisStore("redis://127.0.0.1:1/0", timeout=1) as store, asyncio.timeout(10):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await store.append(KEY, [entry("one")], after=0)


async def test_forgotten_scripts_are_sent_again(valkey_server: Server, valkey_url: str) -> None:
    """A server that was started anew has no scripts."""
    async with RedisStore(valkey_url) as store:
        await add(store, KEY, "one")
        with valkey_server.client() as client:
            client.script_flush()
        await add(store, KEY, "two")
        assert await texts(store, KEY) == ["one", "two"]


async def test_killed_server_with_aof_always_loses_nothing(tmp_path: Path) -> None:
    """What was acknowledged before the kill is there after it, and the store goes on by itself."""
    server = Server(tmp_path, appendonly="yes", appendfsync="always")
    server.start()
    try:
        async with RedisStore(server.url, timeout=2) as store:
            for number in range(20):
                await add(store, KEY, str(number))
            server.kill()
            with pytest.raises(StoreError):
                await store.append(KEY, [entry("lost")], after=20)
            server.start()
            assert (await texts(store, KEY))[:20] == [str(number) for number in range(20)]
            await add(store, KEY, "after")
    finally:
        server.kill()


async def test_missing_session_is_never_an_empty_one(valkey_server: Server, valkey_url: str) -> None:
    """A session that somebody deletes behind our back is damage, said and counted, and never begins anew. FC-67."""
    async with RedisStore(valkey_url) as store:
        await store.append(KEY, [about("one"), about("two")], after=0)
        with valkey_server.client() as client:
            client.delete("statepact:{acme/s-1}:state")
        with pytest.raises(CorruptState, match="lost"):
            await store.headers(KEY)
        with pytest.raises(CorruptState, match="lost"):
            await store.payloads(KEY, [1])
        with pytest.raises(CorruptState, match="lost"):
            await store.append(KEY, [entry("three")], after=0)
        assert store.losses == 3
        assert list(await store.headers(SessionKey("acme", "never"))) == []


async def test_entity_forgotten_by_one_and_written_by_another_is_found(valkey_url: str) -> None:
    """What a process remembers of the index never hides a later commit."""
    async with RedisStore(valkey_url) as one, RedisStore(valkey_url) as other:
        await other.append(KEY, [about("one")], after=0)
        await one.rewrite(KEY, Rewrite(forget=[ORDER]), after=1)
        await other.append(KEY, [about("two")], after=1)

        assert [use.session for use in await one.entities("acme", kind="order", value="67890")] == ["s-1"]


async def test_commit_that_no_replica_has_is_not_known_to_be_safe(valkey_url: str) -> None:
    """`wait=1` without a replica: reduced loss was asked for, and is not claimed."""
    async with RedisStore(valkey_url, wait=1, timeout=1) as store:
        with pytest.raises(StoreTimeout, match="0 of 1 replicas"):
            await store.append(KEY, [entry("one")], after=0)


async def test_step_that_no_replica_has_is_not_found_committed_either(valkey_url: str) -> None:
    """With `wait`, nobody takes for committed what a primary that is cut off would forget: not who tried, not later."""
    async with RedisStore(valkey_url, wait=1, timeout=1) as store:
        log = await OpenLog.open(store, KEY)
        for _ in range(2):
            with pytest.raises(StoreTimeout):
                await log.append(said("refund"))
        with pytest.raises(StoreTimeout):
            await OpenLog.open(store, KEY)
    async with RedisStore(valkey_url) as store:
        assert await transcript(store, KEY) == ["r-1 refund: refund"]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "too few replicas"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "is a replica"),
    ],
)
async def test_server_that_takes_no_commits_says_why(
    valkey_server: Server, valkey_url: str, before: str, after: str, says: str
) -> None:
    """Nothing of the refused commit is kept."""
    async with RedisStore(valkey_url) as store:
        await add(store, KEY, "one")
        with valkey_server.client() as client:
            client.execute_command(*before.split())
        try:
            with pytest.raises(StoreReadOnly, match=says):
                await store.append(KEY, [entry("two")], after=1)
        finally:
            with valkey_server.client() as client:
                client.execute_command(*after.split())
        assert await texts(store, KEY) == ["one"]


async def test_lost_answer_is_not_known_and_never_done_twice(valkey_server: Server, valkey_url: str) -> None:
    """The connection ends after the commit and before its answer: one entry, and an error that says so."""
    silent = False
    talking: set[asyncio.Task[None]] = set()

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", valkey_server.port)

        async def answers() -> None:
            while (data := await there.read(65_536)) and not silent:
                writer.write(data)
            writer.close()

        answering = asyncio.ensure_future(answers())
        while data := await reader.read(65_536):
            back.write(data)
        back.close()
        await answering
        writer.close()
        await asyncio.gather(back.wait_closed(), writer.wait_closed(), return_exceptions=True)

    async with await asyncio.start_server(between, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with RedisStore(f"redis://127.0.0.1:{port}/0", timeout=2) as store:
            await add(store, KEY, "one")
            silent = True
            with pytest.raises(StoreTimeout):
                await store.append(KEY, [entry("two")], after=1)
            silent = False
            assert await texts(store, KEY) == ["one", "two"]
        await asyncio.gather(*talking)


def test_loops_in_turn_share_a_store(valkey_url: str) -> None:
    """Each loop has its own connections; those of a loop that has ended are closed."""
    store = RedisStore(valkey_url)
    for number in range(3):
        asyncio.run(store.append(KEY, [entry(str(number))], after=number))

    assert asyncio.run(texts(store, KEY)) == ["0", "1", "2"]
    asyncio.run(store.aclose())


# -- as a cache ------------------------------------------------------------------------------------


async def test_session_leaves_the_cache_as_a_whole(valkey_server: Server, valkey_url: str) -> None:
    """The longest lifetime counts, each use renews it, and only what says "expired" outlives it. FC-63."""
    async with RedisStore(valkey_url, mode="cache") as store:
        await store.append(KEY, [about("one", keep=500), about("two", keep=100)], after=0)
        with valkey_server.client() as client:
            left = {name.decode(): client.pttl(name) for name in client.keys("*{acme/s-1}*")}
        assert 499_000 < left.pop("statepact:{acme/s-1}:state") <= 500_000
        assert left.pop("statepact:{acme/s-1}:trace") > 500_000
        assert not left

        await store.append(KEY, [about("three", keep=None)], after=2)
        with valkey_server.client() as client:
            assert {client.pttl(name) for name in client.keys("*{acme/s-1}*")} == {-1}


@pytest.mark.parametrize("parts", [("state",), ("trace",), ("state", "trace")])
async def test_half_a_session_never_comes_back(valkey_server: Server, valkey_url: str, parts: tuple[str, ...]) -> None:
    """Whichever of its keys have left: all of it, an error that says what happened, or nothing at all. FC-63."""
    async with RedisStore(valkey_url, mode="cache") as store:
        await store.append(KEY, [about("one", keep=500), about("two", keep=500)], after=0)
        with valkey_server.client() as client:
            client.delete(*(f"statepact:{{acme/s-1}}:{part}" for part in parts))
        if parts == ("state",):
            with pytest.raises(CorruptState, match="evicted"):
                await store.headers(KEY)
            assert store.losses == 1
            return
        headers = await store.headers(KEY)
        payloads = await store.payloads(KEY, [1, 2])
        if "state" in parts:
            assert (list(headers), dict(payloads)) == ([], {})
        else:
            assert [one.header for one in headers] == [b"header of one", b"header of two"]
            assert dict(payloads) == {1: b"one", 2: b"two"}


async def test_expired_and_never_existed_are_two_answers(valkey_server: Server, valkey_url: str) -> None:
    """The cache remembers that there was something, and lets it begin anew."""
    async with RedisStore(valkey_url, mode="cache") as store:
        await store.append(KEY, [about("one", keep=0.01)], after=0)
        with valkey_server.client() as client:
            while client.keys("*{acme/s-1}:state"):  # noqa: ASYNC110 - the server's clock decides
                await asyncio.sleep(0.005)
        with pytest.raises(Expired):
            await store.headers(KEY)
        assert list(await store.headers(SessionKey("acme", "never"))) == []

        await store.append(KEY, [about("new", keep=500)], after=0)
        assert await texts(store, KEY) == ["new"]


# -- in a Cluster ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of three servers that share the slots."""
    servers = []
    for number in range(3):
        server = Server(tmp_path_factory.mktemp(f"node-{number}"), **{"cluster-enabled": "yes"})
        server.start()
        servers.append(server)
    try:
        form_cluster(servers)
        yield f"redis+cluster://127.0.0.1:{servers[0].port}"
    finally:
        for server in servers:
            server.kill()


def form_cluster(servers: list[Server]) -> None:
    """Share 16,384 slots among servers, without the command line tool that the wheel does not have."""
    borders = [0, 5461, 10923, 16384]
    for number, server in enumerate(servers):
        with server.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", borders[number], borders[number + 1] - 1)
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", servers[0].port)
    for server in servers:
        with server.client() as client:
            while "cluster_state:ok" not in str(client.execute_command("CLUSTER", "INFO")):
                time.sleep(0.05)


async def test_scripts_work_wherever_a_session_lives(cluster_url: str) -> None:
    """Thirty sessions on three servers: commits, refusals, holds, listing and entities as anywhere else."""
    async with RedisStore(cluster_url) as store:
        for number in range(30):
            key = SessionKey("acme", f"s-{number:02}")
            await store.append(key, [about("one"), about("two")], after=0, hold=Hold(run="r", holder="w", seconds=60))
            with pytest.raises(Behind):
                await store.append(key, [entry("late")], after=0)
            with pytest.raises(SessionHeld):
                await store.hold(key, Hold(run="r", holder="x", seconds=60))
            assert await texts(store, key) == ["one", "two"]
            assert await store.changed(key, after=1, within=5) == 2

        assert [info.session for info in await store.sessions("acme")] == [f"s-{n:02}" for n in range(30)]
        assert len(await store.entities("acme", kind="order")) == 30
        await store.rewrite(SessionKey("acme", "s-00"), Rewrite(forget=None), after=2)
        assert len(await store.entities("acme", kind="order")) == 29
