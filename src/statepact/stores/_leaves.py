"""The stored leaves of a whole session: what erasure, retention and proofs work on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from statepact.errors import CorruptState
from statepact.ledger import SessionKey
from statepact.ledger._blocks import addresses_in
from statepact.ledger._cells import Entry
from statepact.ledger._digest import entry_digest
from statepact.ledger._erased import Leaf, decode_leaves, digests_of, is_erased, whole_leaves
from statepact.ledger._header import Kind
from statepact.ledger._log import SessionLog
from statepact.ledger._old_heads import addresses_of_digests
from statepact.stores._base import Store

PORTION = 200
"""Entries whose values are read together."""


async def leaves_of(store: Store, key: SessionKey, log: SessionLog) -> dict[int, list[Leaf]]:
    """Return the leaves of all entries by revision.

    Raises `CorruptState` if one is not what was committed: what is damaged must not be made to look sound.
    """
    found: dict[int, list[Leaf]] = {}
    for start in range(0, len(log.entries), PORTION):
        some = log.entries[start : start + PORTION]
        payloads = await store.payloads(key, [entry.revision for entry in some])
        for entry in some:
            leaves = leaves_in(entry, payloads.get(entry.revision))
            if entry_digest(entry.body, digests_of(leaves)) != entry.header.digest:
                raise CorruptState(
                    f"revision {entry.revision} of session {key.session!r} is not what was committed",
                    hint="run `statepact verify` on the session, and restore the store from a backup",
                )
            found[entry.revision] = leaves
    return found


def leaves_in(entry: Entry, payload: bytes | None) -> list[Leaf]:
    """Return the leaves of one entry from its payload."""
    payload = payload or b""
    if is_erased(payload):
        return decode_leaves(payload)
    values = [payload[cell.offset : cell.offset + cell.size] for cell in entry.cells]
    extra = payload[sum(cell.size for cell in entry.cells) :]
    return whole_leaves(entry.header.salt, [*values, extra] if extra else values)


def record_of(entry: Entry, leaves: list[Leaf]) -> Mapping[str, Any]:
    """Return the record beside the values of an entry."""
    raw = leaves[-1].stored if len(leaves) > len(entry.cells) else b""
    try:
        record: Any = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError:
        record = None
    if not isinstance(record, dict):
        raise CorruptState(f"the record of revision {entry.revision} cannot be read")
    return record


def addresses_of(entry: Entry, leaves: list[Leaf]) -> set[bytes]:
    """Return the addresses of the large and sensitive values of an entry; of a base also those of its digests."""
    cells = [leaf.stored for leaf in leaves[: len(entry.cells)] if leaf.stored]
    found = {address for stored in cells for address in addresses_in(stored).values()}
    if entry.header.kind is Kind.BASE:
        found.update(addresses_of_digests(record_of(entry, leaves)))
    return found
