"""Checking the log of a session where it is stored."""

from __future__ import annotations

from statepact.ledger import SessionKey
from statepact.ledger._vault import KeyRing
from statepact.ledger._verify import Fault, LogCheck, Verdict
from statepact.stores._base import Store

__all__ = ["Fault", "Verdict", "verify"]

PORTION = 100
"""Entries whose values are read together."""


async def verify(store: Store, key: SessionKey, *, keys: KeyRing | None = None) -> Verdict:
    """Compute every digest of a session anew and return what was found; see `Verdict`.

    With `keys` each sensitive value is opened; without, only its form is looked at. Damaged entries are
    faults of the verdict. Raises `StoreError` if the store cannot be read, and
    `CorruptState` if it is damaged so that it cannot even list its entries.
    """
    check = LogCheck(key.owner, keys=keys)
    headers = await store.headers(key)
    good: set[bytes] = set()
    for start in range(0, len(headers), PORTION):
        portion = headers[start : start + PORTION]
        payloads = await store.payloads(key, [stored.revision for stored in portion])
        for stored in portion:
            addresses = check.entry(stored.revision, stored.header, payloads.get(stored.revision))
            unseen = [address for address in addresses if address not in good]
            if unseen:
                blocks = await store.blocks(key, unseen)
                good |= check.blocks(stored.revision, {address: blocks.get(address) for address in unseen})
    return check.verdict()
