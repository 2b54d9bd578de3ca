"""Stores for field cases: what is true of one must be true of all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from statepact import MemoryStore, SqliteStore, Store

Reopen = Callable[[], Awaitable[Store]]


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def stores(backend: str, tmp_path: Path) -> AsyncIterator[Reopen]:
    """Open the same data again and again, as further processes would; memory has only itself."""
    memory = MemoryStore()
    async with AsyncExitStack() as stack:

        async def another() -> Store:
            if backend == "memory":
                return memory
            return await stack.enter_async_context(SqliteStore(tmp_path / "state.db", durability="process"))

        yield another


@pytest.fixture
async def store(stores: Reopen) -> Store:
    return await stores()
