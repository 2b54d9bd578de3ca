"""Making proofs for people who do not have the store."""

from __future__ import annotations

from collections.abc import Mapping

from statepact.errors import CorruptState, Deleted, ProofRefused, SensitiveInClear, UnknownFact
from statepact.ledger import DEFAULT_OWNER, SessionKey, session_key
from statepact.ledger._anchor import Anchor, anchor_of
from statepact.ledger._blocks import addresses_in, fields_in, is_value_id
from statepact.ledger._cells import Cell, Entry
from statepact.ledger._digest import leaf_path
from statepact.ledger._erased import Leaf, digests_of
from statepact.ledger._erasure import Fact
from statepact.ledger._header import Kind
from statepact.ledger._log import SessionLog
from statepact.ledger._mountain import Mountain
from statepact.ledger._proof import Consistency, Inclusion, LeafProof, Proven, proof_of, refused
from statepact.ledger._tree import Tree, added_spans
from statepact.stores._base import Store
from statepact.stores._leaves import leaves_in
from statepact.stores._log_reader import LogReader

__all__ = ["Proven", "check_consistency", "check_proof", "prove", "prove_consistency"]


async def prove(
    store: Store,
    session: str,
    fact: str,
    *,
    owner: str = DEFAULT_OWNER,
    head: str | None = None,
    clear: bool = False,
) -> bytes:
    """Return a proof that a fact stands in a session's log: a small JSON document for `check_proof`.

    `fact` is `Order.status` or `Order`, the newest one, or `Order.status@7`, the one at that revision. The
    proof is for the log as it is, or for a `head` that somebody keeps (`SIZE:HEX`). It shows the whole value
    that one step has written, with all its fields, and of everything else digests. If one of these fields is
    sensitive and stored in plain text, it takes `clear=True` to give it away. What is encrypted is not proven:
    the log knows only its id.

    It costs one hash for each entry of the log, and no payload but that of the fact is read.

    Raises `UnknownFact`, `Deleted`, `UnknownSession`, `UnknownRevision` for a head of a longer log,
    `ProofRefused` for one of another log, `SensitiveInClear`, `Expired`, `CorruptState` and `StoreError`.
    """
    key = session_key(owner, session)
    kept = anchor_of(head) if head is not None else None
    reader = await LogReader.at(store, key, None)
    log, tree = reader.log, Tree(reader.log)
    size = _size(reader, kept)
    what = Fact.of(fact)
    cell = _cell(log, what, size)
    leaves = leaves_in(log.entry(cell.revision), await _payload(store, key, cell.revision))
    leaf = leaves[cell.number]
    if leaf.stored is None or what.field in cell.erased:
        raise Deleted(f"{what} at revision {cell.revision} has been erased", hint="what is gone cannot be proven")
    _check_shown(cell, what, leaf.stored, clear=clear)
    proof = Inclusion(
        size=size,
        peaks=tree.peaks(size),
        value=_leaf_proof(tree, log.entry(cell.revision), leaves, cell.number, size),
        redaction=await _redaction(store, log, tree, cell, size) if leaf.was else None,
        **await _large(store, key, leaf.stored),  # type: ignore[arg-type]
    )
    root = _head(tree, size)
    if kept is not None and kept != root:
        raise refused("the head that was given is not one of this session's log")
    try:
        proof.check(root)
    except ProofRefused as error:
        raise CorruptState(
            f"revision {cell.revision} of session {session!r} is not what was committed",
            hint="run `statepact verify` on the session, and restore the store from a backup",
        ) from error
    return proof.to_bytes()


async def prove_consistency(
    store: Store, session: str, old: str, *, owner: str = DEFAULT_OWNER, head: str | None = None
) -> bytes:
    """Return a proof that the log under an `old` head is the beginning of the one under a later `head`.

    Both are `SIZE:HEX`; the later one is by default that of the log as it is. Raises as `prove`, and
    `ProofRefused` if the old head is not one of this log: then it was changed, or is of another log.
    """
    reader = await LogReader.at(store, session_key(owner, session), None)
    before = anchor_of(old)
    after = anchor_of(head) if head is not None else None
    size, tree = _size(reader, after), Tree(reader.log)
    if before.size > size:
        raise refused(f"the old head covers {before.size} entries, and the later one {size}")
    proof = Consistency(
        old=before.size,
        new=size,
        peaks=tree.peaks(before.size),
        added=tuple(tree.node(*span) for span in added_spans(before.size, size)),
    )
    proof.check(before, after or _head(tree, size))
    return proof.to_bytes()


