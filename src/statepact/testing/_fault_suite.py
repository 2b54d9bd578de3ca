"""Clocks that jump and writers that die: a part of `StoreSuite`.

A backend that can be hurt says how in the fixtures `jump` and `kill_writer`; without them these tests
are skipped and say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from statepact.errors import SessionHeld, StatepactError, UnknownFilter
from statepact.ledger import SessionKey
from statepact.stores._base import Hold, Store
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify
from statepact.testing._sentences import add, entry, said, texts, transcript, won

HOUR = 3600.0
SOON = 10.0
"""Seconds after which waiting counts as hanging."""


def _claim(holder: str, *, seconds: float = 60.0) -> Hold:
    return Hold(run="r-1", holder=holder, seconds=seconds)


class FaultSuite:
    """What holds on a bad day, as every store promises it."""

    @pytest.fixture
    def jump(self) -> Callable[[float], None]:
        """A function that sets the store's clock forward by seconds, or back."""
        pytest.skip("nobody can set this store's clock: override the fixture `jump` if you can")

    @pytest.fixture
    def kill_writer(self) -> Callable[[], Awaitable[None]]:
        """A function that kills whatever the store writes with: its thread, its connection."""
        pytest.skip("this store has no writer that could die: override the fixture `kill_writer` if it has")

    # -- clocks --------------------------------------------------------------------------------------

    async def test_clock_that_jumps_forward_ends_holds_and_nothing_else(
        self, store: Store, key: SessionKey, jump: Callable[[float], None]
    ) -> None:
        """An hour later nothing that was committed has expired; who held the session can be succeeded."""
        await store.append(key, [entry("one")], after=0, hold=_claim("worker 41"))

        jump(HOUR)

        assert await texts(store, key) == ["one"]
        await store.append(key, [entry("two")], after=1, hold=_claim("worker 42"))
        with pytest.raises(SessionHeld):
            await store.append(key, [entry("late")], after=2, hold=_claim("worker 41"))
        assert await texts(store, key) == ["one", "two"]

    async def test_clock_that_jumps_back_takes_nothing_from_anybody(
        self, store: Store, key: SessionKey, jump: Callable[[float], None]
    ) -> None:
        """The order of the log is not that of the clock, and who holds the session still does."""
        await store.append(key, [entry("one")], after=0, hold=_claim("worker 41"))

        jump(-HOUR)

        with pytest.raises(SessionHeld):
            await store.hold(key, _claim("worker 42"))
        await store.append(key, [entry("two")], after=1, hold=_claim("worker 41", seconds=0))
        await store.append(key, [entry("three")], after=2, hold=_claim("worker 42"))
        assert await texts(store, key) == ["one", "two", "three"]

    async def test_clocks_of_writers_do_not_order_the_log(self, store: Store, key: SessionKey) -> None:
        """Writers whose clocks differ by hours and decades commit one after the other, and the log verifies."""
        log = await OpenLog.open(store, key)
        times = [1_767_225_600_000, 1_767_222_000_000, 0, 4_102_444_800_000, 1_767_225_600_001]
        for number, at in enumerate(times):
            await log.append(replace(said(f"s{number}"), at=at))

        assert [one.header.at for one in (await OpenLog.open(store, key)).log.entries] == times
        assert await transcript(store, key) == [f"r-1 s{n}: s{n}" for n in range(len(times))]
        assert (await verify(store, key)).ok

    # -- writers -------------------------------------------------------------------------------------

    async def test_writer_that_dies_leaves_nobody_waiting(
        self, store: Store, key: SessionKey, kill_writer: Callable[[], Awaitable[None]]
    ) -> None:
        """Everyone who waits is told at once, and what was acknowledged is there."""
        await add(store, key, "before")
        keys = [SessionKey(key.owner, f"w-{n}") for n in range(40)]
        waiting = [asyncio.ensure_future(won(store, one, "x", after=0)) for one in keys[:20]]
        await asyncio.sleep(0)

        async with asyncio.timeout(SOON):
            await kill_writer()
            waiting += [asyncio.ensure_future(won(store, one, "x", after=0)) for one in keys[20:]]
            done = await asyncio.gather(*waiting, return_exceptions=True)

        assert all(one is True or isinstance(one, StatepactError) for one in done)
        for one, ended in zip(keys, done, strict=True):
            assert await texts(store, one) in ([["x"]] if ended is True else [[], ["x"]])
        assert await texts(store, key) == ["before"]

    async def test_steps_beside_a_writer_that_dies_are_told(
        self, store: Store, key: SessionKey, kill_writer: Callable[[], Awaitable[None]]
    ) -> None:
        """Ten branches of one run, waiting for the same commit or the next one: each hears how it ended."""
        log = await OpenLog.open(store, key)
        branches = [asyncio.ensure_future(log.append(said("look", branch=str(n)))) for n in range(10)]
        await asyncio.sleep(0)

        async with asyncio.timeout(SOON):
            await kill_writer()
            done = await asyncio.gather(*branches, return_exceptions=True)

        kept = await transcript(store, key)
        for number, ended in enumerate(done):
            if isinstance(ended, BaseException):
                assert isinstance(ended, StatepactError)
            else:
                assert f"r-1 look/{number}: look" in kept

    # -- questions -----------------------------------------------------------------------------------

    async def test_unknown_filter_is_an_error(self, store: Store, key: SessionKey) -> None:
        """A condition that the store does not know never widens an answer by being ignored."""
        await add(store, key, "one")
        wanted: dict[str, str] = {"colour": "red"}

        with pytest.raises((TypeError, UnknownFilter)):
            await store.entities(key.owner, **wanted)  # type: ignore[arg-type]
