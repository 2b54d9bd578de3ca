"""Many clients at once, through one handle of a store or two, and whether their answers fit together:
a part of `StoreSuite`."""

from __future__ import annotations

import asyncio
import random

import pytest

from statepact.errors import Behind, LeaseLost, SessionHeld
from statepact.ledger import SessionKey
from statepact.stores._base import Hold, Rewrite, Store
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify
from statepact.testing._history import History
from statepact.testing._sentences import add, entry, said, texts, transcript, won

CLIENTS = 6
TURNS = 12
"""What each client does in a history."""
HELD = 60.0
"""Seconds of a claim, longer than a history: which of two clocks is right does not matter."""
SOON = 10.0
"""Seconds after which waiting counts as hanging."""


class _Client:
    """Reads, appends, claims and gives up at random, and now and then does not wait for the answer."""

    def __init__(self, store: Store, key: SessionKey, name: str, chance: random.Random) -> None:
        self._store = store
        self._key = key
        self._name = name
        self._chance = chance
        self._seen = 0
        self._appended = 0
        self._mine: list[asyncio.Task[None]] = []

    async def append_first(self) -> None:
        """Append one entry for sure, however often another client was faster."""
        # Being behind means that one of the others has appended since the read, and each does so once.
        for _ in range(CLIENTS):
            await self._read()
            try:
                await self._store.append(self._key, [entry(f"{self._name}.first")], after=self._seen)
            except Behind:
                continue
            return
        pytest.fail(f"{self._name} was told {CLIENTS} times that it is behind, by {CLIENTS - 1} other clients")

    async def act(self) -> None:
        for _ in range(TURNS):
            for _ in range(self._chance.randrange(3)):
                await asyncio.sleep(0)
            await self._read()
            task = asyncio.ensure_future(self._chance.choice((self._read, self._append, self._append, self._claim))())
            if self._chance.random() < 0.1:
                await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled():
                task.result()

    async def _read(self) -> None:
        after = self._seen if self._chance.random() < 0.5 else 0
        found = await self._store.headers(self._key, after=after)
        self._seen = max([self._seen, *(stored.revision for stored in found)])

    async def _append(self) -> None:
        self._appended += 1
        names = [f"{self._name}.{self._appended}{letter}" for letter in "abc"[: self._chance.randint(1, 3)]]
        after = max(0, self._seen - (self._chance.random() < 0.2))
        try:
            hold = self._hold() if self._chance.random() < 0.4 else None
            await self._store.append(self._key, [entry(name) for name in names], after=after, hold=hold)
        except (Behind, SessionHeld, LeaseLost):
            return
        self._seen = after + len(names)

    async def _claim(self) -> None:
        try:
            await self._store.hold(self._key, self._hold())
        except (SessionHeld, LeaseLost):
            return

    def _hold(self) -> Hold:
        seconds = HELD if self._chance.random() < 0.5 else 0
        return Hold(run="r-1", holder=self._name, seconds=seconds, claim=self._chance.random() < 0.7)


class HistorySuite:
    """What many clients of one session are told, as every store promises it."""

    @pytest.fixture
    async def second_store(self, store: Store) -> Store:
        """A second handle on the same place, as another process has one.

        By default the same handle; override it for a store that others can open, too.
        """
        return store

    @pytest.mark.parametrize("seed", range(4))
    async def test_history_of_many_clients_has_an_order(
        self, store: Store, second_store: Store, key: SessionKey, seed: int
    ) -> None:
        """Every answer that six clients get is explained by one order: the log is linearizable."""
        history = History()
        chance = random.Random(seed)
        clients = []
        for number in range(CLIENTS):
            handle = (store, second_store)[number % 2]
            watched = history.watch(handle, f"client {number}")
            clients.append(_Client(watched, key, f"c{number}", random.Random(chance.random())))

        # Once one of them claims the session, the others may be refused for as long as the history is.
        await asyncio.gather(*(client.append_first() for client in clients))
        await asyncio.gather(*(client.act() for client in clients))
        await history.watch(second_store, "last").headers(key)

        for wrong in history.contradictions(clock_error=HELD / 2).values():
            pytest.fail(str(wrong))
        assert sum(one.result == "ok" and one.kind == "append" for one in history.operations[key]) >= CLIENTS

    async def test_second_process_with_an_old_revision_is_told(
        self, store: Store, second_store: Store, key: SessionKey
    ) -> None:
        """What it has not seen is not overwritten, and once it has looked it may go on."""
        await add(second_store, key, "one")
        await add(store, key, "two", "three")

        assert not await won(second_store, key, "late", after=1)
        assert await texts(second_store, key) == ["one", "two", "three"]
        assert await won(second_store, key, "four", after=3)
        assert await texts(store, key) == ["one", "two", "three", "four"]

    async def test_same_step_in_two_processes_at_once_is_one_entry(
        self, store: Store, second_store: Store, key: SessionKey
    ) -> None:
        """Both do the work; one result counts, and both get that one."""
        ours, theirs = await OpenLog.open(store, key), await OpenLog.open(second_store, key)

        done = await asyncio.gather(ours.append(said("refund", "59.90")), theirs.append(said("refund", "95.90")))

        assert done[0].header.digest == done[1].header.digest
        assert len(await transcript(store, key)) == 1

    async def test_processes_beside_each_other_lose_nothing(
        self, store: Store, second_store: Store, key: SessionKey
    ) -> None:
        """Two processes with their own open logs commit sixteen steps each, at once."""
        logs = await OpenLog.open(store, key), await OpenLog.open(second_store, key)

        await asyncio.gather(
            *(log.append(said(f"s{n}", run=f"r-{who}")) for who, log in enumerate(logs) for n in range(16))
        )

        expected = [f"r-{who} s{n}: s{n}" for who in range(2) for n in range(16)]
        assert sorted(await transcript(second_store, key)) == sorted(expected)
        assert (await verify(second_store, key)).ok

    async def test_other_process_hears_of_a_commit(self, store: Store, second_store: Store, key: SessionKey) -> None:
        """Who waits at one handle is woken by a commit through the other. FC-73."""
        waiting = asyncio.ensure_future(second_store.changed(key, after=0, within=3600))
        await asyncio.sleep(0)
        await add(store, key, "one")

        async with asyncio.timeout(SOON):
            assert await waiting == 1

    async def test_other_process_sees_what_was_rewritten(
        self, store: Store, second_store: Store, key: SessionKey
    ) -> None:
        """No handle keeps what another one has erased."""
        await store.append(key, [entry("one", blocks=((b"a", b"large"),)), entry("two")], after=0)
        assert await texts(second_store, key) == ["one", "two"]

        await store.rewrite(key, Rewrite(replace={1: (b"header of gone", b"gone")}, blocks={b"a": None}), after=2)

        assert await texts(second_store, key) == ["gone", "two"]
        assert dict(await second_store.blocks(key, [b"a"])) == {}
