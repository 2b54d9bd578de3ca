"""The store suite on PostgreSQL, and what only a server can do to us."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from statepact.stores import PostgresStore, Store
from statepact.testing import StoreSuite


class TestPostgresStore(StoreSuite):
    """Everything a store promises, run against a real server."""

    @pytest.fixture
    async def store(self, postgres_url: str) -> AsyncIterator[Store]:
        async with PostgresStore.from_url(postgres_url) as store:
            yield store
