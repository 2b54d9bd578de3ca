"""A clock that stands still until a test moves it."""

from __future__ import annotations


class FakeClock:
    """Takes the place of the system's clock: `workflow.run(..., clock=FakeClock())`.

    It starts at a fixed moment (2026-01-01, UTC). Sleeping returns at once, moves the clock by what
    was asked for, and is recorded in `slept`.
    """

    def __init__(self, now: int = 1_767_225_600_000) -> None:
        self._now = now
        self.slept: list[float] = []
        """Seconds of each sleep, oldest first."""

    def now(self) -> int:
        """Return milliseconds since 1970, UTC."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += round(seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run once, as if the time had passed."""
        import asyncio

        self.slept.append(seconds)
        self.advance(max(seconds, 0))
        await asyncio.sleep(0)
