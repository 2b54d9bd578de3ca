"""Sealing sensitive values anew under the current key, without a change to any log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from statepact.errors import Behind, CorruptState
from statepact.ledger import DEFAULT_OWNER, SessionKey, session_key
from statepact.ledger._blocks import is_value_id
from statepact.ledger._header import Kind, kind_of
from statepact.ledger._log import SessionLog
from statepact.ledger._vault import KeyRing, key_of
from statepact.stores._base import Rewrite, Store
from statepact.stores._leaves import addresses_of, leaves_in

PORTION = 500
"""Values that are changed together, in one transaction."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation has found and done."""

    changed: int = 0
    """Values that are now under the current key and were not before."""
    kept: int = 0
    """Values that had been under it."""

    def __add__(self, other: Rotation) -> Rotation:
        return Rotation(self.changed + other.changed, self.kept + other.kept)


async def rotate(store: Store, keys: KeyRing, *, owner: str = DEFAULT_OWNER, session: str | None = None) -> Rotation:
    """Seal the sensitive values of a session, or of all sessions of an owner, under the current key.

    No entry of a log changes, so every digest stays. Runs may go on meanwhile. A rotation that is cut off
    loses nothing: start it again, and take the old key out of the ring once one has ended. The store may
    hold the old bytes until it writes over their place, as after every change.

    Raises `KeyMissing` for a value whose key is not in the ring, `CorruptState` for one that is damaged.
    """
    names = [session] if session is not None else [info.session for info in await store.sessions(owner)]
    total = Rotation()
    for name in names:
        total += await _session(store, session_key(owner, name), keys)
    return total


async def _session(store: Store, key: SessionKey, keys: KeyRing) -> Rotation:
    headers = await store.headers(key)
    log = SessionLog(key)
    total = Rotation()
    waiting: set[bytes] = set()
    for stored in headers:
        based = not log.entries and kind_of(stored.header) is Kind.BASE
        if stored.revision != log.revision + 1 and not based:
            raise CorruptState(
                f"session {key.session!r} has no revision {log.revision + 1}",
                hint="run `statepact verify` on the session",
            )
        entry = log.read(stored.revision, stored.header)
        if any(field.sensitive for cell in entry.cells for field in cell.contract.fields):
            payload = (await store.payloads(key, [entry.revision])).get(entry.revision)
            waiting.update(filter(is_value_id, addresses_of(entry, leaves_in(entry, payload))))
        if len(waiting) >= PORTION:
            total += await _values(store, key, keys, waiting)
            waiting.clear()
    return total + await _values(store, key, keys, waiting) if waiting else total


async def _values(store: Store, key: SessionKey, keys: KeyRing, ids: Iterable[bytes]) -> Rotation:
    ids = tuple(ids)
    while True:
        # In this order: what is erased after the revision was read makes the rewrite fail, and does
        # not come back with it.
        headers = await store.headers(key, after=0)
        rows = await store.blocks(key, ids)
        old = {value_id: row for value_id, row in rows.items() if not _is_current(keys, row)}
        if not old:
            return Rotation(0, len(rows))
        try:
            await store.rewrite(key, Rewrite(blocks=_anew(key.owner, keys, old)), after=headers[-1].revision)
        except Behind:
            continue
        return Rotation(len(old), len(rows) - len(old))


def _is_current(keys: KeyRing, row: bytes) -> bool:
    return key_of(row) == keys.current and keys.fits(row)


def _anew(owner: str, keys: KeyRing, rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {value_id: keys.seal(owner, value_id, keys.open(owner, value_id, row)) for value_id, row in rows.items()}
