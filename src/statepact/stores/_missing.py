"""Which commits a store has lost, named exactly: by receipts that were kept elsewhere.

A log that has lost its end looks whole from inside. Whoever keeps receipts can tell: an entry is there if
the store has its digest at its place, and only then.
"""

from __future__ import annotations

from collections.abc import Iterable

from statepact.errors import CorruptState, Expired
from statepact.ledger._header import pieces_of
from statepact.ledger._key import SessionKey
from statepact.ledger._receipt import Receipt
from statepact.stores._base import Store


async def missing(store: Store, receipts: Iterable[Receipt]) -> list[Receipt]:
    """Return the receipts whose entry is not in the store any more, in the order in which they were given.

    What stands at the place of a lost entry by now, because somebody went on from before it, is another
    entry: its digest says so. Raises `StoreError` if the store cannot be read.
    """
    asked = list(receipts)
    there: dict[SessionKey, dict[int, bytes]] = {}
    for key in dict.fromkeys(receipt.key for receipt in asked):
        try:
            found = await store.headers(key)
        except (CorruptState, Expired):
            found = []
        there[key] = {stored.revision: pieces_of(stored.header).digest for stored in found}
    return [receipt for receipt in asked if there[receipt.key].get(receipt.revision) != receipt.digest]
