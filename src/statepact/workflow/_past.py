"""A session as it stood at a revision: to be read, and never to be changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from statepact.contracts import Contract
from statepact.errors import UnknownRun
from statepact.ledger._cells import Cell
from statepact.ledger._shared import shared_value
from statepact.ledger._view import RunView
from statepact.loss import LossReport, measure
from statepact.stores._log_reader import LogReader
from statepact.workflow._portal import wait_for
from statepact.workflow._run_scope import erased_for, value_of

C = TypeVar("C", bound=Contract)


class AsyncPast:
    """What `await session.at(revision)` returns. Of what has been erased since, it says `Deleted`."""

    def __init__(self, log: LogReader, run: str) -> None:
        self._log = log
        self._run = run

    @property
    def revision(self) -> int:
        """Revision of the newest entry that is seen here."""
        return self._log.log.revision

    @property
    def runs(self) -> Sequence[str]:
        """Ids of the runs that had begun, oldest first."""
        return list(self._log.log.runs)

    async def get(self, contract: type[C], *, run: str | None = None) -> C | None:
        """Return the newest value of a kind in a run, `None` if there was none; `run` as for `all`.

        Raises `Deleted` if it was erased since.
        """
        cells = self._cells(contract, run)[-1:]
        await self._log.fetch(cells)
        return value_of(cells[0], contract) if cells else None

    async def all(self, contract: type[C], *, run: str | None = None) -> list[C]:
        """Return all values of a kind in a run, oldest first, without those erased since.

        `run` is by default that of the session it was asked for; if that had not begun, the newest one.
        """
        cells = self._cells(contract, run)
        await self._log.fetch(cells)
        return [value_of(cell, contract) for cell in cells if not erased_for(cell, contract)]

    def _cells(self, contract: type[Contract], run: str | None) -> list[Cell]:
        log = self._log.log.runs.get(self._chosen(run))
        return log.by_contract.get(contract.contract_name, []) if log else []

    def _chosen(self, run: str | None) -> str:
        if run is not None:
            return run
        if self._run in self._log.log.runs or not self.runs:
            return self._run
        return self.runs[-1]

    async def shared(self, contract: type[C]) -> C | None:
        """Return a shared value of the session as it stood; `None` before its first change.

        Raises `MissingInput` or `Deleted` if a required field of it was not there.
        """
        return shared_value(await self._log.shared(contract))

    async def view(self, run: str | None = None) -> RunView:
        """Return a run, entry by entry with its values; mask them before you show them. Raises `UnknownRun`."""
        if not self.runs:
            raise UnknownRun(f"session {self._log.key.session!r} had no run at revision {self.revision}")
        return await self._log.view(self._chosen(run))

    async def measure(self, run: str | None = None) -> LossReport:
        """Return what was lost in a run by then."""
        return measure(await self.view(run))


class Past:
    """What `session.at(revision)` returns to code without an event loop; see `AsyncPast`."""

    def __init__(self, past: AsyncPast) -> None:
        self._past = past

    @property
    def revision(self) -> int:
        """Revision of the newest entry that is seen here."""
        return self._past.revision

    @property
    def runs(self) -> Sequence[str]:
        """Ids of the runs that had begun, oldest first."""
        return self._past.runs

    def get(self, contract: type[C], *, run: str | None = None) -> C | None:
        """Return the newest value of a kind in a run, `None` if there was none."""
        return wait_for(self._past.get(contract, run=run))

    def all(self, contract: type[C], *, run: str | None = None) -> list[C]:
        """Return all values of a kind in a run, oldest first."""
        return wait_for(self._past.all(contract, run=run))

    def shared(self, contract: type[C]) -> C | None:
        """Return a shared value of the session as it stood; `None` before its first change."""
        return wait_for(self._past.shared(contract))

    def view(self, run: str | None = None) -> RunView:
        """Return a run, entry by entry with its values."""
        return wait_for(self._past.view(run))

    def measure(self, run: str | None = None) -> LossReport:
        """Return what was lost in a run by then."""
        return wait_for(self._past.measure(run))
