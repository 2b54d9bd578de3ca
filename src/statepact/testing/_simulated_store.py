"""A store behind a network that loses, delays and repeats, in the time of a simulated loop.

The store itself is the one in memory. Every call travels there and back as two messages of their own:
who has sent a request and dies, or stops waiting, does not take it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from statepact.errors import StatepactError, StoreError, StoreFull, StoreTimeout, StoreUnavailable
from statepact.ledger import SessionKey
from statepact.stores._base import EntityUse, Hold, NewEntry, Rewrite, SessionInfo, StoredHeader
from statepact.stores._memory import MemoryStore
from statepact.testing._simulated_loop import SimulatedLoop, current_process
from statepact.workflow._at_once import at_once

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How bad the network and the store are. Chances are from 0 to 1, times in seconds."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    repeated: float = 0.0
    """A request that was answered arrives once more, later."""
    notice_lost: float = 0.0
    """Somebody who waits for a change is not woken by it."""
    refused: float = 0.0
    """An append finds no room, and nothing of it is kept."""
    delay: float = 0.002
    """Usual time of a message."""
    slow: float = 0.0
    """Chance that a message takes up to `longest_delay` instead: after the deadline, perhaps."""
    longest_delay: float = 8.0
    deadline: float = 2.0
    """How long a client waits for an answer."""


FINE = Weather()
"""Nothing goes wrong."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the store has taken: an append, or a claim, which has no entries."""

    at: float
    """By the store's clock."""
    key: SessionKey
    hold: Hold | None
    after: int = 0
    entries: int = 0


