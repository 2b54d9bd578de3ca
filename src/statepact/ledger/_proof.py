"""Proofs that need no store: that a value stands in a log, and that one log is the beginning of another.

Whoever keeps a head (`SIZE:HEX`, as `statepact verify` prints it) can check them offline. Of everything
else in the log a proof of a value shows digests only; they are salted, so no digest helps anybody who
guesses. A proof has one form: every byte of it is covered by a digest or determined by one that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic_core import from_json

from statepact.errors import CorruptState, ProofRefused
from statepact.ledger._anchor import Anchor
from statepact.ledger._blocks import addresses_in, is_value_id
from statepact.ledger._claims import claims_in
from statepact.ledger._digest import (
    DIGEST_SIZE,
    SALT_SIZE,
    block_digest,
    entry_digest_of,
    root_from,
    salted_digest,
)
from statepact.ledger._header import KEYED, Kind, Numbers
from statepact.ledger._mountain import Mountain
from statepact.ledger._tree import added_spans, climbed, peak_over, spans_of

INCLUSION = "statepact proof 1"
CONSISTENCY = "statepact consistency 1"

MAX_PROOF = 256 * 1024 * 1024
"""Bytes of the largest proof that is looked at: a value may have 64 MiB, and its text form more."""

MOST_ENTRIES = 2**48


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """What a proof of a value has proven."""

    revision: int
    """Where the value stands in the log."""
    size: int
    """How many entries the log had under the head."""
    at: int
    """When it was written, in milliseconds since 1970, by the writer's clock."""
    values: Mapping[str, Any] = field(repr=False)
    """Its fields as JSON values; sealed ones are not among them."""
    sealed: tuple[str, ...] = ()
    """Fields of which only an id is proven, because they are encrypted."""
    redacted: bool = False
    """Whether other fields of the value have been erased since it was written; the log says so."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "revision": self.revision,
            "size": self.size,
            "at": self.at,
            "values": dict(self.values),
            "sealed": list(self.sealed),
            "redacted": self.redacted,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafProof:
    """That bytes are a leaf of an entry of a log."""

    revision: int
    body: bytes
    """The header of the entry, as far as its digest covers it: numbers, and names that are new in it."""
    leaf: int
    leaves: int
    was: bytes = b""
    """Digest of the leaf as it was committed, if something of it has been erased."""
    salt: bytes
    stored: bytes = field(repr=False)
    beside: tuple[bytes, ...]
    """Digests beside the way from the leaf to the root of the entry."""
    path: tuple[bytes, ...]
    """Nodes beside the way from the entry to its peak."""

    @property
    def now(self) -> bytes:
        """Digest of the bytes."""
        return salted_digest(self.salt, self.leaf, self.stored)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        plain = {
            "revision": self.revision,
            "body": self.body.hex(),
            "leaf": self.leaf,
            "leaves": self.leaves,
            "salt": self.salt.hex(),
            "stored": self.stored.decode(),
            "beside": _hex(self.beside),
            "path": _hex(self.path),
        }
        return {**plain, "was": self.was.hex()} if self.was else plain

    @classmethod
    def of(cls, plain: Any) -> LeafProof:
        """Return it from JSON values; raises one of `_UNREADABLE`."""
        return cls(
            revision=_number(plain["revision"]),
            body=bytes.fromhex(plain["body"]),
            leaf=_number(plain["leaf"]),
            leaves=_number(plain["leaves"]),
            was=_digest(plain["was"]) if "was" in plain else b"",
            salt=bytes.fromhex(plain["salt"]),
            stored=plain["stored"].encode(),
            beside=tuple(map(_digest, plain["beside"])),
            path=tuple(map(_digest, plain["path"])),
        )

    def check(self, size: int, peaks: Sequence[bytes], *, redaction: LeafProof | None) -> None:
        """Raise `ProofRefused` unless this is a leaf of the log with these peaks."""
        if not 0 < self.revision <= size or not 0 <= self.leaf < self.leaves < 1 << 16 or len(self.salt) != SALT_SIZE:
            raise refused("it names a place that is not in a log of this size")
        if bool(self.was) is not (redaction is not None):
            raise refused("it has a digest from before an erasure without the erasure, or the other way round")
        root = root_from(self.was or self.now, self.leaf, self.leaves, self.beside)
        peak = None
        if root is not None:
            peak = climbed(self.revision - 1, size, entry_digest_of(self.body, self.leaves, root), self.path)
        if peak is None or peak != peaks[spans_of(size).index(peak_over(self.revision - 1, size))]:
            raise refused("the value, its salt or its place is not what the head covers")

    @property
    def kind(self) -> Kind | None:
        """The kind of the entry."""
        try:
            return Kind(self.body[0] & ~KEYED)
        except (IndexError, ValueError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inclusion:
    """That a value stands in a log."""

    size: int
    peaks: tuple[bytes, ...]
    value: LeafProof
    redaction: LeafProof | None = None
    """The record of the erasure that left the value as it is, if something of it was erased."""
    owner: str = ""
    """Only with large values: it is part of their digests."""
    large: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Large fields of the value as text."""

    def to_bytes(self) -> bytes:
        """Return the proof as a small JSON document."""
        plain: dict[str, Any] = {
            "format": INCLUSION,
            "size": self.size,
            "peaks": _hex(self.peaks),
            "value": self.value.as_dict(),
        }
        if self.redaction is not None:
            plain["redaction"] = self.redaction.as_dict()
        if self.large:
            plain |= {"owner": self.owner, "large": dict(self.large)}
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def of(cls, plain: Any) -> Inclusion:
        """Return it from JSON values; raises one of `_UNREADABLE`."""
        large = {str(name): text for name, text in plain.get("large", {}).items() if text.encode() is not None}
        return cls(
            size=_number(plain["size"]),
            peaks=tuple(map(_digest, plain["peaks"])),
            value=LeafProof.of(plain["value"]),
            redaction=LeafProof.of(plain["redaction"]) if "redaction" in plain else None,
            owner=str(plain.get("owner", "")),
            large=large,
        )

    def check(self, head: Anchor) -> Proven:
        """Return what is proven for a head. Raises `ProofRefused`."""
        _check_head(self.size, self.peaks, head, "the head")
        self.value.check(self.size, self.peaks, redaction=self.redaction)
        if self.redaction is not None:
            self._check_redaction(self.redaction)
        try:
            numbers = Numbers(self.value.body)
            at, _, _, _, cells = (next(numbers) for _ in range(5))
            if self.value.kind is not Kind.COMMIT or self.value.leaf >= cells:
                raise ValueError  # what was refused, or what stands beside values, is no value
            small = from_json(self.value.stored.partition(b"\x00")[0])
            apart = addresses_in(self.value.stored)
            values = dict(small)
        except (ValueError, TypeError, IndexError, CorruptState):
            raise refused("what is proven is no value") from None
        sealed = tuple(name for name, address in apart.items() if is_value_id(address))
        if set(self.large) != apart.keys() - set(sealed) or (self.owner and not self.large):
            raise refused("large values are missing, or there are some too many")
        for name, text in self.large.items():
            if block_digest(self.owner, text.encode()) != apart[name]:
                raise refused("a large value is not the one that the log names")
            try:
                values[name] = from_json(text)
            except ValueError:
                raise refused("a large value cannot be read") from None
        return Proven(
            revision=self.value.revision,
            size=self.size,
            at=at,
            values=values,
            sealed=sealed,
            redacted=self.redaction is not None,
        )

    def _check_redaction(self, redaction: LeafProof) -> None:
        redaction.check(self.size, self.peaks, redaction=None)
        if redaction.kind not in (Kind.ERASURE, Kind.NOTE, Kind.BASE) or redaction.leaf or redaction.leaves != 1:
            raise refused("what is to be an erasure is another entry")
        try:
            claims = claims_in(orjson.loads(redaction.stored))
        except (ValueError, AttributeError, CorruptState):
            raise refused("the record of the erasure cannot be read") from None
        place = self.value.revision, self.value.leaf, self.value.now
        if place not in [(claim.revision, claim.leaf, claim.now) for claim in claims]:
            raise refused("the erasure has not left the value as it is given here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """That the log under one head is the beginning of the log under another one."""

    old: int
    new: int
    peaks: tuple[bytes, ...]
    """Those of the old log."""
    added: tuple[bytes, ...]
    """The trees by which it has grown."""

    def to_bytes(self) -> bytes:
        """Return the proof as a small JSON document."""
        plain = {
            "format": CONSISTENCY, "old": self.old, "new": self.new, "peaks": _hex(self.peaks),
            "added": _hex(self.added),
        }  # fmt: skip
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def of(cls, plain: Any) -> Consistency:
        """Return it from JSON values; raises one of `_UNREADABLE`."""
        peaks, added = (tuple(map(_digest, plain[name])) for name in ("peaks", "added"))
        return cls(old=_number(plain["old"]), new=_number(plain["new"]), peaks=peaks, added=added)

    def check(self, old: Anchor, new: Anchor) -> None:
        """Raise `ProofRefused` unless the log under the old head is the beginning of that under the new one."""
        _check_head(self.old, self.peaks, old, "the old head")
        spans = added_spans(self.old, self.new)
        if self.old > self.new or len(spans) != len(self.added):
            raise refused("the trees by which the log has grown are not those between the two sizes")
        mountain = Mountain.of(self.old, self.peaks)
        for (_, height), node in zip(spans, self.added, strict=True):
            mountain.append_tree(height, node)
        _check_head(self.new, mountain.peaks, new, "the new head")


Proof = Inclusion | Consistency

_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def proof_of(data: bytes) -> Proof:
    """Return a proof from its bytes. Raises `ProofRefused` for what is none, before anything is made of it."""
    if len(data) > MAX_PROOF:
        raise refused(f"it has {len(data):,} bytes")
    proof: Proof | None = None
    try:
        plain = orjson.loads(data)
        form = plain["format"]
        proof = Inclusion.of(plain) if form == INCLUSION else Consistency.of(plain) if form == CONSISTENCY else None
    except _UNREADABLE:
        pass
    # One form only: what could be written in two ways could be changed without anybody noticing.
    if proof is None or proof.to_bytes() != data.removesuffix(b"\n"):
        raise refused("it is not in the form in which proofs are made")
    return proof


def refused(why: str) -> ProofRefused:
    """Return the error for a proof that proves nothing."""
    return ProofRefused(f"the proof is refused: {why}", hint="ask for one that is made for the head you keep")


def _check_head(size: int, peaks: Sequence[bytes], head: Anchor, name: str) -> None:
    if size != head.size:
        raise refused(f"it is for a log of {size} entries, and {name} covers {head.size}")
    try:
        root = Mountain.of(size, peaks).root()
    except (ValueError, OverflowError):
        raise refused("it has not the peaks of a log of its size") from None
    if root != head.head:
        raise refused(f"it does not lead to {name}")


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_ENTRIES:
        raise ValueError
    return value


def _digest(text: Any) -> bytes:
    found = bytes.fromhex(text)
    if len(found) != DIGEST_SIZE:
        raise ValueError
    return found


def _hex(digests: Sequence[bytes]) -> list[str]:
    return [digest.hex() for digest in digests]
