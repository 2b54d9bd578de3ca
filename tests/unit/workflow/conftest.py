"""What the tests of workflows share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from statepact import MemoryStore, SqliteStore, Store


class FakeClock:
    """A clock that moves only when somebody sleeps on it."""

    def __init__(self) -> None:
        self.milliseconds = 1_800_000_000_000
        self.slept: list[float] = []

    def now(self) -> int:
        return self.milliseconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.milliseconds += int(seconds * 1000)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    async with SqliteStore(tmp_path / "state.db", durability="process") as opened:
        yield opened
