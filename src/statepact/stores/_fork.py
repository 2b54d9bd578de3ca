"""A second session that begins as the first one was at a revision, and goes its own way from there.

The fork says where it comes from, and the session it comes from says which forks it has: so an erasure
finds every copy of what it erases (`_copies.py`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from statepact.errors import SetupError
from statepact.ledger import DEFAULT_OWNER, SessionKey, session_key
from statepact.ledger._base_record import retained_record
from statepact.ledger._cells import Entry
from statepact.ledger._claims import Claim
from statepact.ledger._header import Kind, kind_of
from statepact.ledger._log import SessionLog
from statepact.ledger._mountain import Mountain
from statepact.stores._about import about
from statepact.stores._base import Rewrite, Store
from statepact.stores._draft import Draft
from statepact.stores._log_reader import LogReader, unknown
from statepact.stores._new_log import copy_of, exists, new_log
from statepact.stores._open_log import OpenLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A session that was made from another one."""

    owner: str
    session: str
    """Its name."""
    source: str
    """The session that it comes from."""
    revision: int
    """Up to this revision the two are the same."""
    head: str
    """Root over all digests up to there, in hex: that of the source as well."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"session": self.session, "source": self.source, "revision": self.revision, "head": self.head}

    def __str__(self) -> str:
        return f"session {self.session} begins as {self.source} was at revision {self.revision}"


async def fork(
    store: Store,
    session: str,
    new: str,
    *,
    owner: str = DEFAULT_OWNER,
    at: int | None = None,
    log_key: bytes | None = None,
    when: int | None = None,
) -> Fork:
    """Make a session `new` that begins with the entries of `session` up to revision `at`, by default all.

    Runs that were open at that revision can be resumed in the fork: what they had committed is not done
    again, and a step with an effect that had begun ends with `EffectUnknown`, because it may have happened.
    Nobody holds the fork. Encrypted values stay encrypted under their keys, erased ones stay erased. Both
    sessions get an entry that says so, with the time `when` (milliseconds since 1970, by default now).

    `log_key` is that of a log with tags. Raises `UnknownSession`, `UnknownRevision`, `Expired` for a revision
    that is not kept any more, `SessionExists`, `KeyMissing`, `CorruptState` for a damaged log, `StoreError`.
    """
    key, target = session_key(owner, session), session_key(owner, new)
    if key == target:
        raise SetupError("a fork has the name of its session", hint="give it a name of its own")
    opened = await OpenLog.open(store, key, log_key=log_key)
    if not opened.log.entries:
        raise unknown(key)
    at = opened.log.revision if at is None else at
    opened.check_revision(at)
    if await store.headers(target):
        raise exists(target)
    when = time.time_ns() // 1_000_000 if when is None else when
    read = opened.log.revision
    # First, so that an erasure that comes in between knows of the fork.
    noted = (await opened.append(note_of(when, {"forked": {"session": new, "revision": at}}))).revision
    source = opened.log
    if noted > read + 1:
        # Headers of what has been erased meanwhile would still have the salts that are gone.
        source = (await LogReader.at(store, key, noted)).log
    entries = entries_to(source, at)
    copied = await copy_of(store, key, entries)
    head = head_of(source, at).hex()
    record = {"fork": {"session": session, "revision": at, "head": head}, **erased_record(later_claims(source, at))}
    record |= base_record(source)
    entities = await about(store, key, None if at == noted - 1 else entries)
    made = new_log(store, target, copied, [note_of(when, record)], entities=entities, log_key=log_key)
    await made.write(store)
    await _catch_up(store, key, made.log, noted, at, when=when, log_key=log_key)
    return Fork(owner=owner, session=new, source=session, revision=at, head=head)


def entries_to(log: SessionLog, revision: int) -> Sequence[Entry]:
    """Return the entries of a log up to a revision."""
    return log.entries[: max(revision + 1 - log.first, 0)]


def head_of(log: SessionLog, revision: int) -> bytes:
    """Return the head over the entries of a log up to a revision."""
    mountain = Mountain.of(log.base.size, log.base.peaks) if log.base is not None else Mountain()
    for entry in entries_to(log, revision):
        if entry.header.kind is not Kind.BASE:
            mountain.append(entry.header.digest)
    return mountain.root()


def later_claims(log: SessionLog, revision: int) -> list[Claim]:
    """Return what was erased of the entries up to a revision by entries after it."""
    return [
        claim for place, claim in log.claims.items() if place[0] <= revision and log.erased_at.get(place, 0) > revision
    ]


def erased_record(claims: Collection[Claim]) -> dict[str, Any]:
    """Return what a record says about what is missing."""
    return {"erased": [claim.as_dict() for claim in claims]} if claims else {}


def base_record(log: SessionLog) -> dict[str, Any]:
    """Return what a log that begins with a base says about it: the note of the retention may not be copied."""
    base = log.base_entry
    return retained_record(base.revision, base.header.digest) if base is not None else {}


def note_of(when: int, record: dict[str, Any]) -> Draft:
    """Return an entry about the session as a whole."""
    return Draft(kind=Kind.NOTE, at=when, run="", step="", extra=orjson.dumps(record))


async def _catch_up(
    store: Store, key: SessionKey, made: SessionLog, known: int, at: int, *, when: int, log_key: bytes | None
) -> None:
    """Erase in a fork that was just made what was erased in its source while it was copied."""
    if not any(kind_of(one.header) is Kind.ERASURE for one in await store.headers(key, after=known)):
        return
    source = (await LogReader.at(store, key, None)).log
    places = {place for place, revision in source.erased_at.items() if revision > known and place[0] <= at}
    if not places:
        return
    revisions = sorted({revision for revision, _ in places})
    copied = await copy_of(store, key, [source.entry(revision) for revision in revisions])
    fork = await OpenLog.open(store, made.key, log_key=log_key)
    ours = [fork.log.entry(revision) for revision in revisions]
    gone = set((await copy_of(store, made.key, ours)).blocks)
    if gone:
        gone -= (await copy_of(store, key, entries_to(source, at))).blocks.keys()
    change = Rewrite(
        # The tag is the fork's own.
        replace={
            one.revision: (
                replace(one.header, salt=source.entry(one.revision).header.salt).stored(one.body),
                copied.payloads[one.revision],
            )
            for one in ours
        },
        blocks=dict.fromkeys(gone),
        forget=None,  # which of them were named by what is gone is not known any more
    )
    record = {
        "by": "fork",
        "reason": f"erased in session {key.session!r} meanwhile",
        **erased_record([source.claims[place] for place in sorted(places)]),
    }
    await fork.rewrite(
        change, Draft(kind=Kind.ERASURE, at=when, run="", step="", extra=orjson.dumps(record), keep=None)
    )
