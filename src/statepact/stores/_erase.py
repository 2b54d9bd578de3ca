"""Erasing: values go, the log still verifies, and it says who, when and why."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import orjson

from statepact.errors import Behind, SetupError, UnknownSession
from statepact.ledger import DEFAULT_OWNER, SessionKey, session_key
from statepact.ledger._blocks import fields_in, without
from statepact.ledger._cells import Entry
from statepact.ledger._claims import Claim
from statepact.ledger._digest import new_salt
from statepact.ledger._erased import NO_SALT, Leaf, encode_leaves
from statepact.ledger._erasure import Chosen, Fact, Plan, plan_of, safe_record
from statepact.ledger._header import Kind
from statepact.ledger._log import SessionLog
from statepact.stores._about import about, plain
from statepact.stores._base import Entity, Rewrite, Store
from statepact.stores._copies import copies_of
from statepact.stores._draft import Draft
from statepact.stores._leaves import addresses_of, leaves_of, record_of
from statepact.stores._open_log import OpenLog
from statepact.stores._remains import remains_of, texts_of

MOST_TRIES = 20
"""Tries against others who commit to the session meanwhile."""


@runtime_checkable
class Scrubs(Protocol):
    """A store that keeps bytes it has let go of, until it is told to write over them."""

    async def scrub(self) -> bool:
        """Write over what was deleted; false if somebody who reads an old state is in the way."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What an erasure has done."""

    values: int = 0
    """Values that are gone."""
    derived: int = 0
    """Committed outputs that went because they were made from others."""
    kept: int = 0
    """Committed outputs that were made from what is gone, and stay because that was asked for."""
    sessions: tuple[str, ...] = ()
    """The sessions in which something was erased."""
    remains: tuple[str, ...] = ()
    """Places where one of the erased values still stands, by itself or in a text: nothing says that it came
    from there. In names of runs, steps and branches nothing is ever erased."""
    copies: tuple[str, ...] = ()
    """Sessions that still hold copies of something that is erased in one of these: forks, and what they were
    forked from. Erase with `forks=True` to erase it there, too."""
    scrubbed: bool = True
    """Whether the store has also written over the bytes it had let go of. If not, somebody was reading an old
    state: call `scrub` on the store once they have ended."""

    def __add__(self, other: Erasure) -> Erasure:
        return Erasure(
            values=self.values + other.values,
            derived=self.derived + other.derived,
            kept=self.kept + other.kept,
            sessions=self.sessions + other.sessions,
            remains=self.remains + other.remains,
            copies=tuple(dict.fromkeys(self.copies + other.copies)),
            scrubbed=self.scrubbed and other.scrubbed,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "values": self.values,
            "derived": self.derived,
            "kept": self.kept,
            "sessions": list(self.sessions),
            "remains": list(self.remains),
            "copies": list(self.copies),
            "scrubbed": self.scrubbed,
        }

    def __str__(self) -> str:
        lines = [f"{_count(self.values, 'value')} erased in {_count(len(self.sessions), 'session')}"]
        if self.derived:
            lines[0] += f", with {_count(self.derived, 'output')} made from them"
        if self.kept:
            lines.append(f"  kept, as asked: {_count(self.kept, 'output')} made from them")
        lines += [f"  the same value still stands in {place}" for place in self.remains]
        lines += [f"  session {name} has a copy of something that is erased here" for name in self.copies]
        if not self.scrubbed:
            lines.append("  the file still holds the old bytes, because somebody reads an old state: erase again later")
        return "\n".join(lines)


