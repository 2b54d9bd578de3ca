"""What the scripts take: a claim and entries as flat lists of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statepact.stores._base import Entity, Hold, NewEntry
from statepact.stores._redis_keys import pack

_NOBODY = (b"", b"", b"0", b"1", b"")


def claim_of(hold: Hold | None) -> Sequence[Any]:
    """Return a hold as the scripts take it."""
    if hold is None:
        return _NOBODY
    span = max(0, round(hold.seconds * 1000)) if hold.seconds <= 0 else max(1, round(hold.seconds * 1000))
    return (hold.run.encode(), hold.holder.encode(), span, b"1" if hold.claim else b"0", hold.succeeds.encode())


def columns_of(entries: Sequence[NewEntry]) -> list[Any]:
    """Return entries as the scripts take them."""
    blocks = [block for entry in entries for block in entry.blocks]
    entities: list[tuple[Entity, int]] = [(entity, entry.at) for entry in entries for entity in entry.entities]
    values: list[Any] = [len(entries), len(blocks), len(entities)]
    for entry in entries:
        values += (entry.header, entry.payload)
    for address, data in blocks:
        values += (b"b" + address, data)
    for entity, at in entities:
        values += (pack(*entity), at)
    return values
