"""The record of an entry, without its values: numbers and rules, never names and digests per fact.

A header has about 80 bytes, because that is what keeps a stored step near the size of its payload.
Names (of runs, steps, branches, contracts) are numbered per session in the order in which the log
first uses them, and the header that uses a name first spells it out; so a log explains itself and
needs no table beside it.

Stored are the digest, the salt, the body and, in a log with a key, a tag. The digest covers the body;
the salt enters it through the leaves only, so that it can be erased. The body holds the kind, the
input digest, then unsigned LEB128 numbers: time, run, step, branch, the cells (contract, size and
flags, masks), the reads (revision, cell, how, mask), how pinned facts arrived, and the new names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from statepact.errors import CorruptState
from statepact.ledger._digest import DIGEST_SIZE, INPUT_DIGEST_SIZE, SALT_SIZE, TAG_SIZE

NO_INPUT = b"\x00" * INPUT_DIGEST_SIZE


class Kind(IntEnum):
    """What an entry is. Only commits are readable as state."""

    COMMIT = 1
    ATTEMPT = 2
    REFUSAL = 3
    ERASURE = 4
    SEAL = 5
    NOTE = 6
    """About the session and no run of it: where a fork comes from."""
    BASE = 7
    """Stands for all entries up to its own, which a retention rule has removed."""


class Reached(IntEnum):
    """How a value that a step was given reached it."""

    UNKNOWN = 0
    """Nobody reported what was sent, so nothing is claimed."""

    ARGUMENT = 1
    """Handed to the step's code as a value; the step asked no model."""

    SENT = 2
    """All its facts stood in what the model client sent."""

    PARTLY = 3
    """Some of its facts did; the mask has a bit for each field, in the order of the contract."""


class CellSize(NamedTuple):
    """A cell inside a commit's payload."""

    contract: str
    """The contract under which it was written, as `describe` puts it."""
    size: int
    """Bytes of the cell as stored."""
    shared: bool = False
    """It changes a shared value of the session, and is not an output of the step."""
    omitted: int = 0
    """Bit i is set if the writer did not set field i of the contract: its default is nobody's word."""
    deleted: int = 0
    """Bit i is set if what field i of a shared value held is gone: the field was deleted or, if it is
    not omitted, set anew instead of merged."""


class Read(NamedTuple):
    """A cell that a step was given, and how it reached the step."""

    revision: int
    cell: int = 0
    """Number of the cell inside the commit of that revision."""
    reached: Reached = Reached.UNKNOWN
    mask: int = 0
    """For `PARTLY`: bit i is set if field i of the contract was sent."""
    declared: bool = True
    """False for a cell whose pinned facts came along although the step did not declare it."""


@dataclass(slots=True)
class Header:
    """Everything about an entry except its values.

    Nobody changes one that has its digest. Not frozen, because each step makes one, and that would
    cost it three microseconds.
    """

    kind: Kind
    at: int
    """Time of the write in milliseconds since 1970, UTC, by the writer's clock."""
    run: str
    step: str = ""
    branch: str = ""
    salt: bytes = b"\x00" * SALT_SIZE
    input_digest: bytes = NO_INPUT
    cells: tuple[CellSize, ...] = ()
    reads: tuple[Read, ...] = ()
    pinned_as_of: int = 0
    """If not 0: all pinned facts that the run had at this revision, and that no read names, reached
    the step as `pinned_reached` says."""
    pinned_reached: Reached = Reached.SENT
    """`SENT`: except for the oldest `pinned_cut` that are no limits. `PARTLY`: none of them. `UNKNOWN`."""
    pinned_cut: int = 0
    keyed: bool = False
    """Whether the entry has a tag."""
    digest: bytes = b"\x00" * DIGEST_SIZE
    tag: bytes = b""
    """In a log with a key: proof that who wrote the entry knew the key and all entries before it."""

    @property
    def begins(self) -> bool:
        """Whether this is an attempt that begins an effect, and not one that says how it ended."""
        return self.kind is Kind.ATTEMPT and self.input_digest != NO_INPUT

    def stored(self, body: bytes) -> bytes:
        """Return the header as it is stored, for the body that `encode_body` returned."""
        return self.digest + self.salt + body + self.tag


class Names:
    """The names a session has used so far, numbered."""

    __slots__ = ("_by_number", "_numbers")

    def __init__(self) -> None:
        self._by_number: list[str] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def cut_back(self, size: int) -> None:
        """Forget the newest names until `size` are left: the entry that used them was not kept."""
        while len(self._by_number) > size:
            self._numbers.pop(self._by_number.pop(), None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_number)

    def add(self, name: str) -> None:
        """Give the next number to a name."""
        self._numbers[name] = len(self._by_number)
        self._by_number.append(name)

    def number(self, name: str) -> int | None:
        """Return the number of a name, `None` if the log has not used it."""
        return self._numbers.get(name)

    def number_or_new(self, name: str) -> int:
        """Return the number of a name, which gets the next one if the log has not used it."""
        found = self._numbers.get(name)
        if found is None:
            found = len(self._by_number)
            self.add(name)
        return found

    def name(self, number: int) -> str:
        """Return the name of a number; raises `CorruptState` if the log never gave it out."""
        try:
            return self._by_number[number]
        except IndexError:
            raise CorruptState(f"a header names number {number}, which the log never gave out") from None


