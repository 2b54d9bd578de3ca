"""The simulated world: virtual time, chance from a seed, processes that stop, a network that loses."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from statepact.errors import Behind, StoreFull, StoreTimeout, StoreUnavailable
from statepact.ledger import SessionKey
from statepact.stores import Hold, NewEntry, Store
from statepact.testing import History, SimulatedLoop, SimulatedProcess, SimulatedStore, Stuck, Weather
from statepact.workflow._at_once import at_once

KEY = SessionKey("acme", "s-1")
ENTRY = NewEntry(b"header", b"payload")


def run(main: Coroutine[Any, Any, Any], *, seed: int = 1, loop: SimulatedLoop | None = None) -> Any:
    loop = loop or SimulatedLoop(seed)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


# -- the loop ----------------------------------------------------------------------------------------


def test_a_day_passes_in_no_time() -> None:
    """Time passes only when nobody has anything to do, and exactly as far as somebody sleeps."""

    async def main() -> float:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(asyncio.sleep(86_000), asyncio.sleep(3_600))
        return asyncio.get_running_loop().time() - began

    assert run(main()) == 86_000


def test_what_is_ready_runs_in_an_order_of_chance() -> None:
    """Ten tasks that are ready at once: another order for another seed, the same for the same."""

    async def main() -> list[int]:
        order: list[int] = []

        async def one(number: int) -> None:
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(10)))
        return order

    orders = {seed: run(main(), seed=seed) for seed in range(5)}
    assert all(sorted(order) == list(range(10)) for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == 5
    assert orders == {seed: run(main(), seed=seed) for seed in range(5)}


def test_timeouts_queues_and_locks_of_asyncio_work() -> None:
    """It is an event loop like another."""

    async def main() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(2)
        lock, got = asyncio.Lock(), []

        async def put() -> None:
            for number in range(20):
                await queue.put(number)

        async def take() -> None:
            async with lock:
                got.extend([await queue.get() for _ in range(20)])

        async with asyncio.timeout(5):
            await asyncio.gather(put(), take())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3)
        return got

    assert run(main()) == list(range(20))


def test_waiting_for_ever_is_an_error() -> None:
    """For nothing, for too long, or in a circle: a simulation ends and says so."""

    async def forever() -> None:
        await asyncio.Event().wait()

    async def too_long() -> None:
        await asyncio.sleep(101)

    async def in_a_circle() -> None:
        while True:  # noqa: ASYNC110 - it is meant to be foolish
            await asyncio.sleep(0)

    for main in (forever, too_long, in_a_circle):
        loop = SimulatedLoop(1, longest=100, most_steps=1_000)
        task = loop.create_task(main())
        with pytest.raises(Stuck):
            loop.run_until_complete(task)
        loop.longest, loop.most_steps = 1_000, 10_000
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()


def test_threads_are_refused() -> None:
    """What a seed does not decide does not happen."""

    async def main() -> None:
        await asyncio.to_thread(int)

    with pytest.raises(RuntimeError, match="no threads"):
        run(main())


# -- processes ---------------------------------------------------------------------------------------


def counting(loop: SimulatedLoop, name: str) -> tuple[SimulatedProcess, list[float], list[str]]:
    """Start a process that counts the seconds, and says so when it ends."""
    process, ticks, ends = SimulatedProcess(loop, name), [], []

    async def count() -> None:
        try:
            while True:
                ticks.append(loop.time())
                await asyncio.sleep(1)
        finally:
            ends.append(name)

    process.start(count())
    return process, ticks, ends


def test_killed_process_does_nothing_any_more() -> None:
    """Not even its `finally`."""
    loop = SimulatedLoop(1)

    async def main() -> tuple[int, list[str]]:
        process, ticks, ends = counting(loop, "w")
        await asyncio.sleep(3.5)
        process.kill()
        await asyncio.sleep(10)
        seen = len(ticks), list(ends)
        await process.bury()
        return seen

    assert run(main(), loop=loop) == (4, [])
    assert loop.problems == []


def test_frozen_process_goes_on_late() -> None:
    """What was due meanwhile happens afterwards, and what it starts belongs to it."""
    loop = SimulatedLoop(1)

    async def main() -> list[float]:
        process, ticks, _ = counting(loop, "w")
        await asyncio.sleep(1.5)
        process.freeze()
        await asyncio.sleep(100)
        process.thaw()
        await asyncio.sleep(1.2)
        process.terminate()
        await asyncio.sleep(0.1)
        return ticks

    assert run(main(), loop=loop) == [0, 1, 101.5, 102.5]


# -- the store ---------------------------------------------------------------------------------------


async def acknowledged(store: Store, *, after: int = 0) -> bool:
    try:
        await store.append(KEY, [ENTRY], after=after)
    except StoreTimeout:
        return False
    return True


def inside(store: SimulatedStore) -> int:
    return len(at_once(store.inside.headers(KEY)))


def test_lost_request_has_not_happened_and_lost_answer_has() -> None:
    """The client hears the same: nothing."""
    for weather, revision in ((Weather(request_lost=1.0), 0), (Weather(answer_lost=1.0), 1)):
        loop = SimulatedLoop(1)
        store = SimulatedStore(loop, weather)
        assert run(acknowledged(store), loop=loop) is False
        assert inside(store) == revision


def test_slow_request_happens_after_its_client_has_given_up() -> None:
    """Not known means not known: it may happen later."""
    loop = SimulatedLoop(3)
    store = SimulatedStore(loop, Weather(slow=1.0, longest_delay=100.0, deadline=1.0))

    async def main() -> tuple[bool, int, int]:
        heard, before = await acknowledged(store), inside(store)
        await asyncio.sleep(300)
        return heard, before, inside(store)

    assert run(main(), loop=loop) == (False, 0, 1)


def test_request_of_a_dead_client_arrives() -> None:
    """Who dies does not take back what is on its way."""
    loop = SimulatedLoop(1)
    store = SimulatedStore(loop, Weather(delay=5.0, deadline=60))

    async def main() -> int:
        process = SimulatedProcess(loop, "w")
        process.start(acknowledged(store))
        await asyncio.sleep(0.0001)
        process.kill()
        await asyncio.sleep(100)
        await process.bury()
        return inside(store)

    assert run(main(), loop=loop) == 1


def test_repeated_request_is_refused_the_second_time() -> None:
    """A log compares: what arrives again finds itself."""
    loop = SimulatedLoop(1)
    store = SimulatedStore(loop, Weather(repeated=0.9))

    async def main() -> None:
        for after in range(20):
            assert await acknowledged(store, after=after)
            await asyncio.sleep(1)

    run(main(), loop=loop)
    assert inside(store) == 20


def test_store_that_is_full_or_down_says_so() -> None:
    """Nothing of it is kept then."""
    loop = SimulatedLoop(1)
    store = SimulatedStore(loop, Weather(refused=1.0))

    async def main() -> None:
        with pytest.raises(StoreFull):
            await acknowledged(store)
        store.weather = Weather()
        store.crash(5)
        with pytest.raises(StoreUnavailable):
            await acknowledged(store)
        await asyncio.sleep(6)
        assert await acknowledged(store)
        with pytest.raises(Behind):
            await acknowledged(store)

    run(main(), loop=loop)
    assert inside(store) == 1


@pytest.mark.parametrize(("synced_every", "kept"), [(None, 15), (10.0, 10)])
def test_crash_loses_what_was_not_synced_in_the_weak_mode_only(synced_every: float | None, kept: int) -> None:
    """One append a second, a crash after fifteen: the last sync was at ten."""
    loop = SimulatedLoop(1)
    store = SimulatedStore(loop, synced_every=synced_every)

    async def main() -> None:
        for after in range(15):
            assert await acknowledged(store, after=after)
            await asyncio.sleep(after + 1 - loop.time())
        await asyncio.sleep(0.5)
        store.crash(1)

    run(main(), loop=loop)
    assert inside(store) == kept


def test_waiting_for_a_change_ends_with_a_notice_or_without() -> None:
    """A lost notice costs waiting, never a hang."""
    for lost, waited in ((0.0, 1.0), (1.0, 30.0)):
        loop = SimulatedLoop(1)
        store = SimulatedStore(loop, Weather(notice_lost=lost, delay=0.0))

        async def main(store: SimulatedStore = store) -> float:
            waiting = asyncio.ensure_future(store.changed(KEY, after=0, within=30))
            await asyncio.sleep(1)
            await acknowledged(store)
            assert await waiting == 1
            return asyncio.get_running_loop().time()

        assert run(main(), loop=loop) == pytest.approx(waited)


def test_clock_of_the_store_ends_its_holds() -> None:
    """Set it forward, and who held the session can be succeeded."""
    loop = SimulatedLoop(1)
    store = SimulatedStore(loop)

    async def main() -> None:
        await store.hold(KEY, Hold(run="r", holder="a", seconds=60))
        store.clock_shift += 61
        await store.hold(KEY, Hold(run="r", holder="b", seconds=60))

    run(main(), loop=loop)
    assert [accepted.hold.holder for accepted in store.accepted if accepted.hold] == ["a", "b"]


def test_history_counts_the_calls_of_the_dead_as_unanswered() -> None:
    """Their entries may be read by others, and nobody has to explain that."""
    loop = SimulatedLoop(1)
    store = SimulatedStore(loop, Weather(delay=5.0, deadline=60))
    history = History(loop.time)

    async def main() -> None:
        process = SimulatedProcess(loop, "w")
        process.start(history.watch(store, "w").append(KEY, [ENTRY], after=0))
        await asyncio.sleep(0.0001)
        process.kill()
        await asyncio.sleep(100)
        assert len(await history.watch(store, "reader").headers(KEY)) == 1
        assert [one.result for one in history.of(KEY)] == ["ok", "unknown"]
        assert not history.contradictions()
        await process.bury()

    run(main(), loop=loop)
