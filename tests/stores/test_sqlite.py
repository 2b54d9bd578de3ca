"""The store suite on SQLite, and what a second process sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from statepact.stores import SqliteStore, Store
from statepact.testing import StoreSuite


class TestSqliteStoreSurvivingPowerCuts(StoreSuite):
    """Everything a store promises, run against SQLite with the writer thread."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        async with SqliteStore(tmp_path / "state.db") as store:
            yield store


class TestSqliteStoreSurvivingProcesses(StoreSuite):
    """Everything a store promises, run against SQLite that writes where it is called."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        async with SqliteStore(tmp_path / "state.db", durability="process") as store:
            yield store


class TestSqliteStoreBusy(StoreSuite):
    """In process mode the writer thread takes over whatever meets a lock: the same promises hold."""

    @pytest.fixture
    async def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
        from statepact.errors import StoreTimeout

        def busy(*_: object) -> None:
            raise StoreTimeout("locked")

        monkeypatch.setattr(SqliteStore, "_write_here", busy)
        async with SqliteStore(tmp_path / "state.db", durability="process") as store:
            yield store
