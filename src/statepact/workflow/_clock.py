"""Time, passed in: the system's by default, a fake one in tests."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a run takes its time from."""

    def now(self) -> int:
        """Return milliseconds since 1970, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
