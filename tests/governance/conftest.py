"""Stores for what one can do with a log: what is true of one must be true of all.

Another store joins by a line in `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from statepact import MemoryStore, SqliteStore, Store
from statepact.stores import CachedStore

BACKENDS = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "state.db", durability="process"),
    "cached": lambda folder: CachedStore(SqliteStore(folder / "state.db", durability="process"), MemoryStore()),
}


@pytest.fixture(params=sorted(BACKENDS))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with BACKENDS[request.param](tmp_path) as opened:
        yield opened
