"""The store suite on SQLite, and what a second process sees."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from statepact.errors import InternalError, StoreTimeout
from statepact.stores import SqliteStore, Store
from statepact.testing import StoreSuite


class SqliteSuite(StoreSuite):
    """A file, two handles on it, and a clock that can be set."""

    @pytest.fixture
    def shifts(self) -> list[float]:
        """By how much the store's clock has been set, in seconds."""
        return []

    @pytest.fixture
    def jump(self, shifts: list[float]) -> Callable[[float], None]:
        return shifts.append

    @pytest.fixture
    def options(self, tmp_path: Path, shifts: list[float]) -> dict[str, Any]:
        """What a handle on the file is opened with."""
        return {"path": tmp_path / "state.db", "clock": lambda: time.time() + sum(shifts)}

    @pytest.fixture
    async def store(self, options: dict[str, Any]) -> AsyncIterator[Store]:
        async with SqliteStore(**options) as store:
            yield store

    @pytest.fixture
    async def second_store(self, options: dict[str, Any]) -> AsyncIterator[Store]:
        async with SqliteStore(**options) as store:
            yield store


class WithWriter:
    """A store whose writer thread can be made to die."""

    @pytest.fixture
    def kill_writer(self, store: SqliteStore) -> Callable[[], Awaitable[None]]:
        def die(_: object) -> None:
            raise SystemExit

        async def kill() -> None:
            with pytest.raises(InternalError, match="died"):
                await asyncio.shield(store._write(die))

        return kill


class TestSqliteStoreSurvivingPowerCuts(WithWriter, SqliteSuite):
    """Everything a store promises, run against SQLite with the writer thread."""


class TestSqliteStoreSurvivingProcesses(SqliteSuite):
    """Everything a store promises, run against SQLite that writes where it is called."""

    @pytest.fixture
    def options(self, tmp_path: Path, shifts: list[float]) -> dict[str, Any]:
        return {
            "path": tmp_path / "state.db",
            "clock": lambda: time.time() + sum(shifts),
            "durability": "process",
        }


class TestSqliteStoreBusy(WithWriter, TestSqliteStoreSurvivingProcesses):
    """In process mode the writer thread takes over whatever meets a lock: the same promises hold."""

    @pytest.fixture
    async def store(self, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
        def busy(*_: object) -> None:
            raise StoreTimeout("locked")

        monkeypatch.setattr(SqliteStore, "_write_here", busy)
        async with SqliteStore(**options) as store:
            yield store
