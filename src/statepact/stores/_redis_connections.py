"""What a Redis store has in each event loop that uses it: made at first use, let go of at the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statepact.errors import StoreUnavailable
from statepact.stores._per_loop import PerLoop
from statepact.stores._redis_check import Mode, check
from statepact.stores._redis_entities import EntityIndex
from statepact.stores._redis_keys import Names
from statepact.stores._redis_link import Link
from statepact.stores._redis_listen import Listener
from statepact.stores._redis_listing import Listing
from statepact.stores._redis_target import Target

if TYPE_CHECKING:
    from redis.asyncio import Redis


@dataclass(slots=True)
class Here:
    """What belongs to one event loop."""

    link: Link
    index: EntityIndex
    listing: Listing
    listener: Listener

    def abandon(self) -> None:
        """Let go of everything at once; for a loop that has ended."""
        self.link.abandon()
        self.listener.abandon()

    async def aclose(self) -> None:
        """Finish what is under way, and close."""
        await self.listener.aclose()
        await self.link.aclose()


class Connections:
    """A place, checked before its first use for what it keeps."""

    def __init__(self, target: Target, names: Names, *, mode: Mode, timeout: float, most: int, wait: int) -> None:
        self.target = target
        self.promise = "a cache: nothing is promised" if mode == "cache" else "what the server promises"
        """What survives what, as the server's settings were when it was first used."""
        self.closed = False
        self._names = names
        self._mode: Mode = mode
        self._timeout = timeout
        self._most = most
        self._wait = wait
        self._loops = PerLoop(self._made)
        self._ready = False

    async def here(self) -> Here:
        """Return what belongs to the running loop. Raises `StoreUnavailable`."""
        if self.closed:
            raise self.closed_error()
        here = self._loops.here()
        if not self._ready:
            self.promise = await check(here.link, mode=self._mode, wait=self._wait, where=self.target.shown)
            self._ready = True
        return here

    def _made(self) -> Here:
        link = Link(self.target, timeout=self._timeout, connections=self._most)
        listener = Listener(lambda: self._listening(link))
        return Here(link, EntityIndex(link, self._names), Listing(link, self._names), listener)

    async def _listening(self, link: Link) -> Redis:
        if link.cluster is None:
            return self.target.client()
        node = link.cluster.get_random_node()
        return self.target.node(str(node.host), int(node.port))

    def closed_error(self) -> StoreUnavailable:
        """Return the error for a store that is used after it was closed."""
        return StoreUnavailable(
            f"the store on {self.target.shown} is closed", hint="keep it open until every run has ended"
        )

    async def aclose(self) -> None:
        """Take no more work, and let go of every loop's connections."""
        self.closed = True
        ours = asyncio.get_running_loop()
        for loop, here in self._loops.take_all():
            if loop is ours:
                await here.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(here.aclose(), loop))
