"""C9, clocks that jump an hour, go back, or stand still, under a worker and under its store.

The claims of a store in memory end by a clock that cannot go back, so there it only jumps and stands.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from faults._checker import check_store
from faults._place import Place, nothing
from faults._tally import Tally
from faults._worker import Job, work
from statepact.errors import SessionHeld
from statepact.ledger import SessionKey, session_key
from statepact.stores import Hold, MemoryStore, SqliteStore, Store

HOUR = 3_600.0
LEASE = 30.0
JUMPS = ("an hour ahead", "an hour back", "standing still")


class Jumping:
    """Seconds since 1970 by a clock that somebody plays with."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._stands_at: float | None = None

    def __call__(self) -> float:
        return self._stands_at if self._stands_at is not None else time.time() + self._offset

    def jump(self, how: str) -> None:
        self._stands_at = None
        if how == "standing still":
            self._stands_at = self()
        else:
            self.move(HOUR if how == "an hour ahead" else -HOUR)

    def move(self, seconds: float) -> None:
        if self._stands_at is not None:
            self._stands_at += seconds
        else:
            self._offset += seconds


def clock_jumps(place: Place, store: str, rounds: int, *, bug: Callable[[], None] = nothing) -> Tally:
    """Let the clock jump while workers commit and somebody holds a session."""
    mode = "process" if store == "sqlite" else "-"
    tally = Tally(store, mode, "the store's clock jumps, goes back, stands still", seeds=place.seeds(rounds))
    bug()
    for number in range(rounds):
        jumps = [how for how in JUMPS if store == "sqlite" or how != "an hour back"]
        how = jumps[number % len(jumps)]
        with place.folder() as folder:
            place.ledger.clear()
            clock = Jumping()
            chance = random.Random(place.seed + number)
            opened: Store = (
                MemoryStore(clock=clock)
                if store == "memory"
                else SqliteStore(folder / "state.db", durability="process", clock=clock)
            )
            asyncio.run(_one_round(place, opened, clock, how, chance, tally))
    return tally.done()


class _JumpInside:
    """Around a store: lets the clock jump when an append is under way."""

    def __init__(self, clock: Jumping, how: str, *, after: int) -> None:
        self._clock = clock
        self._how = how
        self._left = after
        self._store: Any = None

    def __call__(self, store: Store) -> "_JumpInside":
        self._store = store
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def happened(self) -> bool:
        return self._left <= 0

    async def append(self, *values: Any, **named: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._clock.jump(self._how)
        await self._store.append(*values, **named)


async def _one_round(place: Place, store: Store, clock: Jumping, how: str, chance: random.Random, tally: Tally) -> None:
    async with store:
        key = session_key("clocks", "held")
        await store.hold(key, Hold(run="r", holder="dead", seconds=LEASE))
        jump = _JumpInside(clock, how, after=chance.randint(5, 60))
        await work(Job("", place.ledger.path, ("s0", "s1"), runs=2, wrap=jump), store)
        if how != "an hour ahead" and await _granted(store, key):
            tally.remark(f"{how}: a claim of {LEASE:g} s was taken over at once")
        await _succeeded_in_time(store, clock, key, how, tally)
        books = place.ledger.read()
        for name, record in books.records.items():
            if record.error:
                tally.remark(f"{how}: {name} failed with {record.error}")
        found = await check_store(store, books)
        tally.add(found, hit=jump.happened)
        tally.count(found)


async def _succeeded_in_time(store: Store, clock: Jumping, key: SessionKey, how: str, tally: Tally) -> None:
    """A dead holder is succeeded once its time has passed on the clock as it is now, and no later."""
    clock.move(LEASE + 1)
    if not await _granted(store, key):
        tally.remark(f"{how}: the dead holder was not succeeded when its time had passed")


async def _granted(store: Store, key: SessionKey) -> bool:
    try:
        await store.hold(key, Hold(run="r", holder="next", seconds=LEASE))
    except SessionHeld:
        return False
    return True