async def erase(
    store: Store,
    *,
    owner: str = DEFAULT_OWNER,
    session: str | None = None,
    fact: str | None = None,
    by: str,
    reason: str,
    keep_derived: bool = False,
    forks: bool = False,
    log_key: bytes | None = None,
    at: int | None = None,
) -> Erasure:
    """Erase values for good: of one fact, of a session, or of an owner.

    `fact` is `Order.phone` or `Order`, or at one revision of a session `Order.phone@7`; without it all values
    go. It is looked for in `session`, and without one in all sessions of `owner`. What steps have committed
    after they were given an erased value goes, too; `keep_derived` keeps it, and the log says so.

    Digests stay, so the log verifies; salts go, so no digest helps anybody who guesses. `by` and `reason`
    are committed with the time (`at`, milliseconds since 1970) and the places: they must hold no value.
    Forks of a session, and what it was forked from, have copies: `copies` of the result names those sessions.
    With `forks` the copies go, too, with everything that was made from them there.

    Readers get `Deleted`. Each session is changed in one step or not at all: an erasure of an owner that
    is cut off is continued by calling it again. `log_key` is that of logs with tags.

    Raises `UnknownSession`, `SetupError` for a `fact` of another form or that no session ever had,
    `CorruptState` for a damaged log, and `StoreError`.
    """
    if not by or not reason:
        raise SetupError("an erasure needs who and why", hint="pass by= and reason=, without any value in them")
    what = Fact.of(fact) if fact is not None else None
    if what is not None and what.revision and session is None:
        raise SetupError("a revision is one of a session", hint="pass session=, or name the fact without @REVISION")
    names = [session] if session is not None else [info.session for info in await store.sessions(owner)]
    total = Erasure()
    seen = _Seen()
    for name in names:
        job = _Job(store, session_key(owner, name), what, by=by, reason=reason, at=at, seen=seen)
        total += await job.run(keep_derived=keep_derived, log_key=log_key)
    if what is not None and not seen.chosen:
        raise SetupError(
            f"session {session!r} has no {what}" if session is not None else f"no session of {owner!r} has {what}",
            hint=f"there is: {seen}",
        )
    if session is not None:  # forks belong to the owner of their session, so all of them are erased otherwise
        key = session_key(owner, session)
        if forks:
            async for other, copies in copies_of(store, key):
                job = _Job(store, other, copies, by=by, reason=reason, at=at)
                total += await job.run(keep_derived=keep_derived, log_key=log_key)
        total += Erasure(copies=tuple([other.session async for other, _ in copies_of(store, key)]))
    if isinstance(store, Scrubs):
        total = replace(total, scrubbed=await store.scrub())
    return total


class _Seen:
    """Which facts there are, so that who misspells one does not believe that it is gone."""

    def __init__(self) -> None:
        self.chosen = False
        self._names: dict[str, str] = {}

    def note(self, log: SessionLog, chosen: Chosen) -> None:
        self.chosen = self.chosen or log.base is not None  # of what was removed, names are not all known
        for cell in (cell for entry in log.entries for cell in entry.cells):
            self.chosen = self.chosen or bool(chosen.fields_of(cell))
            self._names[cell.contract.name] = ", ".join(field.name for field in cell.contract.fields)

    def __str__(self) -> str:
        return "; ".join(f"{name} ({fields})" for name, fields in sorted(self._names.items())[:20]) or "no fact"


