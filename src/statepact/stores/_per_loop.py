"""Connections belong to the event loop in which they were made; a store may be used from several."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Abandonable(Protocol):
    """What can be let go of although its event loop has ended."""

    def abandon(self) -> None:
        """Close everything at once."""


T = TypeVar("T", bound=Abandonable)


class PerLoop(Generic[T]):
    """One of a thing for each event loop, made when the loop first asks for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        # Not weak: somebody has to close what belongs to a loop that has ended.
        self._loops: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        """Return that of the running loop."""
        loop = asyncio.get_running_loop()
        here = self._loops.get(loop)
        if here is None:
            with self._lock:
                self._abandon()
                here = self._loops[loop] = self._make()
        return here

    def take_all(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        """Return, and forget, those of all loops that still run."""
        with self._lock:
            self._abandon()
            every = list(self._loops.items())
            self._loops.clear()
        return every

    def _abandon(self) -> None:
        for loop, left in list(self._loops.items()):
            if loop.is_closed():
                del self._loops[loop]
                left.abandon()
