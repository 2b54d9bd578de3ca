"""What a session's headers say, indexed: runs, cells, and who read what. No values, no I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from statepact.errors import CorruptState, Expired
from statepact.ledger._base_record import Base, base_of
from statepact.ledger._cells import Cell, Entry, carried_in, cells_of, moved
from statepact.ledger._claims import Claim
from statepact.ledger._described import described
from statepact.ledger._header import Header, Kind, Names, decode_header, pieces_of
from statepact.ledger._key import INSIDE, SessionKey
from statepact.ledger._mountain import Mountain

OF_THE_SESSION = (Kind.ERASURE, Kind.NOTE, Kind.BASE)
"""Kinds of entries that belong to no run."""


@dataclass(slots=True)
class RunLog:
    """The entries of one run."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    by_cell: dict[tuple[str, str], Entry] = field(default_factory=dict)
    """Commits by (step, branch)."""
    begun: dict[tuple[str, str], Entry] = field(default_factory=dict)
    """Effects that have begun and are neither committed nor known to have failed, by (step, branch)."""
    by_contract: dict[str, list[Cell]] = field(default_factory=dict)
    pinned: list[Cell] = field(default_factory=list)
    """Cells that hold pinned facts, of the run itself and of those it is inside of, in the order of the log:
    every step looks for them, and a long run has few."""
    inside: list[RunLog] = field(default_factory=list)
    """Runs that are a step of this one, or of a run inside it."""

    @property
    def seal(self) -> Entry | None:
        """The entry that closed the run last, `None` while it is open."""
        # What came too late to be kept does not open a run again.
        ours = (entry for entry in reversed(self.entries) if entry.header.kind is not Kind.REFUSAL)
        last = next(ours, None)
        return last if last is not None and last.header.kind is Kind.SEAL else None


