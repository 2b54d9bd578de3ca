"""One session as one file: frames with their length, and a digest of everything at the end. No store.

    statepact session 1⏎
    M  what it is, as JSON          H  header of an entry      P  its payload
    B  address and bytes of a large or sensitive value         E  what it is about, as JSON
    Z  SHA-256 of everything before

A frame is its letter, its length in eight bytes, and that many bytes. Before a byte of a frame is read its
length is compared with what such a frame may have and with what is left of the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from statepact.errors import CorruptState, ImportRefused
from statepact.ledger._claims import Claim, claims_in
from statepact.stores._base import EntityUse, StoredHeader
from statepact.stores._new_log import Copied

_MAGIC = b"statepact session 1\n"
_FRAME = 9
"""Bytes of a letter and a length."""

MAX_BYTES = 1 << 30
"""Largest file that is read unless the caller says otherwise: all of it is in memory for a moment."""

_LONGEST = {b"M": 16 << 20, b"H": 16 << 20, b"P": 256 << 20, b"B": 256 << 20, b"E": 64 << 10, b"Z": 32}
_MOST_REVISIONS = 1 << 48
_LONGEST_ENTITY = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """What such a file holds."""

    owner: str
    session: str
    head: str
    """Root over all digests, in hex."""
    copied: Copied
    entities: Sequence[EntityUse] = ()
    missing: Sequence[Claim] = ()
    """What is not in it although no entry of it says so: erased later, or masked for the export."""
    masked: int = 0
    """Sensitive values that were masked."""

    @property
    def revision(self) -> int:
        """Revision of the newest entry."""
        return self.copied.headers[-1].revision

    def to_bytes(self) -> bytes:
        """Return the file."""
        headers, payloads, blocks = self.copied
        what = {
            "owner": self.owner,
            "session": self.session,
            "first": headers[0].revision,
            "revision": self.revision,
            "head": self.head,
            "masked": self.masked,
            "erased": [claim.as_dict() for claim in self.missing],
        }
        parts = [_MAGIC, _frame(b"M", orjson.dumps(what))]
        for one in headers:
            parts += [_frame(b"H", one.header), _frame(b"P", payloads[one.revision])]
        parts += [_frame(b"B", bytes([len(a)]) + a + data) for a, data in sorted(blocks.items())]
        parts += [_frame(b"E", orjson.dumps([use.kind, use.value, use.at])) for use in self.entities]
        whole = b"".join(parts)
        return whole + _frame(b"Z", hashlib.sha256(whole).digest())


def read_session(file: BinaryIO, *, size: int, max_bytes: int = MAX_BYTES) -> SessionFile:
    """Return what a file of `size` bytes holds. Raises `ImportRefused`; what it holds is not verified yet."""
    if size > max_bytes:
        raise refused(f"it has {size:,} bytes, more than the {max_bytes:,} that are allowed")
    frames = _frames(file, size)
    try:
        letter, raw = next(frames, (b"", b""))
        what = orjson.loads(raw) if letter == b"M" else {}
        owner, session, head = (_text(what[name]) for name in ("owner", "session", "head"))
        first, revision = (_revision(what[name]) for name in ("first", "revision"))
        missing = claims_in(what)
        masked = int(what["masked"])
    except _UNREADABLE:
        raise refused("it does not say what it holds") from None
    headers: list[StoredHeader] = []
    payloads: dict[int, bytes] = {}
    blocks: dict[bytes, bytes] = {}
    entities: list[EntityUse] = []
    for letter, raw in frames:
        at = first + len(headers)
        if letter == b"H" and len(payloads) == len(headers):
            headers.append(StoredHeader(at, raw))
        elif letter == b"P" and len(payloads) == len(headers) - 1:
            payloads[at - 1] = raw
        elif letter == b"B" and raw:
            blocks[raw[1 : 1 + raw[0]]] = raw[1 + raw[0] :]
        elif letter == b"E":
            entities.append(_entity(raw, session))
        else:
            raise refused("its parts are in another order than those of a session")
    if len(payloads) != len(headers) or not headers or headers[-1].revision != revision:
        raise refused("it has another number of entries than it says")
    return SessionFile(
        owner=owner,
        session=session,
        head=head,
        copied=Copied(headers, payloads, blocks),
        entities=entities,
        missing=missing,
        masked=masked,
    )


def refused(why: str) -> ImportRefused:
    """Return the error for a file that cannot be taken in."""
    return ImportRefused(f"the file is refused: {why}", hint="nothing was written; export the session again")


_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, CorruptState)


def _frame(letter: bytes, raw: bytes) -> bytes:
    return letter + len(raw).to_bytes(8, "big") + raw


def _frames(file: BinaryIO, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the frames before the digest, and at the end check that."""
    state = hashlib.sha256()
    left = size

    def take(count: int) -> bytes:
        nonlocal left
        piece = file.read(count) if count <= left else b""
        if len(piece) != count:
            raise refused("it is cut short")
        left -= count
        return piece

    if size < len(_MAGIC) or take(len(_MAGIC)) != _MAGIC:
        raise refused("it is no session of statepact, or of another version")
    state.update(_MAGIC)
    while True:
        start = take(_FRAME)
        letter, length = start[:1], int.from_bytes(start[1:], "big")
        if length > _LONGEST.get(letter, -1):
            raise refused("a part of it is larger than such a part can be, or of an unknown kind")
        raw = take(length)
        if letter == b"Z":
            if left or raw != state.digest():
                raise refused("its digest is not that of its content")
            return
        state.update(start)
        state.update(raw)
        yield letter, raw


def _entity(raw: bytes, session: str) -> EntityUse:
    try:
        kind, value, at = orjson.loads(raw)
        if type(at) is not int or not 0 <= at < 1 << 53:
            raise ValueError
        return EntityUse(kind=_text(kind), value=_text(value), session=session, at=at)
    except _UNREADABLE:
        raise refused("what it is about cannot be read") from None


def _text(value: Any) -> str:
    if type(value) is not str or not 0 < len(value) <= _LONGEST_ENTITY or "\x00" in value:
        raise ValueError
    return value


def _revision(value: Any) -> int:
    if type(value) is not int or not 0 < value < _MOST_REVISIONS:
        raise ValueError
    return value
