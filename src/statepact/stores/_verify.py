"""Checking the log of a session where it is stored."""

from __future__ import annotations

from statepact.ledger import SessionKey
from statepact.ledger._anchor import anchor_of
from statepact.ledger._keyed import key_of_session
from statepact.ledger._vault import KeyRing
from statepact.ledger._verify import Fault, LogCheck, Verdict
from statepact.stores._base import Store

__all__ = ["Fault", "Verdict", "verify"]

PORTION = 100
"""Entries whose values are read together."""


async def verify(
    store: Store,
    key: SessionKey,
    *,
    keys: KeyRing | None = None,
    log_key: bytes | None = None,
    anchor: str | None = None,
) -> Verdict:
    """Compute every digest of a session anew and return what was found; see `Verdict`.

    `log_key` is the key of the log: its tags are checked, too. `anchor` is a head that was kept
    elsewhere, `SIZE:HEX` as an earlier `Verdict.anchor` has it. Raises `SetupError` for a key that is
    too short and an anchor that is none.

    With `keys` each sensitive value is opened; without, only its form is looked at. Damaged entries are
    faults of the verdict. Raises `StoreError` if the store cannot be read, and
    `CorruptState` if it is damaged so that it cannot even list its entries.
    """
    check = LogCheck(
        key.owner,
        keys=keys,
        key=key_of_session(log_key, key) if log_key is not None else None,
        anchor=anchor_of(anchor) if anchor is not None else None,
    )
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
