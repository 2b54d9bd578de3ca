"""Is the log what was committed? Every digest computed again from the stored bytes. No I/O.

Without a key this is the plain grade: it finds accidents and careless edits. Who can write to the
store and knows this code can make a log that agrees with itself; against that, a head kept
elsewhere is needed (`Verdict.head`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from statepact.errors import CorruptState
from statepact.ledger._blocks import addresses_in, is_value_id
from statepact.ledger._described import described
from statepact.ledger._digest import DIGEST_SIZE, block_digest, entry_digest, leaf_digest
from statepact.ledger._header import Header, Kind, Names, decode_header, pieces_of
from statepact.ledger._mountain import Mountain
from statepact.ledger._vault import KeyRing, key_of

FINDS = "changed or cut bytes, missing or foreign large values, gaps, and any change of order or number under a seal"
MISSES = "a removal or an exchange of whole entries after the newest seal, and whoever computes the digests anew"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong with an entry."""

    revision: int
    what: str

    def __str__(self) -> str:
        return f"revision {self.revision}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a check of a log has found."""

    checked: int
    """Entries whose digest agrees with their stored bytes."""
    size: int
    """Entries that are there."""
    sealed: int
    """How many of the oldest entries a seal confirms, in this order and number."""
    head: str
    """Root over all digests, in hex. Keep it elsewhere, and a later check can find what this grade misses."""
    faults: tuple[Fault, ...] = ()
    grade: str = "plain"
    plain_values: int = 0
    """Sensitive values that are stored in plain text, because no key was given when they were written."""
    sealed_values: int = 0
    """Sensitive values that are encrypted."""
    unopened_values: int = 0
    """Those of them of which only the form was checked, because no key was given."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain JSON values."""
        return {
            "ok": self.ok,
            "grade": self.grade,
            "checked": self.checked,
            "size": self.size,
            "sealed": self.sealed,
            "head": self.head,
            "plain_values": self.plain_values,
            "sealed_values": self.sealed_values,
            "unopened_values": self.unopened_values,
            "faults": [{"revision": fault.revision, "what": fault.what} for fault in self.faults],
            "finds": FINDS,
            "misses": MISSES,
        }

    def __str__(self) -> str:
        lines = [f"{self.checked} of {self.size} entries are what was committed · {self.sealed} under a seal"]
        lines += [f"  {fault}" for fault in self.faults]
        if self.sealed_values:
            how = "not opened: no key was given" if self.unopened_values else "each opened with its key"
            lines.append(f"{_values_text(self.sealed_values)} encrypted · {how}")
        if self.plain_values:
            lines.append(f"{_values_text(self.plain_values)} stored in plain text: no key was given at the time")
        lines += [f"head {self.head}", f"grade {self.grade}: finds {FINDS};", f"  misses {MISSES}"]
        return "\n".join(lines)


def verify_entries(
    entries: Iterable[tuple[int, bytes | None, bytes | None]],
    *,
    owner: str = "",
    blocks: Mapping[bytes, bytes] | None = None,
    keys: KeyRing | None = None,
) -> Verdict:
    """Check the entries of one session, oldest first: revision, header and payload as stored.

    `None` stands for bytes that are not there. `blocks` are the large values of `owner` by address;
    without them large values are not looked at. `keys` open sensitive values. Damaged bytes are faults,
    never an exception.
    """
    check = LogCheck(owner, keys=keys)
    for revision, header, payload in entries:
        checked = check.entry(revision, header, payload)
        if blocks is not None:
            check.blocks(revision, {address: blocks.get(address) for address in checked})
    return check.verdict()


