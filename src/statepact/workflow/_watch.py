"""Following a session: what others commit, as it comes.

A notice of a store is a hint and may get lost; the revision decides. So whoever follows asks for
everything after the revision it has seen, and asks again within a bound however silent the line is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from statepact.ledger import DEFAULT_OWNER, SessionKey, session_key
from statepact.ledger._vault import KeyRing
from statepact.ledger._view import EntryView
from statepact.stores._base import Store
from statepact.stores._log_reader import LogReader
from statepact.workflow._store_choice import chosen_store

BOUND = 5.0
"""Seconds after which a follower looks by itself, if it was told nothing."""


async def watch(
    session: str,
    *,
    store: Store | str,
    owner: str = DEFAULT_OWNER,
    after: int = 0,
    bound: float = BOUND,
    keys: KeyRing | None = None,
) -> AsyncIterator[EntryView]:
    """Yield the entries of a session after a revision, those that are there and those to come.

    ```python
    async for entry in watch("s-1", store=store, after=12):
        print(entry.revision, entry.writer, [cell.values for cell in entry.cells])
    ```

    It never ends by itself: leave the loop, or put it under a timeout. Each entry comes once, in order,
    whatever notices get lost or come twice; `bound` is the most seconds by which one can be late.
    Sensitive values that are encrypted read `•••` unless `keys` open them. The others are in
    `cell.values`: mask them before you show them.

    Raises `StoreError` if the store is away; go on with the last revision you have seen.
    """
    opened, ours = chosen_store(store)
    try:
        async for entry in entries_of(opened, session_key(owner, session), after=after, bound=bound, keys=keys):
            yield entry
    finally:
        if ours:
            await opened.aclose()


async def entries_of(
    store: Store, key: SessionKey, *, after: int, bound: float = BOUND, keys: KeyRing | None = None
) -> AsyncIterator[EntryView]:
    """Yield the entries of a session after a revision, as `watch` does."""
    log = LogReader(store, key, keys=keys)
    while True:
        await log.read_on()
        async for entry in log.entries(after=after):
            after = entry.revision
            yield entry
        after = max(after, log.log.revision)
        await store.changed(key, after=log.log.revision, within=bound)
