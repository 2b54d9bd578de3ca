"""Stores for what one can do with a log: what is true of one must be true of all.

Another store joins by a line in `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from _postgres import postgres_database, postgres_server, postgres_url
from _valkey import valkey_server, valkey_url

from statepact import MemoryStore, SqliteStore, Store
from statepact.stores import CachedStore, open_store

__all__ = ["postgres_database", "postgres_server", "postgres_url", "valkey_server", "valkey_url"]

BACKENDS = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "state.db", durability="process"),
    "cached": lambda folder: CachedStore(SqliteStore(folder / "state.db", durability="process"), MemoryStore()),
}


@pytest.fixture(params=[*sorted(BACKENDS), "postgres", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "postgres":
        opened = open_store(request.getfixturevalue("postgres_url"))
    elif request.param == "redis":
        opened = open_store(request.getfixturevalue("valkey_url"))
    else:
        opened = BACKENDS[request.param](tmp_path)
    async with opened:
        yield opened
