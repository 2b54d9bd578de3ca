"""What a session's headers say, indexed: runs, cells, and who read what. No values, no I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from statepact.errors import CorruptState, Expired, KeyMissing
from statepact.ledger._base_record import Base, base_of
from statepact.ledger._claims import Claim
from statepact.ledger._described import ContractRecord, described
from statepact.ledger._digest import entry_digest, leaf_digest
from statepact.ledger._erased import decode_leaves, digests_of, is_erased
from statepact.ledger._header import Header, Kind, Names, decode_header, pieces_of
from statepact.ledger._key import INSIDE, REQUEST_STEP, WORDS, SessionKey
from statepact.ledger._mountain import Mountain

OF_THE_SESSION = (Kind.ERASURE, Kind.NOTE, Kind.BASE)
"""Kinds of entries that belong to no run."""


@dataclass(slots=True, eq=False)
class Cell:
    """One committed output: written once, never changed.

    `stored` holds its bytes once somebody has fetched them; until then only size and place are known.
    """

    revision: int
    number: int
    """Its place inside the commit."""
    run: str
    step: str
    branch: str
    contract: ContractRecord
    """The contract under which it was written, as the log remembers it."""
    offset: int
    size: int
    shared: bool = False
    """It changes a shared value of the session."""
    omitted: int = 0
    """Bit i is set if the writer did not set field i."""
    deleted: int = 0
    """Bit i is set if what field i of a shared value held is gone: deleted, or set anew."""
    unset: tuple[str, ...] = ()
    """Dotted paths of nested fields that the writer did not set; known once `stored` is."""
    stored: bytes | None = field(default=None, repr=False)
    document: bytes | None = field(default=None, repr=False)
    """The stored bytes with large and sensitive values put back in."""
    leaf: bytes = b""
    """Once fetched from an entry of which something was erased: the digest of the cell as committed."""
    erased: frozenset[str] = frozenset()
    """Fields whose values were erased."""
    gone: bool = False
    """Nothing of it is left."""
    locked: Mapping[str, str] | None = None
    """Sensitive fields of `document` that read `•••` for want of a key, with the id of that key."""
    carried: tuple[int, int] | None = None
    """Where its bytes are if its own entry was removed: revision of the base that carries it, and number there."""

    @property
    def home(self) -> int:
        """Revision of the entry that has its bytes."""
        return self.revision if self.carried is None else self.carried[0]

    @property
    def leaf_number(self) -> int:
        """Its number among the leaves of that entry."""
        return self.number if self.carried is None else self.carried[1]

    def must_be_open(self) -> None:
        """Raise `KeyMissing` if a sensitive value of this cell is there only in the sealed form."""
        if self.locked:
            fields, ids = ", ".join(self.locked), ", ".join(sorted({repr(name) for name in self.locked.values()}))
            raise KeyMissing(
                f"{self.contract.name}.{fields} of step {self.step!r} is stored under key {ids},"
                " which was not given, or is another key here",
                hint="give the key ring it was written with: keys= of Workflow, run or open_session",
            )

    @property
    def writer(self) -> str:
        """Step, and branch where there is one, as shown in reports."""
        return f"{self.step}/{self.branch}" if self.branch else self.step

    @property
    def is_request(self) -> bool:
        """Whether it is shown as the request of its run.

        A value that a run inside another one was asked with is a value: the request is that of the whole.
        """
        return self.step == REQUEST_STEP and (INSIDE not in self.run or self.contract.name == WORDS)

    @property
    def touched(self) -> tuple[str, ...]:
        """The fields that it sets or deletes."""
        untouched = self.omitted & ~self.deleted
        return tuple(field.name for number, field in enumerate(self.contract.fields) if not untouched >> number & 1)


@dataclass(slots=True, eq=False)
class Entry:
    """One entry of the log: its revision, its header, and the cells it wrote."""

    revision: int
    header: Header
    body: bytes
    """The part of the header that the digest covers."""
    cells: tuple[Cell, ...] = ()
    extra: bytes | None = None
    """JSON object with reason, usage, marks …; empty for none, `None` if it has not been fetched."""

    @property
    def outputs(self) -> tuple[Cell, ...]:
        """What the step returned, without its changes of shared values."""
        return tuple([cell for cell in self.cells if not cell.shared])

    def agrees_with(self, payload: bytes) -> bool:
        """Whether a payload, as it came from the store, is the one that was committed, or what is left of it."""
        if is_erased(payload):
            return entry_digest(self.body, digests_of(decode_leaves(payload))) == self.header.digest
        salt, at = self.header.salt, 0
        leaves = []
        for cell in self.cells:
            leaves.append(leaf_digest(salt, cell.leaf_number, payload[at : at + cell.size]))
            at += cell.size
        if len(payload) != at:
            leaves.append(leaf_digest(salt, len(leaves), payload[at:]))
        return entry_digest(self.body, leaves) == self.header.digest


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
        "last_erasure", "names", "runs", "shared",
    )  # fmt: skip

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.names = Names()
        self.entries: list[Entry] = []
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

    @property
    def revision(self) -> int:
        """Revision of the newest entry, 0 for a session that has none."""
        return self.first - 1 + len(self.entries)

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
        cells = [_moved(known.get((cell.revision, cell.number), cell), cell) for cell in _carried(base, header)]
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
        cells = _carried(self.base, header) if based and self.base is not None else _cells(revision, header)
        entry = Entry(revision, header, body, tuple(cells))
        self.entries.append(entry)
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


def _cells(revision: int, header: Header) -> Iterator[Cell]:
    offset = 0
    for number, cell in enumerate(header.cells):
        yield Cell(
            revision, number, header.run, header.step, header.branch, described(cell.contract), offset, cell.size,
            cell.shared, cell.omitted, cell.deleted,
        )  # fmt: skip
        offset += cell.size


def _carried(base: Base, header: Header) -> Iterator[Cell]:
    """Yield the cells of a base, each with the place where it was committed."""
    offset = 0
    for number, (cell, origin) in enumerate(zip(header.cells, base.origins, strict=True)):
        yield Cell(
            origin.revision, origin.cell, origin.run, origin.step, origin.branch, described(cell.contract), offset,
            cell.size, cell.shared, cell.omitted, cell.deleted, carried=(base.size, number),
        )  # fmt: skip
        offset += cell.size


def _moved(cell: Cell, now: Cell) -> Cell:
    """Return a cell that was read before, as a base carries it now."""
    cell.carried, cell.offset, cell.size = now.carried, now.offset, now.size
    cell.omitted, cell.deleted = now.omitted, now.deleted
    cell.stored = cell.document = cell.locked = None
    return cell


@lru_cache(maxsize=4096)
def _has_pinned(contract: str) -> bool:
    return bool(described(contract).pinned)


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
