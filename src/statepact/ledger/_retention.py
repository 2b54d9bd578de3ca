"""What a retention rule removes from a session's log, and what of it has to stay. A pure rule over headers.

A prefix is removed and never a hole, because revisions, names and digests of a log go on from what is before
them. So a run goes only if every run that began before its end goes with it; one that stays keeps those
behind it. Of what is removed the changes of shared values stay that are still in force, and those that a
kept run was given: they are the state of the session, not of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from statepact.errors import SetupError
from statepact.ledger._blocks import Parts
from statepact.ledger._cells import Cell
from statepact.ledger._header import Kind
from statepact.ledger._key import INSIDE
from statepact.ledger._log import SessionLog

DAY = 24 * 60 * 60 * 1000
"""Milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What stays of a session: each run that one of these conditions keeps. `Keep(days=90, runs=20)`.

    A run that has not ended stays in any case.
    """

    days: float | None = None
    """Runs to which something was added within so many days."""
    runs: int | None = None
    """So many runs, those that began last."""
    unfinished_days: float | None = None
    """A run that has not ended is given up once nothing was added to it for so many days; `None`: never."""

    def __post_init__(self) -> None:
        if self.days is None and self.runs is None:
            raise SetupError(
                "a retention rule says how much is kept", hint="Keep(days=90), Keep(runs=20), or both: either keeps"
            )
        for name, value in (("days", self.days), ("runs", self.runs), ("unfinished_days", self.unfinished_days)):
            if value is not None and not value >= 0:
                raise SetupError(f"a retention rule keeps {value!r} {name}", hint="0 or more")

    def as_dict(self) -> dict[str, float]:
        """Return the conditions that are set as plain JSON values."""
        named = {"days": self.days, "runs": self.runs, "unfinished_days": self.unfinished_days}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(slots=True)
class _Group:
    """A run with everything that ran inside it."""

    name: str
    first: int
    """Revision of its first entry."""
    last: int = 0
    at: int = 0
    """Time of its newest entry."""
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a log is cut."""

    size: int = 0
    """Revision of the newest entry that goes; 0 for none."""
    runs: tuple[str, ...] = ()
    """The runs that go, parts of workflows included."""
    whole_runs: int = 0
    """How many they are without these parts."""
    stays: Mapping[str, str] = field(default_factory=dict)
    """Runs that the rule itself would let go, and why they stay."""


def cut_of(log: SessionLog, keep: Keep, now: int) -> Cut:
    """Return where a rule cuts a log; `now` is in milliseconds since 1970."""
    groups = _groups(log)
    newest = {group.name for group in groups[len(groups) - int(keep.runs or 0) :]}
    why: dict[str, str] = {}
    size = log.revision
    blocking = ""
    for group in groups:
        young = keep.days is not None and group.at > now - keep.days * DAY
        kept = young or group.name in newest
        if not kept and not _has_ended(log, group, keep, now):
            kept = True
            why[group.name] = "it has not ended"
        if kept and group.first <= size:
            size, blocking = group.first - 1, group.name
    # Runs of a session may mix where they take no turns.
    while mixed := [group for group in groups if group.first <= size < group.last]:
        for group in mixed:
            why.setdefault(group.name, f"its entries are mixed with those of run {blocking!r}, which stays")
        size, blocking = mixed[0].first - 1, mixed[0].name
    removed = [group for group in groups if group.last <= size]
    for group in groups:
        young = keep.days is not None and group.at > now - keep.days * DAY
        if group.first > size and not young and group.name not in newest:
            why.setdefault(group.name, f"it stands behind run {blocking!r}, which stays")
    if not removed:
        return Cut(stays=why)
    return Cut(size, tuple(name for group in removed for name in group.names), len(removed), why)


def _groups(log: SessionLog) -> list[_Group]:
    """Return the runs in the order in which they began."""
    groups: dict[str, _Group] = {}
    for name, run in log.runs.items():
        outermost = name.partition(INSIDE)[0]
        first = run.entries[0].revision
        group = groups.setdefault(outermost, _Group(outermost, first))
        group.names.append(name)
        group.first = min(group.first, first)
        group.last = max(group.last, run.entries[-1].revision)
        group.at = max(group.at, max(entry.header.at for entry in run.entries))
    return sorted(groups.values(), key=lambda group: group.first)


def _has_ended(log: SessionLog, group: _Group, keep: Keep, now: int) -> bool:
    run = log.runs.get(group.name)
    if run is not None and run.seal is not None:
        return True
    return keep.unfinished_days is not None and group.at <= now - keep.unfinished_days * DAY


class Carried(NamedTuple):
    """A change of a shared value that a base carries on."""

    cell: Cell
    mask: int
    """Bit i is set if field i still counts; of the others nothing stays."""
    given: int = 0
    """Bit i is set if a kept step was given field i of it."""
    reset: int = 0
    """Bit i is set if field i now holds what it was merged into, and not only what was merged."""
    written: Parts | None = None
    """What is stored of it if that is not what was committed."""
    of: tuple[Cell, ...] = ()
    """Changes that went into it."""

    @property
    def omitted(self) -> int:
        """The mask `omitted` of what is left: a field that does not count is not touched."""
        return self.cell.omitted & self.mask | (1 << len(self.cell.contract.fields)) - 1 & ~self.mask

    @property
    def deleted(self) -> int:
        """The mask `deleted` of what is left."""
        return self.cell.deleted & self.mask | self.reset

    @property
    def dropped(self) -> frozenset[str]:
        """The fields of which nothing stays."""
        return frozenset(one.name for i, one in enumerate(self.cell.contract.fields) if not self.mask >> i & 1)


def carried_of(log: SessionLog, size: int) -> list[Carried]:
    """Return the changes of shared values up to a revision that have to stay, in the order of the log.

    That is, field by field, what shows in the values at that revision, and what kept steps were given.
    """
    masks: dict[Cell, int] = {}
    given: dict[Cell, int] = {}
    for cells in log.shared.values():
        _add(masks, [cell for cell in cells if cell.home <= size])
    for entry in log.after(size):
        places = [(read.revision, read.cell) for read in entry.header.reads if read.revision <= size]
        read = [
            cell for cell in (log.cell(*place) for place in sorted(places) if log.keeps_cell(*place)) if cell.shared
        ]
        for name in {cell.contract.name for cell in read}:
            _add(given, [cell for cell in read if cell.contract.name == name])
    masks |= {cell: masks.get(cell, 0) | mask for cell, mask in given.items()}
    found = [Carried(cell, mask, given.get(cell, 0)) for cell, mask in masks.items() if mask or cell in given]
    return sorted(found, key=lambda one: (one.cell.revision, one.cell.number))


def _add(masks: dict[Cell, int], cells: Sequence[Cell]) -> None:
    """Note which fields of the changes of one shared value count, when nothing but these is known."""
    settled: set[tuple[str, str]] = set()
    for cell in reversed(cells):
        # Under another version a field may have another name, so only its own version settles it.
        keys = [(cell.contract.version, one.name) for one in cell.contract.fields]
        touched = ~cell.omitted | cell.deleted
        mask = sum(1 << i for i, key in enumerate(keys) if touched >> i & 1 and key not in settled)
        masks[cell] = masks.get(cell, 0) | mask
        settled.update(key for i, key in enumerate(keys) if cell.deleted >> i & 1)


def counted(log: SessionLog, size: int) -> int:
    """Return how many entries go, not counting a base that stood for others."""
    return sum(entry.revision <= size and entry.header.kind is not Kind.BASE for entry in log.entries)