def check_proof(proof: bytes, *, head: str) -> Proven:
    """Return what a proof proves for a head (`SIZE:HEX`) that you keep. Needs no store and no network.

    Raises `ProofRefused` for everything else, and `SetupError` for a head that is none.
    """
    found = proof_of(proof)
    if not isinstance(found, Inclusion):
        raise refused("it is about two heads, and not about a value")
    return found.check(anchor_of(head))


def check_consistency(proof: bytes, *, old: str, head: str) -> None:
    """Raise `ProofRefused` unless the log under the old head is the beginning of that under the later one."""
    found = proof_of(proof)
    if not isinstance(found, Consistency):
        raise refused("it is about a value, and not about two heads")
    found.check(anchor_of(old), anchor_of(head))


def _size(reader: LogReader, head: Anchor | None) -> int:
    if head is None:
        return reader.log.revision
    reader.check_revision(head.size)
    return head.size


def _head(tree: Tree, size: int) -> Anchor:
    return Anchor(size, Mountain.of(size, tree.peaks(size)).root())


def _cell(log: SessionLog, fact: Fact, size: int) -> Cell:
    """Return the newest cell that holds a fact; one that is erased only if there is no other."""
    erased: Cell | None = None
    if 0 < fact.revision <= log.revision:
        log.entry(fact.revision)  # raises if it is removed
    for entry in reversed(log.entries[: max(size + 1 - log.first, 0)]):
        for cell in entry.cells if entry.header.kind is Kind.COMMIT else ():
            numbers = [n for n, one in enumerate(cell.contract.fields) if one.name in fact.fields_of(cell)]
            if not any(not cell.omitted >> number & 1 for number in numbers):
                continue
            if not cell.gone and fact.field not in cell.erased:
                return cell
            erased = erased or cell
    if erased is None:
        raise UnknownFact(
            f"session {log.key.session!r} has no {fact} up to revision {size}",
            hint="`statepact show` lists its facts; a default that no step has set is none",
        )
    return erased


def _check_shown(cell: Cell, fact: Fact, stored: bytes, *, clear: bool) -> None:
    apart = addresses_in(stored)
    if fact.field in apart and is_value_id(apart[fact.field]):
        raise UnknownFact(
            f"{fact} at revision {cell.revision} is encrypted: the log knows only its id, so it proves nothing",
            hint="prove another field of it",
        )
    plain = [
        one.name
        for one in cell.contract.fields
        if one.sensitive and one.name in fields_in(stored) and not (one.name in apart and is_value_id(apart[one.name]))
    ]
    if plain and not clear:
        names = ", ".join(f"{cell.contract.name}.{name}" for name in plain)
        raise SensitiveInClear(
            f"the proof would show {names}, which is sensitive and stored in plain text",
            hint="pass clear=True (--clear) if that is meant",
        )


def _leaf_proof(tree: Tree, entry: Entry, leaves: list[Leaf], number: int, size: int) -> LeafProof:
    leaf = leaves[number]
    return LeafProof(
        revision=entry.revision,
        body=entry.body,
        leaf=number,
        leaves=len(leaves),
        was=leaf.was,
        salt=leaf.salt,
        stored=leaf.stored or b"",
        beside=tuple(leaf_path(digests_of(leaves), number)),
        path=tree.path(entry.revision - 1, size),
    )


async def _redaction(store: Store, log: SessionLog, tree: Tree, cell: Cell, size: int) -> LeafProof:
    """Return the proof of the erasure that left a cell as it is."""
    at = log.erased_at.get((cell.revision, cell.number), 0)
    if not 0 < at <= size:
        raise Deleted(
            f"a part of {cell.contract.name} at revision {cell.revision} was erased after this head",
            hint="take a head from after the erasure",
        )
    entry = log.entry(at)
    return _leaf_proof(tree, entry, leaves_in(entry, await _payload(store, log.key, at)), 0, size)


async def _large(store: Store, key: SessionKey, stored: bytes) -> Mapping[str, object]:
    """Return the large fields of a value, with whose they are."""
    apart = {name: address for name, address in addresses_in(stored).items() if not is_value_id(address)}
    if not apart:
        return {}
    blocks = await store.blocks(key, apart.values())
    if len(blocks) < len(set(apart.values())):
        raise CorruptState(
            f"a large value of session {key.session!r} is missing from the store",
            hint="run `statepact verify` on the session, and restore the store from a backup",
        )
    return {"owner": key.owner, "large": {name: blocks[address].decode() for name, address in apart.items()}}


async def _payload(store: Store, key: SessionKey, revision: int) -> bytes:
    return (await store.payloads(key, [revision])).get(revision, b"")
