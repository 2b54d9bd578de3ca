"""What an erasure takes with it: the values that were asked for, their copies, and what was made from them.

A pure rule over the headers and records of a log. Everything a value can have come from stands before it,
so one walk from the oldest entry to the newest finds all:

- A step that was given an erased fact may have put it into what it committed, so all of that goes; unless
  the log knows that this fact did not reach it (`_derived.py`).
- What a run was asked is shown to every model that is asked in it.
- What a part of a workflow is asked with is a copy from the run around it, and what it results in is
  copied out again: of copies the same fields go.
- What came from earlier runs of the session (`earlier`, `recall`) is named in the record of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from statepact.errors import SetupError
from statepact.ledger._cells import Cell, Entry
from statepact.ledger._derived import may_have_brought
from statepact.ledger._header import Kind
from statepact.ledger._key import INSIDE, REQUEST_STEP
from statepact.ledger._lineage import made_from
from statepact.ledger._log import OF_THE_SESSION, SessionLog
from statepact.ledger._pinned import all_reads

Place = tuple[int, int]

SAFE_RECORDS = frozenset(
    ("asked_again", "began", "by", "cells", "cleaned", "contract", "covers", "degraded", "earlier", "entities",
     "erased", "error", "fields", "gathered", "head", "holder", "links", "own_prompt", "pinned_shown", "repaired",
     "results", "revision", "settled", "size", "status", "suspicious", "unset", "usage", "violations", "winner",
     "workflow", "writers")
)  # fmt: skip
"""What stands beside values and is none: names, places, numbers. Everything else, such as a reason in a
model's words, goes with the values of its entry."""


class Chosen(Protocol):
    """What an erasure begins with."""

    def fields_of(self, cell: Cell) -> frozenset[str]:
        """Return which fields of a cell are meant."""
        ...

    @property
    def records(self) -> frozenset[int]:
        """Revisions of which the record beside the values loses what may hold a value, whatever else goes."""
        ...


@dataclass(frozen=True, slots=True)
class Fact:
    """Which values are meant: `Order.phone`, `Order` for whole values, either with `@7` for one revision."""

    contract: str
    field: str = ""
    revision: int = 0

    @classmethod
    def of(cls, text: str) -> Fact:
        """Return what a text names; raises `SetupError` if it has another form."""
        name, at, revision = text.partition("@")
        contract, _, one = name.partition(".")
        if not contract or (at and not (revision.isdecimal() and int(revision))) or (name.endswith(".")):
            raise SetupError(f"{text!r} names no fact", hint="name Contract.field or Contract, perhaps with @REVISION")
        return cls(contract, one, int(revision) if at else 0)

    def __str__(self) -> str:
        name = f"{self.contract}.{self.field}" if self.field else self.contract
        return f"{name}@{self.revision}" if self.revision else name

    records = frozenset[int]()

    def names(self, name: str) -> bool:
        """Whether this is, or is a part of, what `Order.phone` or `Order` names, whatever the revision."""
        contract, _, one = name.partition(".")
        return contract == self.contract and (not one or not self.field or one == self.field)

    def fields_of(self, cell: Cell) -> frozenset[str]:
        """Return which fields of a cell are meant."""
        if cell.contract.name != self.contract or self.revision not in (0, cell.revision):
            return frozenset()
        names = frozenset(one.name for one in cell.contract.fields)
        return names & {self.field} if self.field else names


@dataclass(slots=True)
class Plan:
    """What goes."""

    fields: dict[Place, frozenset[str]] = field(default_factory=dict)
    """Fields by cell; all of a cell that is listed in `whole`."""
    whole: set[Place] = field(default_factory=set)
    derived: set[Place] = field(default_factory=set)
    """Those of them that were made from others."""
    kept: set[Place] = field(default_factory=set)
    """What was made from others and stays, because that was asked for."""
    records: set[int] = field(default_factory=set)
    """Revisions whose record beside the values loses what may hold a value."""


def plan_of(
    log: SessionLog,
    record: Callable[[Entry], Mapping[str, Any]],
    *,
    fact: Chosen | None,
    keep_derived: bool = False,
) -> Plan:
    """Return what an erasure of a fact, or of everything (`None`), takes with it."""
    return _Walk(log, record, fact, keep_derived).plan()