class SimulatedStore:
    """A `Store` for code that runs on a `SimulatedLoop`. Its clients are told apart by their process.

    `synced_every` is the weak mode: the store acknowledges at once and has on disk only what it had at
    the last multiple of so many seconds; a crash loses the rest. `None` loses nothing.
    """

    def __init__(self, loop: SimulatedLoop, weather: Weather = FINE, *, synced_every: float | None = None) -> None:
        self.loop = loop
        self.weather = weather
        self.synced_every = synced_every
        self.clock_shift = 0.0
        """By how many seconds the store's clock is ahead."""
        self.cut_off: set[str] = set()
        """Names of processes that the network does not reach."""
        self.promise = "a simulation keeps what its test says"
        self.inside = MemoryStore(clock=self._clock)
        """What is really stored, without a network."""
        self.accepted: list[Accepted] = []
        """Every append and claim that the store has taken, in its order."""
        self._up = True
        self._journal: list[tuple[float, Callable[[MemoryStore], Coroutine[Any, Any, Any]]]] = []
        self._replayed: float | None = None
        self._waiting: list[tuple[SessionKey, int, Callable[[], None]]] = []
        # Messages belong to nobody: they arrive whatever becomes of who has sent them.
        self._network = Context()

    def _clock(self) -> float:
        return (self.loop.time() if self._replayed is None else self._replayed) + self.clock_shift

    # -- faults --------------------------------------------------------------------------------------

    def crash(self, seconds: float) -> None:
        """End the store and start it again after some seconds."""
        self.loop.note("the store crashes")
        self._up = False
        self._waiting.clear()
        if self.synced_every is not None:
            self._forget(self.loop.time() // self.synced_every * self.synced_every)
        self._network.run(self.loop.call_later, seconds, self._start)

    def _start(self) -> None:
        self._up = True
        self.loop.note("the store is back")

    def _forget(self, since: float) -> None:
        self._journal = [(when, change) for when, change in self._journal if when <= since]
        self.inside = MemoryStore(clock=self._clock)
        for when, change in self._journal:
            self._replayed = when
            at_once(change(self.inside))
        self._replayed = None

    # -- the network -----------------------------------------------------------------------------------

    async def _ask(
        self, call: Callable[[MemoryStore], Coroutine[Any, Any, T]], what: str, *, changes: bool = False
    ) -> T:
        answer: asyncio.Future[T] = self.loop.create_future()
        chance, weather = self.loop.random, self.weather
        process = current_process()
        sender = process.name if process else ""
        self.loop.note(f"{sender} asks {what}")
        if sender not in self.cut_off and chance.random() >= weather.request_lost:
            self._send(self._arrive, call, answer, sender, what, changes)
        return await self._answered(answer, weather.deadline)

    async def _answered(self, answer: asyncio.Future[T], deadline: float) -> T:
        timer = self.loop.call_later(deadline, _give_up, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    def _send(self, arrive: Callable[..., None], *args: Any) -> None:
        chance, weather = self.loop.random, self.weather
        delay = weather.delay * chance.random()
        if weather.slow and chance.random() < weather.slow:
            delay = weather.longest_delay * chance.random()
        self._network.run(self.loop.call_later, delay, arrive, *args)

    def _arrive(
        self,
        call: Callable[[MemoryStore], Coroutine[Any, Any, T]],
        answer: asyncio.Future[T],
        sender: str,
        what: str,
        changes: bool,
    ) -> None:
        chance, weather = self.loop.random, self.weather
        result: T | None = None
        error: StatepactError | None = None
        if not self._up:
            error = StoreUnavailable("nobody listens at the store's address")
        elif changes and weather.refused and chance.random() < weather.refused:
            error = StoreFull("no room left")
        else:
            try:
                result = at_once(call(self.inside))
                if changes:
                    self._changed(call)
            except StatepactError as refusal:
                error = refusal
        self.loop.note(f"{sender} {what}: {error.code if error else 'done'}")
        if weather.repeated and not isinstance(error, StoreError) and chance.random() < weather.repeated:
            self._send(self._arrive, call, self.loop.create_future(), sender, what, changes)
        if chance.random() >= weather.answer_lost:
            self._send(self._deliver, answer, result, error, sender)

    def _deliver(self, answer: asyncio.Future[Any], result: Any, error: StatepactError | None, sender: str) -> None:
        if answer.done() or sender in self.cut_off:
            return
        if error is not None:
            answer.set_exception(error)
            answer.exception()  # whoever has stopped waiting need not look at it
        else:
            answer.set_result(result)

    def _changed(self, call: Callable[[MemoryStore], Coroutine[Any, Any, Any]]) -> None:
        if self.synced_every is not None:
            self._journal.append((self.loop.time(), call))
        waiting, self._waiting = self._waiting, []
        for key, after, look in waiting:
            if self._revision(key) <= after:
                self._waiting.append((key, after, look))
            elif self.loop.random.random() >= self.weather.notice_lost:
                look()

    def _accept(self, key: SessionKey, hold: Hold | None, after: int, entries: int) -> None:
        if self._replayed is None:
            self.accepted.append(Accepted(self._clock(), key, hold, after, entries))

    def _revision(self, key: SessionKey) -> int:
        return at_once(self.inside.changed(key, after=-1, within=0))

    # -- the protocol ----------------------------------------------------------------------------------

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        what = f"append {key.session} {after}+{len(entries)}"

        async def call(store: MemoryStore) -> None:
            await store.append(key, entries, after=after, hold=hold)
            self._accept(key, hold, after, len(entries))

        await self._ask(call, what, changes=True)

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        return await self._ask(lambda store: store.headers(key, after=after), f"headers {key.session} {after}")

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        wanted = sorted(set(revisions))
        return await self._ask(lambda store: store.payloads(key, wanted), f"payloads {key.session} {wanted}")

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        wanted = sorted(set(addresses))
        return await self._ask(lambda store: store.blocks(key, wanted), f"blocks {key.session} {len(wanted)}")

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        what = f"rewrite {key.session} {after}"
        await self._ask(lambda store: store.rewrite(key, change, entries, after=after), what, changes=True)

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        what = f"hold {key.session} {hold.seconds:g} {hold.claim}"

        async def call(store: MemoryStore) -> None:
            await store.hold(key, hold)
            self._accept(key, hold, 0, 0)

        await self._ask(call, what, changes=True)

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        answer: asyncio.Future[int] = self.loop.create_future()
        process = current_process()
        sender = process.name if process else ""
        self.loop.note(f"{sender} waits for {key.session} {after}")
        if sender not in self.cut_off and self.loop.random.random() >= self.weather.request_lost:
            self._send(self._listen, key, after, within, answer, sender)
        return await self._answered(answer, within + self.weather.deadline)

    def _listen(self, key: SessionKey, after: int, within: float, answer: asyncio.Future[int], sender: str) -> None:
        if not self._up:
            self._send(self._deliver, answer, None, StoreUnavailable("nobody listens"), sender)
            return

        def look() -> None:
            if self._up and not answer.done():
                self._send(self._deliver, answer, self._revision(key), None, sender)

        if within <= 0 or self._revision(key) > after:
            look()
            return
        self._waiting.append((key, after, look))
        self._network.run(self.loop.call_later, within, look)

    async def owners(self) -> Sequence[str]:
        return await self._ask(lambda store: store.owners(), "owners")

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        return await self._ask(lambda store: store.sessions(owner), "sessions")

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        return await self._ask(lambda store: store.entities(owner, kind=kind, value=value, most=most), "entities")

    async def aclose(self) -> None:
        """Nothing: the store goes on without its clients."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def _give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(
            StoreTimeout("the store has not answered in time", hint="whether it happened is not known")
        )