class LogCheck:
    """A check that is fed entry by entry, so that a long log need not be in memory."""

    def __init__(self, owner: str, *, keys: KeyRing | None = None) -> None:
        self._owner = owner
        self._keys = keys
        self._plain = self._sealed_values = self._unopened = 0
        self._names = _SeenNames()
        self._mountain = Mountain()
        self._roots = [self._mountain.root()]
        self._cells: list[int] = []
        self._written: set[tuple[str, str, str]] = set()
        self._faults: set[Fault] = set()
        self._last = 0
        self._checked = 0
        self._sealed = 0

    def entry(self, revision: int, stored: bytes | None, payload: bytes | None) -> tuple[bytes, ...]:
        """Check the next entry; return the addresses of its large values, for `blocks`."""
        self._check_place(revision)
        self._names.remarks.clear()
        header = self._read(stored or b"")
        digest = header.digest if header else b"\x00" * DIGEST_SIZE
        self._mountain.append(digest)
        self._roots.append(self._mountain.root())
        self._cells.append(len(header.cells) if header else 0)
        if header is None:
            self._fault(revision, "its header is missing or cannot be read")
            return ()
        size = sum(cell.size for cell in header.cells)
        if payload is None or len(payload) < size:
            self._fault(revision, "its values are missing or cut short")
            return ()
        values, extra = list(_values(header, payload)), payload[size:]
        if _digest(header, pieces_of(stored or b"").body, values, extra) != digest:
            self._fault(revision, "its bytes are not those of its digest")
            return ()
        self._checked += 1
        self._plain += sum(_plain_values(header, values))
        # Bytes that agree with their digest can still stand in the wrong place. Once something is
        # known to be damaged, though, what follows from that would only hide it.
        if not self._faults:
            for what in self._misplaced(revision, header, extra):
                self._fault(revision, what)
        return tuple(_addresses(values))

    def blocks(self, revision: int, blocks: Mapping[bytes, bytes | None]) -> set[bytes]:
        """Check the large values of an entry, `None` for one that is not there; return those that are right."""
        right: set[bytes] = set()
        for address, data in blocks.items():
            if is_value_id(address):
                self._sealed_values += 1
                if what := self._wrong(address, data):
                    self._fault(revision, f"its sensitive value {address.hex()[:12]}… {what}")
                else:
                    right.add(address)
            elif data is None:
                self._fault(revision, f"its large value {address.hex()[:12]}… is missing")
            elif block_digest(self._owner, data) != address:
                self._fault(revision, f"its large value {address.hex()[:12]}… is not what was committed")
            else:
                right.add(address)
        return right

    def _wrong(self, value_id: bytes, row: bytes | None) -> str:
        """Return what is wrong with the row of a sensitive value, empty if nothing is."""
        if row is None:
            return "is missing"
        try:
            if self._keys is None:
                key_of(row)
                self._unopened += 1
            elif not self._keys.fits(row):
                return f"is under key {key_of(row)!r}, which was not given or is another one here"
            else:
                self._keys.open(self._owner, value_id, row)
        except CorruptState:
            return "is not what was committed"
        return ""

    def verdict(self) -> Verdict:
        """Return what was found so far."""
        return Verdict(
            checked=self._checked,
            size=self._mountain.size,
            sealed=self._sealed,
            head=self._mountain.root().hex(),
            faults=tuple(sorted(self._faults)),
            plain_values=self._plain,
            sealed_values=self._sealed_values,
            unopened_values=self._unopened,
        )

    def _fault(self, revision: int, what: str) -> None:
        self._faults.add(Fault(revision, what))

    def _check_place(self, revision: int) -> None:
        expected, self._last = self._last + 1, revision
        if revision > expected:
            others = "" if revision == expected + 1 else f", and all up to {revision - 1}"
            self._fault(expected, f"it is missing{others}")
        elif revision < expected:
            self._fault(revision, f"it stands behind revision {expected - 1}")

    def _read(self, stored: bytes) -> Header | None:
        try:
            return decode_header(stored, self._names)
        except CorruptState:
            return None

    def _misplaced(self, revision: int, header: Header, extra: bytes) -> Iterator[str]:
        yield from self._names.remarks
        cell = header.run, header.step, header.branch
        if header.kind is Kind.COMMIT:
            if cell in self._written:
                yield "its step had been committed before"
            self._written.add(cell)
        for read in header.reads:
            if not 1 <= read.revision < revision or read.cell >= self._cells[read.revision - 1]:
                yield f"it has read cell {read.cell} of revision {read.revision}, which was not there"
        if header.pinned_as_of >= revision:
            yield f"it was given the pinned facts of revision {header.pinned_as_of}, which was not there"
        if header.kind is Kind.SEAL:
            yield from self._seal(extra)

    def _seal(self, extra: bytes) -> Iterator[str]:
        before = len(self._roots) - 2
        try:
            record = orjson.loads(extra)
            size, head = int(record.get("size", 0)), str(record["head"])
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            yield "its seal cannot be read"
            return
        if not 0 <= size <= before:
            yield f"it seals {size} entries and stands behind {before}"
        elif self._roots[size].hex() != head:
            yield f"the {size} entries that it seals are not those before it: exchanged, removed or added"
        else:
            self._sealed = size


class _SeenNames(Names):
    """Names that are remarked upon instead of refused, so that the bytes can be checked in any case."""

    __slots__ = ("remarks",)

    def __init__(self) -> None:
        super().__init__()
        self.remarks: list[str] = []

    def add(self, name: str) -> None:
        if self.number(name) is not None:
            self.remarks.append("it introduces a name that an entry before it has introduced")
        super().add(name)

    def name(self, number: int) -> str:
        if number < len(self):
            return super().name(number)
        self.remarks.append("it uses a name that no entry before it has introduced")
        return "?"


def _digest(header: Header, body: bytes, values: list[bytes], extra: bytes) -> bytes:
    leaves = [*values, extra] if extra else values
    try:
        return entry_digest(body, [leaf_digest(header.salt, number, leaf) for number, leaf in enumerate(leaves)])
    except OverflowError:
        return b""  # more cells than a commit can have


def _values_text(count: int) -> str:
    return f"{count} sensitive value{'' if count == 1 else 's'}"


def _plain_values(header: Header, values: list[bytes]) -> Iterator[int]:
    """Yield for each cell how many of its sensitive values stand in it as they are."""
    for cell, value in zip(header.cells, values, strict=True):
        try:
            sensitive = [field.name for field in described(cell.contract).fields if field.sensitive]
            apart = addresses_in(value) if sensitive else {}
            present = orjson.loads(value.partition(b"\x00")[0]) if sensitive else {}
        except (CorruptState, ValueError):
            continue
        yield sum(name in present or (name in apart and not is_value_id(apart[name])) for name in sensitive)


def _values(header: Header, payload: bytes) -> Iterator[bytes]:
    offset = 0
    for cell in header.cells:
        yield payload[offset : offset + cell.size]
        offset += cell.size


def _addresses(values: Iterable[bytes]) -> Iterator[bytes]:
    for value in values:
        try:
            yield from addresses_in(value).values()
        except CorruptState:
            continue
