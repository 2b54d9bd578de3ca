"""A session that begins with entries of another log: what a fork and an import write, in one step.

Entries are taken over byte for byte, so their digests, the head over them and the seals in them stay
what they were. Only tags are made anew: they belong to one session, so that entries of another one
never pass for its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from statepact.errors import Behind, CorruptState, KeyMissing, SessionExists
from statepact.ledger import SessionKey
from statepact.ledger._base_record import base_of
from statepact.ledger._cells import Entry
from statepact.ledger._header import Kind, Pieces, kind_of, pieces_of
from statepact.ledger._keyed import key_of_session, tag_of
from statepact.ledger._lifetime import USUAL_KEEP
from statepact.ledger._log import SessionLog
from statepact.ledger._mountain import Mountain
from statepact.stores._base import Entity, EntityUse, NewEntry, Rewrite, Store, StoredHeader
from statepact.stores._draft import Draft
from statepact.stores._leaves import addresses_of, leaves_in
from statepact.stores._open_log import OpenLog

_TOGETHER = 200
"""Entries whose values are read together."""


class Copied(NamedTuple):
    """Entries as they are stored, and the large and sensitive values that they name."""

    headers: Sequence[StoredHeader]
    payloads: Mapping[int, bytes]
    blocks: Mapping[bytes, bytes]


async def copy_of(store: Store, key: SessionKey, entries: Sequence[Entry]) -> Copied:
    """Return the stored bytes of entries that were read before.

    Raises `CorruptState` if one is not what was committed: what is damaged must not be made to look sound.
    """
    payloads: dict[int, bytes] = {}
    blocks: dict[bytes, bytes] = {}
    for start in range(0, len(entries), _TOGETHER):
        some = entries[start : start + _TOGETHER]
        found = await store.payloads(key, [entry.revision for entry in some])
        wanted: set[bytes] = set()
        for entry in some:
            payload = payloads[entry.revision] = found.get(entry.revision, b"")
            if not entry.agrees_with(payload):
                raise CorruptState(
                    f"revision {entry.revision} of session {key.session!r} is not what was committed",
                    hint="run `statepact verify` on the session, and restore the store from a backup",
                )
            wanted.update(addresses_of(entry, leaves_in(entry, payload)))
        wanted -= blocks.keys()
        blocks.update(await store.blocks(key, wanted) if wanted else {})
        if not wanted <= blocks.keys():
            raise CorruptState(
                f"a large or sensitive value of session {key.session!r} is missing from the store",
                hint="run `statepact verify` on the session, and restore the store from a backup",
            )
    headers = [StoredHeader(entry.revision, entry.header.stored(entry.body)) for entry in entries]
    return Copied(headers, payloads, blocks)


class NewLog(NamedTuple):
    """A session that is ready to be written."""

    log: SessionLog
    """Its entries."""
    entries: Sequence[NewEntry]
    first: int
    """Revision of the first one."""

    async def write(self, store: Store) -> None:
        """Make the session, all or nothing. Raises `SessionExists` and `StoreError`."""
        key = self.log.key
        try:
            if self.first > 1:
                await store.rewrite(key, Rewrite(first=self.first), self.entries, after=0)
            else:
                await store.append(key, self.entries, after=0)
        except Behind:
            raise exists(key) from None


def new_log(
    store: Store,
    key: SessionKey,
    copied: Copied,
    notes: Sequence[Draft],
    *,
    entities: Iterable[EntityUse] = (),
    log_key: bytes | None = None,
) -> NewLog:
    """Return a session of copied entries and notes about where they come from; nothing is written yet.

    Raises `KeyMissing` for entries with tags without `log_key`, and `CorruptState` for what is no log.
    """
    log = OpenLog(store, key, log_key=log_key)
    tag_key = key_of_session(log_key, key) if log_key is not None else None
    seen: set[bytes] = set()
    new: list[NewEntry] = []
    for stored in copied.headers:
        header = _with_tag(log.log, stored, tag_key)
        entry = log.log.read(stored.revision, header)
        payload = copied.payloads[stored.revision]
        blocks = [(a, copied.blocks[a]) for a in sorted(addresses_of(entry, leaves_in(entry, payload)) - seen)]
        seen.update(address for address, _ in blocks)
        new.append(NewEntry(header, payload, tuple(blocks), keep=USUAL_KEEP))
    for place, about in _uses_by_entry(log.log.entries, entities).items():
        at = log.log.entries[place].header.at
        new[place] = replace(new[place], entities=tuple(about), at=at)
    log._known_names = len(log.log.names)
    for note in notes:
        entry_of_note = log.entry_of(note)
        log.log.read(log.log.revision + 1, entry_of_note.header)
        log._known_names = len(log.log.names)
        new.append(entry_of_note)
    return NewLog(log.log, new, copied.headers[0].revision if copied.headers else 1)


def exists(key: SessionKey) -> SessionExists:
    """Return the error for a session that is there although it is to be made."""
    return SessionExists(
        f"owner {key.owner!r} has a session {key.session!r} already", hint="give the new one another name"
    )


def _with_tag(log: SessionLog, stored: StoredHeader, tag_key: bytes | None) -> bytes:
    """Return a header with the tag that its entry has behind what the log holds so far."""
    pieces = pieces_of(stored.header)
    if not pieces.tag:
        return stored.header
    if tag_key is None:
        raise KeyMissing(
            f"what session {log.key.session!r} is to begin with is kept under a log key, and none was given",
            hint="pass log_key=, or set STATEPACT_LOG_KEY",
        )
    return pieces.digest + pieces.salt + pieces.body + tag_behind(log, stored, tag_key)


def tag_behind(log: SessionLog, stored: StoredHeader, tag_key: bytes) -> bytes:
    """Return the tag that an entry has behind what the log holds so far."""
    pieces = pieces_of(stored.header)
    return tag_of(tag_key, _before(log, stored, pieces), pieces.digest, stored.revision)


def _before(log: SessionLog, stored: StoredHeader, pieces: Pieces) -> bytes:
    if kind_of(stored.header) is not Kind.BASE or log.entries:
        return log.previous_tag(stored.revision)
    base = base_of(pieces.body)
    return base.tag or Mountain.of(base.size, base.peaks).root()


def _uses_by_entry(entries: Sequence[Entry], entities: Iterable[EntityUse]) -> dict[int, list[Entity]]:
    """Put each entity beside the entry of its last use, by its place, so that it has the same time there."""
    times = list(accumulate((entry.header.at for entry in entries), max))
    found: dict[int, list[Entity]] = {}
    for use in entities if times else ():
        place = min(bisect_left(times, use.at), len(times) - 1)
        found.setdefault(place, []).append(Entity(use.kind, use.value))
    return found
