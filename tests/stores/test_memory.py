"""The store suite on the store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from statepact.stores import MemoryStore, Store
from statepact.testing import StoreSuite


class TestMemoryStore(StoreSuite):
    """Everything a store promises, run against the memory of this process."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with MemoryStore() as store:
            yield store