class SessionLog:
    """The log of one session as far as it has been read. Grows at its end and nowhere else."""

    __slots__ = (
        "_carried", "_mountain", "base", "base_entry", "claims", "entries", "erased_at", "first", "key",
        "last_erasure", "names", "revision", "runs", "shared",
    )  # fmt: skip

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.names = Names()
        self.entries: list[Entry] = []
        self.revision = 0
        """Revision of the newest entry, 0 for a session that has none."""
        self.shared: dict[str, list[Cell]] = {}
        """Changes of shared values by contract, of all runs, in the order of the log."""
        self.runs: dict[str, RunLog] = {}
        self.first = 1
        """Revision of the oldest entry: a base if it is not 1."""
        self.base: Base | None = None
        self.base_entry: Entry | None = None
        """The entry of the base."""
        self._carried: dict[tuple[int, int], Cell] = {}
        """What the base carries, by the places where it was committed."""
        self.claims: dict[tuple[int, int], Claim] = {}
        """What was erased, by revision and leaf."""
        self.erased_at: dict[tuple[int, int], int] = {}
        """Revision of the newest erasure of each leaf."""
        self.last_erasure = 0
        """Revision of the newest erasure."""
        self._mountain = Mountain()

    def entry(self, revision: int) -> Entry:
        """Return an entry; raises `Expired` if a retention rule has removed it, and `CorruptState`."""
        if self.base is not None and 0 < revision <= self.base.size:
            raise Expired(
                f"revision {revision} of session {self.key.session!r} is older than what is kept",
                hint=f"the oldest that is left is {self.first + 1}",
            )
        if not self.first <= revision <= self.revision:
            raise CorruptState(f"revision {revision} is not in the log of session {self.key.session!r}")
        return self.entries[revision - self.first]

    def keeps(self, revision: int) -> bool:
        """Whether an entry is there, and not removed by a retention rule."""
        return self.base is None or revision > self.base.size

    def keeps_cell(self, revision: int, cell: int) -> bool:
        """Whether a cell is there: that of an entry which is, or one that the base carries on."""
        return self.keeps(revision) or (revision, cell) in self._carried

    def has_removed(self, run: str) -> bool:
        """Whether a retention rule has removed a run."""
        return self.base is not None and run in self.base.runs and run not in self.runs

    def holder(self, cell: Cell) -> Entry:
        """Return the entry that has the bytes of a cell of this log."""
        if cell.carried is not None and self.base_entry is not None:
            return self.base_entry
        return self.entries[cell.home - self.first]

    def after(self, revision: int) -> Sequence[Entry]:
        """Return the entries after a revision, as far as they are kept."""
        return self.entries[max(revision + 1 - self.first, 0) :]

    def mountain(self) -> Mountain:
        """Return the mountain range over all entries so far. Each entry is hashed into it once."""
        for entry in self.after(self._mountain.size):
            if entry.header.kind is not Kind.BASE:
                self._mountain.append(entry.header.digest)
        return self._mountain

    def head_before(self, revision: int) -> bytes:
        """Return the head over everything before a revision, computed from the digests."""
        mountain = Mountain.of(self.base.size, self.base.peaks) if self.base is not None else Mountain()
        for entry in self.after(mountain.size):
            if entry.revision < revision and entry.header.kind is not Kind.BASE:
                mountain.append(entry.header.digest)
        return mountain.root()

    def previous_tag(self, revision: int) -> bytes:
        """Return what the tag of a revision covers beside its entry: the tag before it, or the first time the head."""
        if self.base is not None and revision in (self.base.size, self.base.size + 1) and self.base.tag:
            return self.base.tag
        if revision > self.first and (tag := self.entries[revision - 1 - self.first].header.tag):
            return tag
        return self.mountain().root() if revision == self.revision + 1 else self.head_before(revision)

    def read(self, revision: int, stored: bytes) -> Entry:
        """Add the next entry from its stored header."""
        header = decode_header(stored, self.names)
        body = pieces_of(stored).body
        if header.kind is Kind.BASE and not self.entries:
            self.base = base_of(body)
            if self.base.size != revision:
                raise CorruptState(
                    f"the log of session {self.key.session!r} begins with a base in another one's place",
                    hint="run `statepact verify` on the session, and restore the store from a backup",
                )
            self.first = revision
            self.revision = revision - 1
            self._mountain = Mountain.of(self.base.size, self.base.peaks)
        return self.add(revision, header, body)

    def adopt(self, revision: int, stored: bytes) -> None:
        """Take in the base of entries that were removed after they had been read here.

        From now on their runs are gone, and what the base carries is read from there.
        """
        header = decode_header(stored, Names())
        body = pieces_of(stored).body
        base = base_of(body)
        known = {(cell.revision, cell.number): cell for cells in self.shared.values() for cell in cells}
        # The same objects: whoever holds one finds its bytes in their new place.
        cells = [moved(known.get((cell.revision, cell.number), cell), cell) for cell in carried_in(base, header)]
        self.base, self.base_entry = base, Entry(revision, header, body, tuple(cells))
        self._carried = {(cell.revision, cell.number): cell for cell in cells}
        for name in base.runs:
            self.runs.pop(name, None)
        for name, changes in self.shared.items():
            self.shared[name] = [
                cell for cell in changes if cell.revision > base.size or (cell.revision, cell.number) in self._carried
            ]

    def erase(self, revision: int, claims: Iterable[Claim]) -> None:
        """Take in what the entry at a revision says was erased. Fetched values of it are let go of."""
        for claim in claims:
            place = claim.revision, claim.leaf
            before = self.claims.get(place)
            self.claims[place] = replace(claim, fields=claim.fields | before.fields) if before else claim
            self.erased_at[place] = max(revision, self.erased_at.get(place, 0))
            self.last_erasure = max(revision, self.last_erasure)
            carried = self._carried.get(place)
            if carried is None and not self.first <= claim.revision <= self.revision:
                continue
            entry = self.entries[claim.revision - self.first] if carried is None else self.holder(carried)
            entry.extra = None
            for cell in entry.cells:
                cell.stored = cell.document = None
                if (cell.revision, cell.number) == place:
                    cell.erased |= claim.fields
                    if not claim.now:
                        cell.gone = True
                        cell.erased |= {field.name for field in cell.contract.fields}

    def restate(self, claims: Iterable[Claim]) -> None:
        """Take what a base says was erased for the newest word: it was made after the erasures before its note."""
        for claim in claims:
            place = claim.revision, claim.leaf
            before = self.claims.get(place)
            self.claims[place] = replace(claim, fields=claim.fields | before.fields) if before else claim

    def add(self, revision: int, header: Header, body: bytes) -> Entry:
        """Add the next entry; its names are already known."""
        if revision != self.revision + 1:
            raise CorruptState(
                f"session {self.key.session!r} has revision {revision} after {self.revision}",
                hint="entries are missing; run `statepact verify` on the session",
            )
        based = header.kind is Kind.BASE and revision == self.first
        cells = carried_in(self.base, header) if based and self.base is not None else cells_of(revision, header)
        entry = Entry(revision, header, body, tuple(cells))
        self.entries.append(entry)
        self.revision = revision
        if header.kind in OF_THE_SESSION:
            if based:
                self.base_entry = entry
            for cell in entry.cells if based else ():
                self._carried[cell.revision, cell.number] = cell
                self.shared.setdefault(cell.contract.name, []).append(cell)
            return entry
        run = self.runs.get(header.run)
        if run is None:
            run = self._new_run(header.run)
        run.entries.append(entry)
        if header.kind is Kind.ATTEMPT:
            # Only a beginning has an input digest; any other attempt says how it ended.
            if header.begins:
                run.begun[header.step, header.branch] = entry
            else:
                run.begun.pop((header.step, header.branch), None)
        if header.kind is Kind.COMMIT:
            run.begun.pop((header.step, header.branch), None)
            run.by_cell.setdefault((header.step, header.branch), entry)
            for cell, written in zip(entry.cells, header.cells, strict=True):
                if cell.shared:
                    self.shared.setdefault(cell.contract.name, []).append(cell)
                    continue
                run.by_contract.setdefault(cell.contract.name, []).append(cell)
                if _has_pinned(written.contract):
                    for one in (run, *run.inside):
                        one.pinned.append(cell)
        return entry

    def _new_run(self, name: str) -> RunLog:
        run = self.runs[name] = RunLog(name)
        outer, inside, _ = name.rpartition(INSIDE)
        if inside and outer in self.runs:
            run.pinned = list(self.runs[outer].pinned)
        while inside:
            if outer in self.runs:
                self.runs[outer].inside.append(run)
            outer, inside, _ = outer.rpartition(INSIDE)
        return run

    def pinned(self, run: str, revision: int, *, start: int = 0) -> list[Cell]:
        """Return the cells with pinned facts that a run had at a revision, from number `start` on."""
        found = self.runs.get(run)
        return found.pinned[start : bisect_right(found.pinned, revision, key=_revision_of)] if found else []

    def cell(self, revision: int, number: int) -> Cell:
        """Return a cell by its place; raises `Expired` if it was removed, and `CorruptState` if there is none."""
        carried = self._carried.get((revision, number))
        if carried is not None:
            return carried
        try:
            return self.entry(revision).cells[number]
        except IndexError:
            raise CorruptState(f"cell {number} of revision {revision} is not in the log") from None


def _revision_of(cell: Cell) -> int:
    return cell.revision


@lru_cache(maxsize=4096)
def _has_pinned(contract: str) -> bool:
    return bool(described(contract).pinned)
