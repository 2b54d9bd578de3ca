"""Is the log what was committed? Every digest computed again from the stored bytes. No I/O.

Three grades. Without a key this finds accidents and careless edits: who can write to the store and
knows this code can make a log that agrees with itself. With the key of the log, tags are checked as
well, which nobody else can make. With a head that was kept elsewhere, a removal of the newest entries
is found too. `Verdict` says which it was, and what it finds and misses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from statepact.errors import CorruptState
from statepact.ledger._anchor import Anchor
from statepact.ledger._base_record import BASE, Base, base_of, removed_in
from statepact.ledger._blocks import addresses_in, is_value_id
from statepact.ledger._claims import Claim, claims_in
from statepact.ledger._described import described
from statepact.ledger._digest import DIGEST_SIZE, block_digest, entry_digest
from statepact.ledger._erased import NO_SALT, Leaf, decode_leaves, is_erased, whole_leaves
from statepact.ledger._erasure_check import ErasureCheck
from statepact.ledger._header import Header, Kind, Names, decode_header, pieces_of
from statepact.ledger._mountain import Mountain
from statepact.ledger._old_heads import addresses_of_digests, belong_to, root_of
from statepact.ledger._tag_check import TagCheck
from statepact.ledger._vault import KeyRing, key_of
from statepact.ledger._verdict import Fault, Grade, Verdict

__all__ = ["Fault", "LogCheck", "Verdict", "verify_entries"]


def verify_entries(
    entries: Iterable[tuple[int, bytes | None, bytes | None]],
    *,
    owner: str = "",
    blocks: Mapping[bytes, bytes] | None = None,
    keys: KeyRing | None = None,
    key: bytes | None = None,
    anchor: Anchor | None = None,
) -> Verdict:
    """Check the entries of one session, oldest first: revision, header and payload as stored.

    `None` stands for bytes that are not there. `blocks` are the large values of `owner` by address;
    without them large values are not looked at. `keys` open sensitive values; `key` is that of the
    session's tags (`key_of_session`). Damaged bytes are faults, never an exception.
    """
    check = LogCheck(owner, keys=keys, key=key, anchor=anchor)
    for revision, header, payload in entries:
        checked = check.entry(revision, header, payload)
        if blocks is not None:
            check.blocks(revision, {address: blocks.get(address) for address in checked})
    return check.verdict()


class LogCheck:
    """A check that is fed entry by entry, so that a long log need not be in memory."""

    def __init__(
        self, owner: str, *, keys: KeyRing | None = None, key: bytes | None = None, anchor: Anchor | None = None
    ) -> None:
        self._owner = owner
        self._keys = keys
        self._plain = self._sealed_values = self._unopened = 0
        self._anchor = anchor
        self._tags = TagCheck(key) if key is not None else None
        self._erasures = ErasureCheck()
        self._names = _SeenNames()
        self._mountain = Mountain()
        self._base: Base | None = None
        self._base_digest = b""
        self._base_claims: list[Claim] = []
        self._noted: dict[int, str] = {}
        """What the notes say: up to which revision entries were removed, and the digest of the base."""
        self._digests: dict[bytes, bytes] = {}
        """The pieces with the digests of removed entries, by address and in order; empty until they are there."""
        self._roots = {0: self._mountain.root()}
        self._cells: dict[int, int] = {}
        self._written: set[tuple[str, str, str]] = set()
        self._faults: set[Fault] = set()
        self._last = 0
        self._checked = 0
        self._sealed = 0

    def entry(self, revision: int, stored: bytes | None, payload: bytes | None) -> tuple[bytes, ...]:
        """Check the next entry; return the addresses of its large values, for `blocks`."""
        self._names.remarks.clear()
        header = self._read(stored or b"")
        if header is not None and header.kind is Kind.BASE:
            if self._cells or self._last:
                self._fault(revision, "it stands for removed entries, and others stand before it")
            else:
                self._start_from(revision, stored or b"")
        in_place = self._check_place(revision)
        digest = header.digest if header else b"\x00" * DIGEST_SIZE
        if self._tags is not None:
            what = self._tags.wrong(revision, header, self._mountain.root(), self._base, in_place)
            if what is not None:
                self._fault(revision, what)
        if self._base is None or revision != self._base.size:
            self._mountain.append(digest)
            self._roots[self._mountain.size] = self._mountain.root()
        self._cells[revision] = len(header.cells) if header else 0
        if header is None:
            self._fault(revision, "its header is missing or cannot be read")
            return ()
        leaves = _leaves(header, payload)
        if leaves is None:
            self._fault(revision, "its values are missing or cut short")
            return ()
        if _digest(pieces_of(stored or b"").body, leaves) != digest:
            self._fault(revision, "its bytes are not those of its digest")
            return ()
        if payload is not None and is_erased(payload) and header.salt != NO_SALT:
            self._fault(revision, "the salt of erased values is there again, or something in its place")
        self._checked += 1
        self._plain += sum(_plain_values(header, leaves))
        extra = leaves[-1].stored or b"" if len(leaves) > len(header.cells) else b""
        if header.kind is Kind.BASE and self._base is not None:
            self._base_digest = digest
            self._erasures.is_carried([(one.revision, one.cell) for one in self._base.origins], leaves)
        elif payload is not None and is_erased(payload):
            self._erasures.is_left(revision, leaves)
        else:
            self._erasures.is_whole(revision)
        # Bytes that agree with their digest can still stand in the wrong place. Once something is
        # known to be damaged, though, what follows from that would only hide it.
        if not self._faults:
            for remark in self._misplaced(revision, header, extra):
                self._fault(revision, remark)
        addresses = tuple(_addresses(leaf.stored for leaf in leaves[: len(header.cells)]))
        return (*addresses, *self._pieces(extra)) if header.kind is Kind.BASE and self._base else addresses

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
                if address in self._digests:
                    self._digests[address] = data
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
        self._faults.update(self._erasures.faults())
        keyed_from = 1
        if self._tags is not None:
            keyed_from = self._tags.first or 1
            if self._base is not None and self._base.tag:
                keyed_from = 1  # the base goes on with a chain that began before it
            if self._cells and not self._tags.first:
                self._fault(min(self._cells), "it has no tag, and none after it has one")
        if self._base is not None:
            noted = self._noted.get(self._base.size)
            if noted is None and not self._faults:
                what = "it stands for removed entries, and no entry behind it says that it should"
                self._fault(self._base.size, what)
            elif noted is not None and noted != self._base_digest.hex():
                self._fault(self._base.size, "it is not the base that was put there when entries were removed")
        digests = b"".join(self._digests.values())
        if self._base is not None and digests and not belong_to(digests, self._base.size, self._base.peaks):
            self._fault(self._base.size, "the digests that it keeps are not those of the entries it stands for")
        if self._anchor is not None and (fault := self._against(self._anchor)) is not None:
            self._faults.add(fault)
        grade: Grade = "anchored" if self._anchor else "keyed" if self._tags else "plain"
        return Verdict(
            checked=self._checked,
            size=self._mountain.size,
            sealed=self._sealed,
            head=self._mountain.root().hex(),
            faults=tuple(sorted(self._faults)),
            grade=grade,
            keyed=self._tags is not None,
            keyed_from=keyed_from,
            anchored=self._anchor.size if self._anchor else 0,
            plain_values=self._plain,
            sealed_values=self._sealed_values,
            unopened_values=self._unopened,
            erased=self._erasures.values,
            removed=self._base.size if self._base else 0,
        )

    def _against(self, anchor: Anchor) -> Fault | None:
        """Compare with a head that was kept elsewhere."""
        root = self._roots.get(anchor.size)
        if self._base is not None and anchor.size < self._base.size:
            digests = b"".join(self._digests.values())
            if len(digests) < anchor.size * DIGEST_SIZE:
                what = f"the anchor covers {anchor.size} removed entries, whose digests are not there"
                return Fault(self._base.size, what)
            root = root_of(digests, anchor.size)
        if root is None:
            gone = anchor.size - self._mountain.size
            return Fault(self._mountain.size + 1, f"it is missing: the anchor covers {anchor.size}, {gone} are gone")
        if root != anchor.head:
            return Fault(anchor.size, "up to here the log is not that of the anchor: changed, exchanged or rewritten")
        return None

    def _fault(self, revision: int, what: str) -> None:
        self._faults.add(Fault(revision, what))

    def _start_from(self, revision: int, stored: bytes) -> None:
        """Begin behind what a retention rule has removed."""
        try:
            base = base_of(pieces_of(stored).body)
            self._mountain = Mountain.of(base.size, base.peaks)
        except (CorruptState, ValueError):
            return
        if base.size == revision:
            self._base = base
            self._last = revision - 1
            self._roots = {base.size: self._mountain.root()}

    def _pieces(self, extra: bytes) -> Iterator[bytes]:
        """Yield the addresses of the digests of removed entries."""
        try:
            addresses = addresses_of_digests(orjson.loads(extra) if extra else {})
        except (CorruptState, ValueError, AttributeError):
            return  # that is a fault already
        self._digests = dict.fromkeys(addresses, b"")
        yield from addresses

    def _check_place(self, revision: int) -> bool:
        expected, self._last = self._last + 1, revision
        if revision > expected:
            others = "" if revision == expected + 1 else f", and all up to {revision - 1}"
            self._fault(expected, f"it is missing{others}")
        elif revision < expected:
            self._fault(revision, f"it stands behind revision {expected - 1}")
        return revision == expected

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
            if self._base is not None and 0 < read.revision <= self._base.size:
                continue
            if not 1 <= read.revision < revision or read.cell >= self._cells.get(read.revision, 0):
                yield f"it has read cell {read.cell} of revision {read.revision}, which was not there"
        if header.pinned_as_of >= revision:
            yield f"it was given the pinned facts of revision {header.pinned_as_of}, which was not there"
        if header.kind is Kind.SEAL:
            yield from self._seal(extra)
        elif header.kind in (Kind.ERASURE, Kind.NOTE, Kind.BASE):
            try:
                record = orjson.loads(extra) if extra else {}
                claims = claims_in(record)
                removed = removed_in(record)
                if header.kind is Kind.BASE:
                    self._base_claims = claims
                elif removed and removed not in self._noted:
                    self._noted[removed] = str(record.get(BASE, ""))
                    if self._base is not None and removed == self._base.size:
                        # The base stands before erasures that had been committed when it was made.
                        claims = [*self._base_claims, *claims]
                self._erasures.claim(revision, claims)
            except (CorruptState, ValueError, AttributeError, TypeError):
                yield "its record of what was erased or removed cannot be read"
                return
            if removed > (self._base.size if self._base else 0):
                yield f"it says that the entries up to revision {removed} were removed, and there are some again"

    def _seal(self, extra: bytes) -> Iterator[str]:
        before = self._mountain.size - 1
        try:
            record = orjson.loads(extra)
            size, head = int(record.get("size", 0)), str(record["head"])
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            yield "its seal cannot be read"
            return
        if not 0 <= size <= before:
            yield f"it seals {size} entries and stands behind {before}"
        elif size not in self._roots:
            return  # it seals what has been removed since
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


def _leaves(header: Header, payload: bytes | None) -> list[Leaf] | None:
    """Return the leaves of an entry, `None` if they are missing or cut short."""
    size = sum(cell.size for cell in header.cells)
    if payload is None:
        return None
    if is_erased(payload):
        try:
            leaves = decode_leaves(payload)
        except CorruptState:
            return None
        return leaves if len(leaves) >= len(header.cells) else None
    if len(payload) < size:
        return None
    extra = payload[size:]
    try:
        return whole_leaves(header.salt, [*_values(header, payload), *([extra] if extra else [])])
    except OverflowError:
        return None  # more cells than a commit can have


def _digest(body: bytes, leaves: Sequence[Leaf]) -> bytes:
    return entry_digest(body, [leaf.digest(number) for number, leaf in enumerate(leaves)])


def _plain_values(header: Header, leaves: Sequence[Leaf]) -> Iterator[int]:
    """Yield for each cell how many of its sensitive values stand in it as they are."""
    for cell, leaf in zip(header.cells, leaves, strict=False):
        value = leaf.stored or b"{}"
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


def _addresses(values: Iterable[bytes | None]) -> Iterator[bytes]:
    for value in values:
        try:
            yield from addresses_in(value or b"").values()
        except CorruptState:
            continue
