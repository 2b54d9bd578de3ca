"""Finding again what a customer spoke of earlier: by its id or the end of it, by when, by "the last one".

The store's index says in which sessions an entity was spoken of; what is offered is read from the logs
of these sessions. So an index row whose session, run or value is gone leads to nothing and misleads
nobody. Nothing is guessed: what fits a request in more than one way becomes a question.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Generic, TypeVar

from pydantic_core import from_json

from statepact.contracts import Contract, check_version
from statepact.contracts._entities import id_kinds, ids_of, kind_of
from statepact.errors import Deleted, Expired, VersionMismatch
from statepact.ledger import REQUEST_STEP, Cell, session_key
from statepact.ledger._key import INSIDE
from statepact.meaning import normal_id
from statepact.meaning._asked import Asked, asked_in
from statepact.stores._base import EntityUse
from statepact.stores._open_log import OpenLog
from statepact.workflow._entities import FindEntities
from statepact.workflow._recalled import Candidate, Recalled, question_for, quote_of
from statepact.workflow._run_scope import RunScope, value_of

C = TypeVar("C", bound=Contract)

MOST_SESSIONS = 100
"""Sessions, the latest first, in which is looked for something that a request does not name in full."""


@dataclass(frozen=True, slots=True)
class _Use(Generic[C]):
    """One commit of a value about something."""

    id: str
    keys: frozenset[str]
    """All ids of the value, as they are compared."""
    value: C
    log: OpenLog
    cell: Cell
    at: int


async def recall(scope: RunScope, contract: type[C], request: str, zone: tzinfo = UTC) -> Recalled[C]:
    """Return which value of earlier runs of the owner a request means; see `Context.recall`."""
    kinds = set(id_kinds(contract)) or {kind_of(contract.contract_name)}
    words = {kind.replace("_", " ") for kind in (*kinds, kind_of(contract.contract_name))}
    asked = asked_in(request, scope.clock.now(), zone, things=tuple(sorted(words)))
    hits, whole = await _hits(scope, kinds, asked)
    search = _Search(scope, contract, kinds)
    uses: dict[str, list[_Use[C]]] = {}
    async for use in search.uses(hits):
        uses.setdefault(normal_id(use.id), []).append(use)
    chosen, sure = _narrowed(uses, asked)
    sure = sure and not (asked.another and (asked.ids or asked.newest is not None))
    if not asked.ids and not whole and len(chosen) == 1 and asked.newest is None and not asked.spans:
        sure = False  # it is the only one among those that were looked at
    candidates = [await _candidate(use, zone) for use in chosen]
    alone = sure and len(candidates) == 1
    return Recalled(
        candidates=tuple(candidates),
        is_sure=sure,
        question="" if alone else question_for(candidates, request),
        unread=search.unread,
    )


async def _hits(scope: RunScope, kinds: Iterable[str], asked: Asked) -> tuple[list[EntityUse], bool]:
    """Return what the index knows of the owner, the latest use first, and whether that is all of it."""
    store, owner = scope.log.store, scope.log.key.owner
    named = [
        use
        for kind in sorted(kinds)
        for value in asked.ids
        for use in await store.entities(owner, kind=kind, value=value, most=MOST_SESSIONS)
    ]
    if named:
        return named, True  # in full, so nothing else can be meant
    latest = [await store.entities(owner, kind=kind, most=MOST_SESSIONS) for kind in sorted(kinds)]
    hits = sorted((use for uses in latest for use in uses), key=lambda use: use.at, reverse=True)
    if asked.suffixes and not asked.ids and not asked.words:
        ends = tuple(map(_plain, asked.suffixes))
        hits = [use for use in hits if _plain(use.value).endswith(ends)]
    return hits, all(len(uses) < MOST_SESSIONS for uses in latest)


class _Search(Generic[C]):
    """Reads from the logs what the index has found."""

    def __init__(self, scope: RunScope, contract: type[C], kinds: set[str]) -> None:
        self._scope = scope
        self._contract = contract
        self._kinds = kinds
        self._find: FindEntities | None = scope.entities
        self._whole_run = scope.run.partition(INSIDE)[0]
        self.unread = 0

    async def uses(self, hits: Sequence[EntityUse]) -> AsyncIterator[_Use[C]]:
        """Yield the commits that the index speaks of, as far as they are still there."""
        sessions: dict[str, set[str]] = {}
        for hit in hits:
            sessions.setdefault(hit.session, set()).add(hit.value)
        for session, values in sessions.items():
            try:
                log = await self._log(session)
            except (Deleted, Expired):
                continue
            for name, run in log.log.runs.items():
                if log is self._scope.log and name.partition(INSIDE)[0] == self._whole_run:
                    continue
                for cell in run.by_contract.get(self._contract.contract_name, ()):
                    use = await self._use(log, cell, values)
                    if use is not None:
                        yield use

    async def _log(self, session: str) -> OpenLog:
        ours = self._scope.log
        if session == ours.key.session:
            await ours.refresh()
            return ours
        return await OpenLog.open(ours.store, session_key(ours.key.owner, session), keys=ours.keys)

    async def _use(self, log: OpenLog, cell: Cell, values: set[str]) -> _Use[C] | None:
        try:
            check_version(self._contract, cell.contract.version)
            await log.fetch([cell])
            value = value_of(cell, self._contract)
        except (Deleted, Expired):
            return None
        except VersionMismatch:
            self.unread += 1
            return None
        pairs = [*ids_of(value), *(self._find(value) if self._find is not None else ())]
        ids = [str(text) for kind, text in pairs if kind in self._kinds]
        keys = frozenset(map(normal_id, ids))
        if not keys & values:
            return None
        return _Use(ids[0], keys, value, log, cell, log.log.entry(cell.revision).header.at)


def _narrowed(uses: dict[str, list[_Use[C]]], asked: Asked) -> tuple[list[_Use[C]], bool]:
    """Return one use of each thing that fits, the latest first, and whether a single one is what was meant."""
    excluded = {key for key in uses if any(_is(use, asked.excluded) for use in uses[key])}
    uses = {key: found for key, found in uses.items() if key not in excluded}
    named = _named(uses, asked)
    if named is not None:
        # 5512890 is as good as KX-5512890; 12345 may be a postcode that an order happens to end with.
        return _latest(named.values()), all(_says(found[0], asked) for found in named.values())
    if asked.suffixes or asked.prefixes:
        uses = {key: found for key, found in uses.items() if _begins_or_ends(found[0], asked)}
    if not asked.spans:
        return _by_recency(uses, asked), True
    timed = {key: [use for use in found if any(use.at in span for span in asked.spans)] for key, found in uses.items()}
    timed = {key: found for key, found in timed.items() if found}
    if not timed and asked.suffixes:
        # Delivered yesterday, asked about before: close enough to ask, not to go on.
        return _latest(uses.values()), False
    return _by_recency(timed, asked), True


def _named(uses: dict[str, list[_Use[C]]], asked: Asked) -> dict[str, list[_Use[C]]] | None:
    """Return what a request names by a full id or the better part of one; `None` if it names nothing."""
    found = {key: some for key, some in uses.items() if _is(some[0], asked.ids)}
    if not found:
        known = {key for some in uses.values() for key in some[0].keys if len(key) >= 4}
        words = asked.words & known
        found = {key: some for key, some in uses.items() if some[0].keys & words}
    if not found and asked.ids:
        ends = tuple(map(_plain, asked.ids))
        found = {key: some for key, some in uses.items() if any(_plain(k).endswith(ends) for k in some[0].keys)}
    return found if found or asked.ids else None


def _is(use: _Use[C], ids: Sequence[str]) -> bool:
    return any(key in use.keys for key in ids)


def _says(use: _Use[C], asked: Asked) -> bool:
    """Whether a request names an id of a value in full, or all of it but the letters it begins with."""
    return any(
        key == said or re.fullmatch(rf"[a-z#]*[-_]?{re.escape(said)}", key) is not None
        for key in use.keys
        for said in (*asked.ids, *asked.words)
    )


def _begins_or_ends(use: _Use[C], asked: Asked) -> bool:
    ends, begins = tuple(map(_plain, asked.suffixes)), tuple(map(_plain, asked.prefixes))
    keys = [_plain(key) for key in use.keys]
    return any(key.endswith(ends) for key in keys) if ends else any(key.startswith(begins) for key in keys)


def _plain(key: str) -> str:
    """Return an id without its separators: nobody says them."""
    return key.replace("-", "").replace("_", "").lower()


def _by_recency(uses: dict[str, list[_Use[C]]], asked: Asked) -> list[_Use[C]]:
    latest = _latest(uses.values())
    if asked.newest is not None:
        return latest[asked.newest : asked.newest + 1]
    if asked.oldest is not None and asked.spans and asked.oldest < len(latest):
        # Only inside a time that was named: of all times, the first one may not be known any more.
        return sorted(latest, key=lambda use: use.at)[asked.oldest : asked.oldest + 1]
    return latest


def _latest(uses: Iterable[list[_Use[C]]]) -> list[_Use[C]]:
    found = [max(some, key=lambda use: (use.at, use.cell.revision)) for some in uses]
    return sorted(found, key=lambda use: (use.at, use.cell.revision), reverse=True)


async def _candidate(use: _Use[C], zone: tzinfo) -> Candidate[C]:
    return Candidate(
        id=use.id,
        value=use.value,
        session=use.log.key.session,
        run=use.cell.run,
        at=datetime.fromtimestamp(use.at / 1000, zone),
        quote=await _quote(use),
    )


async def _quote(use: _Use[C]) -> str:
    """Return the words of the request in which it was spoken of, or else the beginning of the request."""
    run = use.log.log.runs.get(use.cell.run.partition(INSIDE)[0])
    asked = run.by_cell.get((REQUEST_STEP, "")) if run is not None else None
    if asked is None or not asked.cells:
        return ""
    try:
        await use.log.fetch(asked.cells)
    except (Deleted, Expired):
        return ""
    cell = asked.cells[0]
    values = from_json(cell.document or b"{}")
    hidden = {field.name for field in cell.contract.fields if field.sensitive}
    texts = [text for name, text in values.items() if isinstance(text, str) and name not in hidden]
    for text in texts:
        at = text.lower().find(use.id.lower())
        if at >= 0:
            return quote_of(text, at, at + len(use.id))
    return quote_of(texts[0], 0, 0) if len(texts) == 1 else ""
