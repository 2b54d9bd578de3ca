"""What a log is made of: cells, and the entries that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from statepact.errors import KeyMissing
from statepact.ledger._base_record import Base
from statepact.ledger._described import ContractRecord, described
from statepact.ledger._digest import entry_digest, leaf_digest
from statepact.ledger._erased import decode_leaves, digests_of, is_erased
from statepact.ledger._header import Header
from statepact.ledger._key import INSIDE, REQUEST_STEP, WORDS


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
    """The digest of the cell as committed, once somebody has needed it. From an entry of which something was
    erased it comes along when the cell is fetched: it cannot be computed any more."""
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


def cells_of(revision: int, header: Header) -> Iterator[Cell]:
    """Yield the cells of an entry."""
    offset = 0
    for number, cell in enumerate(header.cells):
        yield Cell(
            revision, number, header.run, header.step, header.branch, described(cell.contract), offset, cell.size,
            cell.shared, cell.omitted, cell.deleted,
        )  # fmt: skip
        offset += cell.size


def carried_in(base: Base, header: Header) -> Iterator[Cell]:
    """Yield the cells of a base, each with the place where it was committed."""
    offset = 0
    for number, (cell, origin) in enumerate(zip(header.cells, base.origins, strict=True)):
        yield Cell(
            origin.revision, origin.cell, origin.run, origin.step, origin.branch, described(cell.contract), offset,
            cell.size, cell.shared, cell.omitted, cell.deleted, carried=(base.size, number),
        )  # fmt: skip
        offset += cell.size


def moved(cell: Cell, now: Cell) -> Cell:
    """Return a cell that was read before, as a base carries it now."""
    cell.carried, cell.offset, cell.size = now.carried, now.offset, now.size
    cell.omitted, cell.deleted = now.omitted, now.deleted
    cell.stored = cell.document = cell.locked = None
    return cell