def encode_body(header: Header, names: Names) -> bytes:
    """Return the header without its digest; names that the log has not used yet are added to `names`."""
    known = len(names)
    number = names.number_or_new

    numbers = [number(header.run), number(header.step), number(header.branch), len(header.cells)]
    for contract, size, shared, omitted, deleted in header.cells:
        masked = omitted or deleted
        numbers += (number(contract), size << 2 | shared << 1 | bool(masked))
        if masked:
            numbers += (omitted, deleted)
    numbers.append(len(header.reads))
    for revision, cell, reached, mask, declared in header.reads:
        numbers += (revision, cell, reached << 1 | declared)
        if reached is Reached.PARTLY:
            numbers.append(mask)
    numbers.append(header.pinned_as_of)
    if header.pinned_as_of:
        numbers.append(header.pinned_cut << 2 | header.pinned_reached)
    numbers.append(len(names) - known)
    out = bytearray((header.kind | header.keyed * KEYED,))
    out += header.input_digest
    put(out, (header.at,))
    if max(numbers) <= 0x7F:
        out += bytes(numbers)  # each is its own byte: most headers of short sessions
    else:
        put(out, numbers)
    for new in range(known, len(names)):
        raw = names.name(new).encode()
        put(out, (len(raw),))
        out += raw
    return bytes(out)


def put(out: bytearray, values: Iterable[int]) -> None:
    """Append numbers as unsigned LEB128."""
    for value in values:
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)


KEYED = 0x80
"""Set in the byte of the kind if a tag follows the body."""

LONGEST_NUMBER = 8_192
"""Bits of the longest number that is read: a mask has one for each field of a contract."""

_SALT_END = DIGEST_SIZE + SALT_SIZE
_NUMBERS_AT = 1 + INPUT_DIGEST_SIZE


class Pieces(NamedTuple):
    """Stored bytes of a header, taken apart without being read."""

    digest: bytes
    salt: bytes
    body: bytes
    """What the digest covers."""
    tag: bytes


def pieces_of(stored: bytes) -> Pieces:
    """Take the stored bytes of a header apart; pieces that are not there are empty."""
    end = len(stored)
    if end > _SALT_END and stored[_SALT_END] & KEYED:
        end = max(end - TAG_SIZE, _SALT_END)
    return Pieces(stored[:DIGEST_SIZE], stored[DIGEST_SIZE:_SALT_END], stored[_SALT_END:end], stored[end:])


def kind_of(stored: bytes) -> Kind | None:
    """Return the kind of an entry from the stored bytes of its header, `None` if they are none."""
    body = stored[_SALT_END : _SALT_END + 1]
    try:
        return Kind(body[0] & ~KEYED) if body else None
    except ValueError:
        return None


def decode_header(stored: bytes, names: Names) -> Header:
    """Return the header of stored bytes, adding the names it introduces.

    Raises `CorruptState` if the bytes are not a header.
    """
    digest, salt, body, tag = pieces_of(stored)
    try:
        keyed = bool(body[0] & KEYED)
        kind = Kind(body[0] & ~KEYED)
        numbers = Numbers(body, _NUMBERS_AT)
        at, run, step, branch = (next(numbers) for _ in range(4))
        cells = [numbered_cell(numbers) for _ in range(next(numbers))]
        reads = [_read(numbers) for _ in range(next(numbers))]
        pinned_as_of = next(numbers)
        pinned = next(numbers) if pinned_as_of else int(Reached.SENT)
        for _ in range(next(numbers)):
            names.add(numbers.text(next(numbers)))
        return Header(
            kind=kind,
            at=at,
            run=names.name(run),
            step=names.name(step),
            branch=names.name(branch),
            salt=salt,
            input_digest=body[1:_NUMBERS_AT],
            cells=tuple([cell._replace(contract=names.name(contract)) for contract, cell in cells]),
            reads=tuple(reads),
            pinned_as_of=pinned_as_of,
            pinned_reached=Reached(pinned & 3),
            pinned_cut=pinned >> 2,
            keyed=keyed,
            digest=digest,
            tag=tag,
        )
    except (IndexError, ValueError, UnicodeDecodeError) as error:
        raise CorruptState(f"a header of {len(stored)} bytes cannot be read") from error


def numbered_cell(numbers: Numbers) -> tuple[int, CellSize]:
    """Return the next cell of a header, with its contract as a number."""
    contract, size = next(numbers), next(numbers)
    omitted, deleted = (next(numbers), next(numbers)) if size & 1 else (0, 0)
    return contract, CellSize("", size >> 2, bool(size >> 1 & 1), omitted, deleted)


def _read(numbers: Numbers) -> Read:
    revision, cell, how = next(numbers), next(numbers), next(numbers)
    reached = Reached(how >> 1)
    mask = next(numbers) if reached is Reached.PARTLY else 0
    return Read(revision, cell, reached, mask, declared=bool(how & 1))


class Numbers(Iterator[int]):
    """Reads numbers, and at the end texts, off the body of a header; `IndexError` at its end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = _NUMBERS_AT) -> None:
        self._data = data
        self._at = at

    def __next__(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > LONGEST_NUMBER:
                raise IndexError  # what is so long is no number, and reading it would take for ever

    def raw(self, size: int) -> bytes:
        """Return the next bytes."""
        raw = self._data[self._at : self._at + size]
        if len(raw) != size:
            raise IndexError
        self._at += size
        return raw

    def text(self, size: int) -> str:
        """Return the next bytes as text."""
        return self.raw(size).decode()
