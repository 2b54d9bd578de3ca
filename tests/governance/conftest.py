"""Stores for what one can do with a log: what is true of one must be true of all.

Another store joins by a line in `BACKENDS`; one with a server asks for its address.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from _postgres import postgres_database, postgres_server, postgres_url
from _valkey import valkey_server, valkey_url

from statepact import MemoryStore, SqliteStore, Store, open_store
from statepact.stores import CachedStore

__all__ = ["postgres_database", "postgres_server", "postgres_url", "valkey_server", "valkey_url"]

BACKENDS = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "state.db", durability="process"),
    "cached": lambda folder: CachedStore(SqliteStore(folder / "state.db", durability="process"), MemoryStore()),
}
SERVERS = {"postgres": "postgres_url", "redis": "valkey_url"}


@pytest.fixture(params=sorted([*BACKENDS, *SERVERS]))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param in SERVERS:
        async with open_store(request.getfixturevalue(SERVERS[request.param])) as opened:
            yield opened
        return
    async with BACKENDS[request.param](tmp_path) as opened:
        yield opened
