"""How the values of an entry are stored after some of them have been erased.

Digest, body and tag of the entry stay what they were, so its place in the log stays proven. Its salt
is gone, because it would open the digest of a guessable value. The payload becomes a record that has,
for each leaf, what is needed to compute the digest again:

    kept      the salt of this leaf, and its bytes
    erased    the digest of the leaf, and nothing else
    redacted  the digest of the leaf as it was, then a new salt and the bytes without what was erased

New bytes are covered by a digest of their own, which the erasure that made them has committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from statepact.errors import CorruptState
from statepact.ledger._digest import DIGEST_SIZE, SALT_SIZE, leaf_salt, salted_digest

# No payload begins with NUL otherwise: cells and records are JSON objects.
_MARK = b"\x00erased 1\x00"
_BASE_MARK = b"\x00retain 1\x00"
_KEPT, _ERASED, _REDACTED = range(3)

NO_SALT = b"\x00" * SALT_SIZE
"""Stands in the header of an entry whose salt was erased."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of an entry: a cell, or the record beside the cells."""

    stored: bytes | None
    """Its bytes as they are stored now, `None` if they are erased."""
    salt: bytes = b""
    """The salt of this leaf, empty if it is erased."""
    was: bytes = b""
    """The digest of the leaf as it was committed, if its bytes are not those any more."""

    def digest(self, index: int) -> bytes:
        """Return the digest of the leaf as it was committed."""
        return self.was or salted_digest(self.salt, index, self.stored or b"")

    def now(self, index: int) -> bytes:
        """Return the digest of the bytes that stand there now; empty if there are none."""
        return b"" if self.stored is None else salted_digest(self.salt, index, self.stored)


def whole_leaves(salt: bytes, stored: Iterable[bytes]) -> list[Leaf]:
    """Return the leaves of an entry of which nothing was erased."""
    return [Leaf(raw, leaf_salt(salt, index)) for index, raw in enumerate(stored)]


def is_erased(payload: bytes) -> bool:
    """Whether a payload is such a record, that of a base included."""
    return payload.startswith((_MARK, _BASE_MARK))


def is_base(payload: bytes) -> bool:
    """Whether a payload is that of a base, which stands in the place of a removed entry."""
    return payload.startswith(_BASE_MARK)


def encode_leaves(leaves: Sequence[Leaf], *, base: bool = False) -> bytes:
    """Return the payload of an entry of which something was erased, or of a base."""
    out = bytearray((_BASE_MARK if base else _MARK) + len(leaves).to_bytes(2, "big"))
    for leaf in leaves:
        if leaf.stored is None:
            out += bytes((_ERASED,)) + leaf.was
            continue
        out += bytes((_REDACTED,)) + leaf.was if leaf.was else bytes((_KEPT,))
        out += leaf.salt + len(leaf.stored).to_bytes(4, "big") + leaf.stored
    return bytes(out)


def decode_leaves(payload: bytes) -> list[Leaf]:
    """Return the leaves of such a record; raises `CorruptState` if it is none."""
    at = len(_MARK)
    leaves: list[Leaf] = []

    def take(size: int) -> bytes:
        nonlocal at
        piece = payload[at : at + size]
        if len(piece) != size:
            raise CorruptState("the record of an erased entry is cut short")
        at += size
        return piece

    for _ in range(int.from_bytes(take(2), "big")):
        form = take(1)[0]
        if form > _REDACTED:
            raise CorruptState("the record of an erased entry cannot be read")
        was = take(DIGEST_SIZE) if form != _KEPT else b""
        if form == _ERASED:
            leaves.append(Leaf(None, was=was))
            continue
        salt = take(SALT_SIZE)
        leaves.append(Leaf(take(int.from_bytes(take(4), "big")), salt, was))
    if not is_erased(payload) or at != len(payload):
        raise CorruptState("the record of an erased entry cannot be read")
    return leaves


def digests_of(leaves: Iterable[Leaf]) -> list[bytes]:
    """Return the digests of leaves as they were committed."""
    return [leaf.digest(index) for index, leaf in enumerate(leaves)]
