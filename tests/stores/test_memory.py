"""The store suite on the store in memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

import pytest

from statepact.stores import MemoryStore, Store
from statepact.testing import StoreSuite


class TestMemoryStore(StoreSuite):
    """Everything a store promises, run against the memory of this process."""

    @pytest.fixture
    def shifts(self) -> list[float]:
        """By how much the store's clock has been set, in seconds."""
        return []

    @pytest.fixture
    def jump(self, shifts: list[float]) -> Callable[[float], None]:
        return shifts.append

    @pytest.fixture
    async def store(self, shifts: list[float]) -> AsyncIterator[Store]:
        async with MemoryStore(clock=lambda: time.monotonic() + sum(shifts)) as store:
            yield store
