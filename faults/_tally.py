"""What a campaign adds up: one line of the table."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from faults._checker import Findings


@dataclass
class Tally:
    """Faults of one kind on one store in one mode."""

    store: str
    mode: str
    fault: str
    control: bool = False
    hits: int = 0
    """Faults that hit at least one operation in flight."""
    committed: int = 0
    lost: int = 0
    duplicated: int = 0
    indeterminate: int = 0
    seeds: str = ""
    seconds: float = 0.0
    void: str = ""
    """Why the line proves nothing, empty if it does."""
    remarks: list[str] = field(default_factory=list)
    """What a check has found, beside what is lost or there twice."""
    troubles: list[str] = field(default_factory=list)
    """What went wrong with the campaign itself: fails the line, and is no sign of a bug in a store."""
    also: str = ""
    """What else the campaign has to say, such as how exact the product's own report was."""
    inexact: int = 0
    """Lost facts that the product's own report did not name, and facts it named that are there: fails any line."""
    must_hold: bool = True
    """Whether one lost fact fails the run: not for modes that promise less."""
    _begun: float = field(default_factory=time.monotonic)

    def add(self, found: Findings, *, hit: bool) -> None:
        """Add what a check after one fault has found. Facts of the same file are counted by `count`."""
        self.hits += hit
        self.lost += len(found.lost)
        self.duplicated += len(found.duplicated)
        for remark in found.remarks:
            self.remark(remark)

    def count(self, found: Findings) -> None:
        """Count the facts that a store holds at the end of its life."""
        self.committed += found.committed
        self.indeterminate += found.indeterminate

    def remark(self, text: str) -> None:
        if len(self.remarks) < 12 and text not in self.remarks:
            self.remarks.append(text)

    def trouble(self, text: str) -> None:
        if text not in self.troubles:
            self.troubles.append(text)

    def done(self) -> "Tally":
        self.seconds = round(time.monotonic() - self._begun, 1)
        if not self.hits and not self.void:
            self.void = "no fault hit an operation in flight"
        if self.control and not self.lost and not self.void:
            self.void = "the control arm has lost nothing, so this run could not have found a loss"
        return self

    @property
    def found_something(self) -> bool:
        return bool(self.lost or self.duplicated or self.remarks)

    @property
    def evidence(self) -> str:
        """What was found, in a few words."""
        counts = f"{self.lost} lost, {self.duplicated} duplicated"
        if self.lost or self.duplicated or not self.remarks:
            return counts
        return f"{counts}; {self.remarks[0]}"

    @property
    def ok(self) -> bool:
        """Whether the line is as it must be."""
        if self.void or self.inexact:
            return False
        return self.control or not self.must_hold or not (self.found_something or self.troubles)

    def as_dict(self) -> dict[str, Any]:
        names = ("store", "mode", "fault", "control", "hits", "committed", "lost", "duplicated", "indeterminate")
        return {name: getattr(self, name) for name in (*names, *_MORE)}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> "Tally":
        """Return a line of an earlier run."""
        return cls(**{one.name: row[one.name] for one in fields(cls) if one.init and one.name in row})


_MORE = ("seeds", "seconds", "void", "inexact", "also", "must_hold", "remarks", "troubles")
