"""A record with a cache in front of it: the record decides, the cache only saves the way to it.

What a cache holds is a copy of the log. It is used as far as it is proven to be of the same history: its
newest header, with digest and salt, must stand at the same place in the record. Everything that must be
current is asked of the record. So losing the cache, or a part of it, costs time and nothing else; how
often each of that happens is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from statepact.errors import Behind, CorruptState, Expired, StoreError
from statepact.ledger import SessionKey
from statepact.ledger._header import Kind, kind_of
from statepact.stores._base import EntityUse, Hold, NewEntry, Rewrite, SessionInfo, Store, StoredHeader

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds that a cache may take; after that it counts as dead."""
REST = 5.0
"""Seconds for which a dead cache is left alone."""
HOT = 300.0
"""Seconds for which a copy stays that was made because somebody read."""
MOST_COPIED = 5_000
"""Entries of the longest session that is copied into the cache when it was not there."""


class Cache(Store, Protocol):
    """A store that can let go of a session as if it had never been there."""

    async def drop(self, key: SessionKey) -> None:
        """Let go of everything of a session."""
        ...


@dataclass(slots=True)
class CacheCounts:
    """What became of reads that a cache could have answered."""

    hits: int = 0
    misses: int = 0
    """It did not have the session."""
    expired: int = 0
    """It had it, and its lifetime is over."""
    evicted: int = 0
    """It had the session but not the value: something has removed it before its time."""
    stale: int = 0
    """What it had is not what the record has."""
    dead: int = 0
    """It failed or did not answer in time."""


