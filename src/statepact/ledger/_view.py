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
    shared: bool = False
    """It changes a shared value of the session; `values` holds what was set or merged."""
    omitted: int = 0
    """Bit i is set if the writer did not set field i: what stands there is nobody's word."""
    deleted: int = 0
    """Bit i is set if what field i of a shared value held is gone: deleted, or set anew."""
    locked: frozenset[str] = frozenset()
    """Sensitive fields whose values read `•••`, because their key was not given."""
    erased: frozenset[str] = frozenset()
    """Fields whose values were erased: they are not in `values`."""

    def says(self, number: int) -> bool:
        """Whether the writer has set field `number`."""
        return not self.omitted >> number & 1

    def touches(self, number: int) -> bool:
        """Whether the writer has set or deleted field `number`."""
        return not (self.omitted & ~self.deleted) >> number & 1

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

    @property
    def outputs(self) -> tuple[CellView, ...]:
        """What the step returned, without its changes of shared values."""
        return tuple(cell for cell in self.cells if not cell.shared)

    def gave(self, read: ReadView) -> tuple[int, ...]:
        """Return which fields of a cell the step was given, by number: those that somebody has said.

        Of a shared value it was given the fields as they were last changed, and only those.
        """
        cell = read.cell
        said = [
            number for number, one in enumerate(cell.contract.fields) if cell.says(number) and one.name in cell.values
        ]
        if not cell.shared:
            return tuple(said)
        later = [
            other.cell
            for other in self.reads
            if other.cell.shared
            and other.cell.contract.name == cell.contract.name
            and other.cell.revision > cell.revision
        ]
        newer = {
            field.name for other in later for number, field in enumerate(other.contract.fields) if other.touches(number)
        }
        return tuple(number for number in said if cell.contract.fields[number].name not in newer)


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
