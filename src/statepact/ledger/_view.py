"""A run as it stands in the log, with its values: what loss is computed from and pages show.

Values are plain JSON values: reading them needs no code of the workflow that wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from statepact.ledger._described import ContractRecord
from statepact.ledger._header import Kind, Reached


@dataclass(frozen=True, slots=True, eq=False)
class CellView:
    """A committed output with its values."""

    revision: int
    number: int
    step: str
    branch: str
    contract: ContractRecord
    values: Mapping[str, Any] = field(repr=False)
    locked: frozenset[str] = frozenset()
    """Sensitive fields whose values read `•••`, because their key was not given."""

    @property
    def writer(self) -> str:
        """Step, and branch where there is one."""
        return f"{self.step}/{self.branch}" if self.branch else self.step


@dataclass(frozen=True, slots=True, eq=False)
class ReadView:
    """A cell that a step was given, and how it reached the step."""

    cell: CellView
    reached: Reached
    mask: int
    declared: bool

    def has(self, number: int) -> bool | None:
        """Whether field `number` of the cell reached the step; `None` if nobody knows."""
        if self.reached is Reached.UNKNOWN:
            return None
        if self.reached is Reached.PARTLY:
            return bool(self.mask >> number & 1)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class EntryView:
    """One entry of a run."""

    revision: int
    kind: Kind
    at: int
    step: str
    branch: str
    cells: tuple[CellView, ...] = ()
    reads: tuple[ReadView, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""

    @property
    def writer(self) -> str:
        """Step, and branch where there is one."""
        return f"{self.step}/{self.branch}" if self.branch else self.step


@dataclass(frozen=True, slots=True, eq=False)
class RunView:
    """A run: its entries in the order of the log."""

    owner: str
    session: str
    run: str
    entries: tuple[EntryView, ...]

    @property
    def commits(self) -> tuple[EntryView, ...]:
        """The entries that are readable as state."""
        return tuple(entry for entry in self.entries if entry.kind is Kind.COMMIT)

    @property
    def status(self) -> str:
        """How the run ended: `done`, `failed`, or `open` if it has not been closed."""
        for entry in reversed(self.entries):
            if entry.kind is Kind.SEAL:
                return str(entry.extra.get("status", "open"))
        return "open"

    @property
    def workflow(self) -> str:
        """Name of the workflow, empty if none was given."""
        return next((str(entry.extra["workflow"]) for entry in self.entries if "workflow" in entry.extra), "")
