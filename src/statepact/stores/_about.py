"""What a session was about at a revision, from the index and from what stands in its entries."""

from __future__ import annotations

from collections.abc import Sequence

from statepact.ledger import SessionKey
from statepact.ledger._cells import Entry
from statepact.stores._base import EntityUse, Store
from statepact.stores._leaves import leaves_in
from statepact.stores._remains import fields_of, texts_in

MOST_ENTITIES = 1_000_000

_TOGETHER = 200
"""Entries whose values are read together."""


async def about(store: Store, key: SessionKey, entries: Sequence[Entry] | None) -> Sequence[EntityUse]:
    """Return what a session is about, or was at the end of the entries that are given.

    The index says when something was spoken of last, and not when first. So of what was spoken of after
    these entries, what stands in one of their values is taken, in whatever spelling.
    """
    uses = [use for use in await store.entities(key.owner, most=MOST_ENTITIES) if use.session == key.session]
    if entries is None or not uses:
        return uses
    last = max((entry.header.at for entry in entries), default=0)
    sought = {plain(use.value) for use in uses if use.at > last}
    found: set[str] = set()
    for start in range(0, len(entries) if sought else 0, _TOGETHER):
        some = entries[start : start + _TOGETHER]
        payloads = await store.payloads(key, [entry.revision for entry in some])
        for entry in some:
            for leaf in leaves_in(entry, payloads.get(entry.revision))[: len(entry.cells)]:
                text = plain("\n".join(t for v in (await fields_of(store, key, leaf)).values() for t in texts_in(v)))
                found.update(value for value in sought if value in text)
    return [use for use in uses if use.at <= last or plain(use.value) in found]


def plain(text: str) -> str:
    """Return a text as ids are compared: an index may keep one in another spelling, without its dashes."""
    return "".join(filter(str.isalnum, text.casefold()))
