"""Notices of commits: a hint that makes waiting shorter. A lost one costs a look, never a hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis.asyncio import Redis

RETRY = 1.0
"""Seconds until a connection that could not be made is tried again."""


class Listener:
    """Wakes those who wait for a session. Belongs to one event loop."""

    def __init__(self, connect: Callable[[], Awaitable[Redis]]) -> None:
        self._connect = connect
        self._client: Redis | None = None
        self._heard: Any = None
        self._asking = asyncio.Lock()
        self._waiting: dict[bytes, set[asyncio.Event]] = {}
        self._subscribed: set[bytes] = set()
        self._confirmed: dict[bytes, asyncio.Future[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self._closed = False

    async def expect(self, channel: bytes, woken: asyncio.Event) -> bool:
        """Have an event set at the next notice; return whether notices can be expected.

        What was committed before this returns may come without one, so look afterwards.
        """
        self._waiting.setdefault(channel, set()).add(woken)
        if channel in self._subscribed:
            return True
        if self._closed or time.monotonic() < self._not_before:
            return False
        async with self._asking:
            if channel in self._subscribed:
                return True
            try:
                async with asyncio.timeout(RETRY):
                    await self._subscribe(channel)
            except Exception:
                # A hint less; whoever waits looks by itself, and finds out what is wrong.
                await self._end()
                self._not_before = time.monotonic() + RETRY
                return False
        return True

    async def _subscribe(self, channel: bytes) -> None:
        if self._heard is None:
            self._client = await self._connect()
            self._heard = self._client.pubsub()
            await self._heard.connect()
        confirmed = self._confirmed[channel] = asyncio.get_running_loop().create_future()
        try:
            await self._heard.subscribe(channel)
            if self._task is None:
                self._task = asyncio.ensure_future(self._listen(self._heard))
            await confirmed
        finally:
            self._confirmed.pop(channel, None)
        self._subscribed.add(channel)

    async def _listen(self, heard: Any) -> None:
        try:
            while not self._closed:
                message = await heard.get_message(timeout=None)
                if message is None:
                    continue
                if message["type"] == "subscribe" and (future := self._confirmed.get(message["channel"])):
                    if not future.done():
                        future.set_result(None)
                elif message["type"] == "message":
                    waiting = self._waiting.get(message["channel"])
                    for woken in waiting or ():
                        woken.set()
                    if not waiting:
                        await self._unsubscribe(message["channel"])
        except Exception:
            self._task = None
            await self._end()

    async def _unsubscribe(self, channel: bytes) -> None:
        if channel in self._subscribed:
            self._subscribed.discard(channel)
            await self._heard.unsubscribe(channel)

    def forget(self, channel: bytes, woken: asyncio.Event) -> None:
        """Take back what `expect` was asked for."""
        waiting = self._waiting.get(channel, set())
        waiting.discard(woken)
        if not waiting:
            self._waiting.pop(channel, None)

    async def _end(self) -> None:
        """Let go of the connection; who waits is woken to look, and to ask again."""
        heard, self._heard = self._heard, None
        client, self._client = self._client, None
        task, self._task = self._task, None
        self._subscribed.clear()
        for future in self._confirmed.values():
            if not future.done():
                future.set_exception(ConnectionError())
        for waiting in self._waiting.values():
            for woken in waiting:
                woken.set()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with suppress(Exception):
            if heard is not None:
                await heard.aclose()
            if client is not None:
                await client.connection_pool.disconnect()
                await client.aclose()

    async def aclose(self) -> None:
        """Listen no more, and wake all who wait."""
        self._closed = True
        await self._end()

    def abandon(self) -> None:
        """Close the connection of a loop that has ended."""
        from statepact.stores._redis_link import drop

        self._closed = True
        connection = getattr(self._heard, "connection", None)
        if connection is not None:
            drop(connection)