class _Job:
    """The erasure in one session."""

    def __init__(
        self,
        store: Store,
        key: SessionKey,
        fact: Chosen | None,
        *,
        by: str,
        reason: str,
        at: int | None,
        seen: _Seen | None = None,
    ) -> None:
        self._store = store
        self._key = key
        self._fact = fact
        self._by = by
        self._reason = reason
        self._at = at
        self._seen = seen

    async def run(self, *, keep_derived: bool, log_key: bytes | None) -> Erasure:
        for left in range(MOST_TRIES - 1, -1, -1):
            log = await OpenLog.open(self._store, self._key, log_key=log_key)
            if not log.log.entries:
                raise UnknownSession(f"owner {self._key.owner!r} has no session {self._key.session!r}")
            if self._seen is not None and self._fact is not None:
                self._seen.note(log.log, self._fact)
            try:
                return await self._once(log, keep_derived)
            except Behind:
                if not left:
                    raise
        raise AssertionError

    async def _once(self, log: OpenLog, keep_derived: bool) -> Erasure:
        leaves = await leaves_of(self._store, self._key, log.log)
        plan = plan_of(
            log.log,
            lambda entry: record_of(entry, leaves[entry.revision]),
            fact=self._fact,
            keep_derived=keep_derived,
        )
        changed, claims = _changed(log, leaves, plan)
        if not claims:
            return Erasure(kept=len(plan.kept))
        old = {revision: leaves[revision] for revision in changed}
        left = {**leaves, **changed}
        gone = _addresses(log, old) - _addresses(log, left)
        texts = await texts_of(self._store, self._key, log.log, old, changed)
        change = Rewrite(
            replace={
                entry.revision: (
                    _header(entry),
                    encode_leaves(changed[entry.revision], base=entry.header.kind is Kind.BASE),
                )
                for entry in log.log.entries
                if entry.revision in changed
            },
            blocks=dict.fromkeys(gone),
            forget=await self._entities(texts),
        )
        values = sum(len(claim.fields) for claim in claims)
        record = {
            "by": self._by,
            "reason": self._reason,
            "what": str(self._fact or "session"),
            "derived": len(plan.derived),
            "kept": len(plan.kept),
            "erased": [claim.as_dict() for claim in claims],
        }
        at = self._at if self._at is not None else time.time_ns() // 1_000_000
        draft = Draft(kind=Kind.ERASURE, at=at, run="", step="", extra=orjson.dumps(record), keep=None)
        await log.rewrite(change, draft)
        return Erasure(
            values=values,
            derived=len(plan.derived),
            kept=len(plan.kept),
            sessions=(self._key.session,),
            remains=await remains_of(self._store, self._key, log.log, left, texts),
        )

    async def _entities(self, texts: Iterable[str]) -> Iterable[Entity] | None:
        """Return what the session is not about any more."""
        if self._fact is None:
            return None
        text = "\n".join(texts)
        spelled = plain(text)
        ours = [Entity(use.kind, use.value) for use in await about(self._store, self._key, None)]
        return [entity for entity in ours if entity.value in text or plain(entity.value) in spelled]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _changed(log: OpenLog, leaves: Mapping[int, list[Leaf]], plan: Plan) -> tuple[dict[int, list[Leaf]], list[Claim]]:
    """Return the new leaves of entries that change, and what the log will say about it."""
    changed: dict[int, list[Leaf]] = {}
    claims: list[Claim] = []
    for entry in log.log.entries:
        new = list(leaves[entry.revision])
        found: list[Claim] = []
        for cell in entry.cells:
            place, number = (cell.revision, cell.number), cell.leaf_number
            if place in plan.fields or place in plan.whole:
                leaf, fields = leaf_without(new[number], number, plan.fields.get(place), place in plan.whole)
                if leaf != new[number]:
                    new[number] = leaf
                    found.append(Claim(*place, fields, leaf.now(number)))
        if entry.revision in plan.records and len(new) > len(entry.cells):
            number = len(entry.cells)
            record = record_of(entry, new)
            safe = safe_record(record)
            if safe != record:
                left = Leaf(
                    orjson.dumps(safe) if safe else None, new_salt() if safe else b"", new[number].digest(number)
                )
                new[number] = left
                found.append(Claim(entry.revision, number, frozenset(), left.now(number)))
        if found:
            changed[entry.revision] = new
            claims += found
    return changed, claims


def leaf_without(leaf: Leaf, number: int, fields: frozenset[str] | None, whole: bool) -> tuple[Leaf, frozenset[str]]:
    """Return what is left of a cell, and which of its fields are gone."""
    if leaf.stored is None:
        return leaf, frozenset()
    there = fields_in(leaf.stored)
    gone = there if whole else there & (fields or frozenset())
    if not gone and not whole:
        return leaf, frozenset()
    if gone == there:
        return Leaf(None, was=leaf.digest(number)), gone
    return Leaf(without(leaf.stored, gone), new_salt(), leaf.digest(number)), gone


def _header(entry: Entry) -> bytes:
    """Return the header of an entry without its salt."""
    return replace(entry.header, salt=NO_SALT).stored(entry.body)


def _addresses(log: OpenLog, leaves: Mapping[int, list[Leaf]]) -> set[bytes]:
    entries = (entry for entry in log.log.entries if entry.revision in leaves)
    return {address for entry in entries for address in addresses_of(entry, leaves[entry.revision])}
