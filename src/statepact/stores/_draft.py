"""An entry before it has a place in the log: what its maker wants kept, and what is sent of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import orjson

from statepact.errors import LeaseLost, SessionHeld
from statepact.ledger._blocks import Parts
from statepact.ledger._digest import entry_digest, leaf_digest, new_salt
from statepact.ledger._header import NO_INPUT, CellSize, Header, Kind, Names, Reached, Read, encode_body
from statepact.ledger._key import INSIDE
from statepact.ledger._lifetime import USUAL_KEEP
from statepact.stores._base import Entity, Hold, NewEntry


class Pinned(NamedTuple):
    """How the pinned facts that no read names reached a step; see `Header`."""

    as_of: int = 0
    reached: Reached = Reached.SENT
    cut: int = 0


NO_PINNED = Pinned()


class Document(NamedTuple):
    """A cell before it has a place in the log."""

    contract: str
    """As `describe` puts it."""
    parts: Parts
    shared: bool = False
    omitted: int = 0
    deleted: int = 0


class Requirement(NamedTuple):
    """Fields of a shared value that nobody may have changed since they were read."""

    contract: str
    """Name of the contract."""
    version: str
    """The version under which they were read: under another one, fields may have other names."""
    fields: frozenset[str]
    revision: int
    """The revision at which they were read."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """An entry before it has a place in the log."""

    kind: Kind = Kind.COMMIT
    at: int
    run: str
    step: str
    branch: str = ""
    input_digest: bytes = NO_INPUT
    documents: Sequence[Document] = ()
    """Its cells."""
    reads: tuple[Read, ...] = ()
    pinned: Pinned = NO_PINNED
    entities: tuple[Entity, ...] = ()
    """What the values are about."""
    extra: bytes = b""
    """JSON object with what has no place in the header: reason, usage, marks. Empty for none."""
    as_of: int | None = None
    """Revision at which its maker has read; what was erased since then must not come back with it."""
    requires: tuple[Requirement, ...] = ()
    """What it was made from and must still be so when it is committed."""
    keep: float | None = USUAL_KEEP
    """Seconds for which a cache keeps the session after this entry; `None` until it is deleted."""

    @property
    def begins(self) -> bool:
        """Whether this is an attempt that begins an effect."""
        return self.kind is Kind.ATTEMPT and self.input_digest != NO_INPUT


class Prepared(NamedTuple):
    """An entry with its digest, ready to be sent."""

    header: Header
    body: bytes
    payload: bytes
    blocks: tuple[tuple[bytes, bytes], ...]
    documents: Sequence[bytes]
    """The cells with their large values in place."""
    leaves: Sequence[bytes]
    """Their digests, then that of the record if there is one."""


def prepared(draft: Draft, names: Names, *, keyed: bool) -> Prepared:
    """Return a draft as an entry; names that the log has not used yet are added to `names`."""
    salt = new_salt()
    leaves = [leaf_digest(salt, number, one.parts.stored) for number, one in enumerate(draft.documents)]
    if draft.extra:
        leaves.append(leaf_digest(salt, len(leaves), draft.extra))
    header = Header(
        kind=draft.kind,
        at=draft.at,
        run=draft.run,
        step=draft.step,
        branch=draft.branch,
        salt=salt,
        input_digest=draft.input_digest,
        cells=tuple(
            [
                CellSize(contract, len(parts.stored), shared, omitted, deleted)
                for contract, parts, shared, omitted, deleted in draft.documents
            ]
        ),
        reads=draft.reads,
        pinned_as_of=draft.pinned.as_of,
        pinned_reached=draft.pinned.reached,
        pinned_cut=draft.pinned.cut,
        keyed=keyed,
    )
    body = encode_body(header, names)
    header.digest = entry_digest(body, leaves)
    whole = [one.parts.document or one.parts.stored for one in draft.documents]
    if len(draft.documents) == 1 and not draft.extra:
        parts = draft.documents[0].parts
        return Prepared(header, body, parts.stored, parts.blocks, whole, leaves)
    payload = b"".join([*(one.parts.stored for one in draft.documents), draft.extra])
    blocks = tuple([block for one in draft.documents for block in one.parts.blocks])
    return Prepared(header, body, payload, blocks, whole, leaves)


def belongs_to(draft: Draft, hold: Hold) -> bool:
    """Whether an entry may only be kept as long as a claim is ours: state of the run, or of a part of it.

    The beginning of an effect as well: who has been succeeded must not do what cannot be undone.
    """
    ours = draft.run == hold.run or draft.run.startswith(hold.run + INSIDE)
    return ours and (draft.kind in (Kind.COMMIT, Kind.SEAL) or draft.begins)


def ends(draft: Draft, hold: Hold) -> bool:
    """Whether an entry is the last one that a claim was made for."""
    return draft.kind is Kind.SEAL and draft.run == hold.run


def refused(draft: Draft, refusal: SessionHeld | LeaseLost) -> Draft:
    """Return the record of a commit that was not its maker's to make: what it was, but not as state."""
    extra = orjson.dumps({"error": refusal.code, "holder": refusal.holder})
    return replace(draft, kind=Kind.REFUSAL, extra=extra)


def new_entry(draft: Draft, made: Prepared) -> NewEntry:
    """Return what a store is given of a prepared entry."""
    header = made.header.stored(made.body)
    if not draft.entities or made.header.kind is not Kind.COMMIT:
        return NewEntry(header, made.payload, made.blocks, keep=draft.keep)
    return NewEntry(header, made.payload, made.blocks, draft.entities, made.header.at, draft.keep)