class _Walk:
    def __init__(
        self, log: SessionLog, record: Callable[[Entry], Mapping[str, Any]], fact: Chosen | None, keep_derived: bool
    ) -> None:
        self._log = log
        self._record = record
        self._fact = fact
        self._keep_derived = keep_derived
        self._plan = Plan()
        self._always = fact.records if fact is not None else frozenset[int]()
        self._copied: dict[tuple[str, str], frozenset[str]] = {}
        """Fields that are gone, by run and contract: what parts of workflows copy."""
        self._requests: set[str] = set()
        """Runs of which the request, as models are shown it, has lost something."""

    def plan(self) -> Plan:
        for entry in self._log.entries:
            before = len(self._plan.fields) + len(self._plan.kept)
            self._chosen(entry)
            self._copies(entry)
            if self._fact is not None and entry.header.kind in (Kind.COMMIT, Kind.REFUSAL):
                self._made_from(entry)
            if isinstance(self._fact, Fact) and entry.header.kind is Kind.BASE:
                self._carried_from(entry, self._fact)
            if len(self._plan.fields) + len(self._plan.kept) > before or self._fact is None:
                self._note(entry)
        return self._plan

    def _take(self, cell: Cell, fields: Collection[str]) -> None:
        place = cell.revision, cell.number
        taken = self._plan.fields.get(place, frozenset()) | frozenset(fields)
        if taken:
            self._plan.fields[place] = taken
            self._plan.records.add(cell.revision)
            if taken >= {one.name for one in cell.contract.fields}:
                self._plan.whole.add(place)

    def _chosen(self, entry: Entry) -> None:
        for cell in entry.cells:
            if self._fact is None:
                self._plan.whole.add((cell.revision, cell.number))
                self._take(cell, [one.name for one in cell.contract.fields])
            else:
                self._take(cell, self._fact.fields_of(cell))
        if (self._fact is None and entry.header.kind not in OF_THE_SESSION) or entry.revision in self._always:
            self._plan.records.add(entry.revision)

    def _copies(self, entry: Entry) -> None:
        header = entry.header
        if header.step == REQUEST_STEP:
            source = header.run.rpartition(INSIDE)[0]
        else:
            source = header.run + INSIDE + (f"{header.step}/{header.branch}" if header.branch else header.step)
        for cell in entry.cells:
            self._take(cell, self._copied.get((source, cell.contract.name), frozenset()))

    def _made_from(self, entry: Entry) -> None:
        if not entry.cells or not self._is_derived(entry):
            return
        for cell in entry.cells:
            self._derived(cell)

    def _carried_from(self, entry: Entry, fact: Fact) -> None:
        """Find what a base carries that was made from the fact: it names what is not in the log any more."""
        if fact.revision > entry.revision:
            return
        names = made_from(self._record(entry), len(entry.cells))
        for cell, facts in zip(entry.cells, names, strict=True):
            if any(fact.names(name) for name in facts):
                self._derived(cell)

    def _derived(self, cell: Cell) -> None:
        place = cell.revision, cell.number
        if self._keep_derived:
            if place not in self._plan.fields:
                self._plan.kept.add(place)
            return
        self._take(cell, [one.name for one in cell.contract.fields])
        self._plan.whole.add(place)
        self._plan.derived.add(place)

    def _is_derived(self, entry: Entry) -> bool:
        gone = self._plan.fields
        for read in all_reads(self._log, entry.header):
            place = read.revision, read.cell
            if place in self._plan.kept or (place in gone and may_have_brought(read, gone[place], self._log)):
                return True
        record = self._record(entry)
        outermost = entry.header.run.partition(INSIDE)[0]
        if outermost in self._requests and ("usage" in record or "own_prompt" in record):
            return entry.header.step != REQUEST_STEP
        return any(self._is_gone_elsewhere(name, entry) for name in _from_other_runs(record))

    def _is_gone_elsewhere(self, contract: str, entry: Entry) -> bool:
        return any(name == contract and run != entry.header.run for run, name in self._copied)

    def _note(self, entry: Entry) -> None:
        """Remember what is gone for those who have copied it, or were shown it as the request."""
        for cell in entry.cells:
            fields = self._plan.fields.get((cell.revision, cell.number), frozenset())
            if not fields:
                continue
            place = cell.run, cell.contract.name
            self._copied[place] = self._copied.get(place, frozenset()) | fields
            shown = {one.name for one in cell.contract.fields if not one.sensitive}
            if cell.is_request and INSIDE not in cell.run and fields & shown:
                self._requests.add(cell.run)


def _from_other_runs(record: Mapping[str, Any]) -> set[str]:
    """Return the contracts of which a step has taken values of earlier runs."""
    recalled = [str(found[0]) for found in record.get("recalled", ()) if found]
    return {*map(str, record.get("earlier", ())), *recalled}


def safe_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a record beside erased values may stay."""
    return {key: value for key, value in record.items() if key in SAFE_RECORDS}