class CachedStore:
    """A record and a cache of it: `CachedStore(PostgresStore(...), RedisStore(..., mode="cache"))`.

    Promises what the record promises. Whoever erases must do it through a store with the same cache, so
    that the copies go, too. `counts` says how the cache does.
    """

    needs_loop = True

    def __init__(self, record: Store, cache: Cache) -> None:
        self.record = record
        self.cache = cache
        self.counts = CacheCounts()
        self._proven: dict[SessionKey, int] = {}
        """Up to which revision the cache is known to hold what the record holds."""
        self._rests_until = 0.0
        self._copying: dict[SessionKey, asyncio.Task[None]] = {}

    @property
    def promise(self) -> str:
        return self.record.promise

    # -- the log ---------------------------------------------------------------------------------

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        await self.record.append(key, entries, after=after, hold=hold)
        if entries and self._proven.get(key, 0) == after:
            copies = [NewEntry(one.header, one.payload, one.blocks, keep=one.keep) for one in entries]
            await self._copy(key, copies, after)

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        if after:
            return await self.record.headers(key, after=after)
        cached = await self._try(self.cache.headers(key))
        if not cached:
            if cached is not None:
                self.counts.misses += 1
            self._proven.pop(key, None)
            found = await self.record.headers(key)
            self._copy_later(key, found)
            return found
        newest = cached[-1]
        rest = await self.record.headers(key, after=newest.revision - 1)
        # A note may say that a retention rule has removed something.
        erased = any(kind_of(one.header) in (Kind.ERASURE, Kind.NOTE) for one in rest[1:])
        if not rest or rest[0] != newest or erased:
            self.counts.stale += 1
            await self._forget(key)
            found = await self.record.headers(key)
            self._copy_later(key, found)
            return found
        self.counts.hits += 1
        self._proven[key] = newest.revision
        self._copy_later(key, rest[1:])
        return [*cached, *rest[1:]]

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        wanted = list(revisions)
        proven = self._proven.get(key, 0)
        found = await self._look_up(self.cache.payloads(key, [r for r in wanted if r <= proven]), bool(proven))
        self._count(sum(1 for revision in wanted if 1 <= revision <= proven), len(found))
        missing = [revision for revision in wanted if revision not in found]
        return {**found, **await self.record.payloads(key, missing)} if missing else found

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        wanted = list(addresses)
        found = await self._look_up(self.cache.blocks(key, wanted), key in self._proven)
        missing = [address for address in wanted if address not in found]
        return {**found, **await self.record.blocks(key, missing)} if missing else found

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        # Before, so that nobody can be shown what is being erased; after, because somebody may have
        # copied it in the meantime.
        await self._forget(key)
        await self.record.rewrite(key, change, entries, after=after)
        await self._forget(key)

    async def scrub(self) -> bool:
        """Let the record write over what it has let go of; see there."""
        scrub = getattr(self.record, "scrub", None)
        return True if scrub is None else bool(await scrub())

    # -- what only the record knows --------------------------------------------------------------

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        await self.record.hold(key, hold)

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        return await self.record.changed(key, after=after, within=within)

    async def owners(self) -> Sequence[str]:
        return await self.record.owners()

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        return await self.record.sessions(owner)

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        return await self.record.entities(owner, kind=kind, value=value, most=most)

    # -- the cache -------------------------------------------------------------------------------

    async def _look_up(self, asked: Awaitable[Mapping[T, bytes]], useful: bool) -> Mapping[T, bytes]:
        if not useful:
            _never(asked)
            return {}
        return await self._try(asked) or {}

    def _count(self, expected: int, found: int) -> None:
        self.counts.hits += found
        if time.monotonic() >= self._rests_until:
            self.counts.evicted += max(expected - found, 0)

    async def _try(self, asked: Awaitable[T]) -> T | None:
        """Return what the cache answers, or `None` if it has nothing to say."""
        if time.monotonic() < self._rests_until:
            _never(asked)
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                return await asked
        except Expired:
            self.counts.expired += 1
        except CorruptState:
            self.counts.evicted += 1
        except (StoreError, TimeoutError):
            self.counts.dead += 1
            self._rests_until = time.monotonic() + REST
        return None

    async def _copy(self, key: SessionKey, entries: Sequence[NewEntry], after: int) -> None:
        """Append to the copy; if it is not where it should be, it is of no use any more."""
        self._proven.pop(key, None)
        if time.monotonic() < self._rests_until:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self.cache.append(key, entries, after=after)
            self._proven[key] = after + len(entries)
        except (Behind, Expired, CorruptState):
            await self._forget(key)
        except (StoreError, TimeoutError):
            self.counts.dead += 1
            self._rests_until = time.monotonic() + REST

    def _copy_later(self, key: SessionKey, headers: Sequence[StoredHeader]) -> None:
        """Copy entries into the cache beside what goes on; a session that begins anew is no copy."""
        first = headers[0].revision if headers else 0
        if not first or len(headers) > MOST_COPIED or key in self._copying:
            return
        if first != self._proven.get(key, 0) + 1 or time.monotonic() < self._rests_until:
            return
        task = asyncio.create_task(self._copy_all(key, headers), name="statepact-cache")
        self._copying[key] = task
        task.add_done_callback(lambda _: self._copying.pop(key, None))

    async def _copy_all(self, key: SessionKey, headers: Sequence[StoredHeader]) -> None:
        try:
            payloads = await self.record.payloads(key, [one.revision for one in headers])
        except StoreError:
            return
        if len(payloads) == len(headers):
            entries = [NewEntry(one.header, payloads[one.revision], keep=HOT) for one in headers]
            await self._copy(key, entries, headers[0].revision - 1)

    async def _forget(self, key: SessionKey) -> None:
        self._proven.pop(key, None)
        copying = self._copying.get(key)
        if copying is not None and copying is not asyncio.current_task():
            copying.cancel()
            await asyncio.gather(copying, return_exceptions=True)
        await self._try(self.cache.drop(key))

    # -- the end ---------------------------------------------------------------------------------

    async def aclose(self) -> None:
        for copying in list(self._copying.values()):
            copying.cancel()
        await asyncio.gather(*self._copying.values(), return_exceptions=True)
        try:
            await self.cache.aclose()
        finally:
            await self.record.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _never(asked: Awaitable[object]) -> None:
    """Let go of a question that is not asked after all."""
    close = getattr(asked, "close", None)
    if close is not None:
        close()
