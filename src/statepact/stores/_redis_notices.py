"""Notices of the server: they wake those who wait, and nobody relies on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

QUIET = 5.0
"""Seconds that a listener stays after the last waiter has gone."""


class Notices:
    """One listening connection for all who wait on one event loop; made when somebody waits.

    If it breaks, waiters are not told and look by themselves: see `RedisStore.changed`.
    """

    def __init__(self, pubsub: Callable[[], Any]) -> None:
        self._make = pubsub
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._pubsub: Any = None
        self._reader: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def listen(self, channel: str) -> asyncio.Event:
        """Return an event that is set with the next notice on a channel; give it back with `leave`."""
        event = asyncio.Event()
        self._waiting.setdefault(channel, set()).add(event)
        with suppress(Exception):
            async with self._lock:
                if self._pubsub is None:
                    self._pubsub = self._make()
                await self._pubsub.subscribe(channel)
                if self._reader is None or self._reader.done():
                    self._reader = asyncio.create_task(self._read(self._pubsub), name="statepact-notices")
        return event

    async def leave(self, channel: str, event: asyncio.Event) -> None:
        """Say that nobody waits for this event any more."""
        others = self._waiting.get(channel, set())
        others.discard(event)
        if not others:
            self._waiting.pop(channel, None)
            with suppress(Exception):
                async with self._lock:
                    if self._pubsub is not None and channel not in self._waiting:
                        await self._pubsub.unsubscribe(channel)

    async def _read(self, pubsub: Any) -> None:
        try:
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=QUIET)
                if message is None:
                    if not self._waiting:
                        break
                    continue
                for event in self._waiting.get(message["channel"].decode(), ()):
                    event.set()
        except Exception:
            pass
        finally:
            if self._pubsub is pubsub:
                self._pubsub = None
            with suppress(Exception):
                await pubsub.aclose()

    async def aclose(self) -> None:
        """Stop listening."""
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._reader
