"""What a run could see at one moment."""

from __future__ import annotations

from statepact.ledger._cells import Cell, Entry
from statepact.ledger._log import SessionLog


class Snapshot:
    """What a run could see at one moment: an immutable, lazy view of the log up to a revision.

    Taking one costs nothing and copies nothing, because nothing it points at is ever overwritten.
    """

    __slots__ = ("_log", "revision", "run")

    def __init__(self, log: SessionLog, run: str, revision: int | None = None) -> None:
        self._log = log
        self.run = run
        self.revision = log.revision if revision is None else revision

    def cells(self, contract_name: str) -> list[Cell]:
        """Return the cells of one kind of contract in this run, in the order of their commits."""
        run = self._log.runs.get(self.run)
        if run is None:
            return []
        return [cell for cell in run.by_contract.get(contract_name, ()) if cell.revision <= self.revision]

    def pinned(self) -> list[Cell]:
        """Return the cells of this run that hold pinned facts, in the order of their commits."""
        return self._log.pinned(self.run, self.revision)

    def commit(self, step: str, branch: str = "") -> Entry | None:
        """Return what a step has committed in this run, if it has."""
        run = self._log.runs.get(self.run)
        entry = run.by_cell.get((step, branch)) if run else None
        return entry if entry is not None and entry.revision <= self.revision else None
