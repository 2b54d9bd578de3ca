"""Fixtures that give one test every store there is: what is true of one must be true of all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from _postgres import postgres_database, postgres_server, postgres_url
from _valkey import valkey_server, valkey_url

from statepact import MemoryStore, Store
from statepact.stores import open_store

__all__ = [
    "Reopen",
    "backend",
    "postgres_database",
    "postgres_server",
    "postgres_url",
    "store",
    "store_url",
    "stores",
    "valkey_server",
    "valkey_url",
]

Reopen = Callable[[], Awaitable[Store]]
"""Opens the same data once more, as a further process would."""


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis", "cached"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store; a server is started for the first test that asks for it."""
    if backend in ("sqlite", "cached"):
        return f"sqlite:///{tmp_path / 'state.db'}?durability=process"
    if backend == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    if backend == "redis":
        return str(request.getfixturevalue("valkey_url"))
    return "memory:"


@pytest.fixture
async def stores(backend: str, store_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Reopen]:
    """Open the same data again and again; memory has only itself."""
    memory = MemoryStore()
    cache = str(request.getfixturevalue("valkey_url")) if backend == "cached" else None
    async with AsyncExitStack() as stack:

        async def another() -> Store:
            return (
                memory if backend == "memory" else await stack.enter_async_context(open_store(store_url, cache=cache))
            )

        yield another


@pytest.fixture
async def store(stores: Reopen) -> Store:
    return await stores()
