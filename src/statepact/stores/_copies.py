"""Which sessions hold copies of what was erased here: forks, and what this session was forked from.

Forks know where they come from and their sources know them, so the family is found from any member.
Of each the first revisions are the same as here; what is erased there and not in the other one is a copy
that is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from statepact.ledger import SessionKey
from statepact.ledger._cells import Cell
from statepact.ledger._header import Kind
from statepact.ledger._log import SessionLog
from statepact.stores._base import Store
from statepact.stores._log_reader import LogReader

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Copies:
    """Places that are erased in a session, and not in another one that has them, too."""

    session: str
    """The session where they are erased."""
    fields: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    """Erased fields by cell; the record beside the cells has none."""

    def fields_of(self, cell: Cell) -> frozenset[str]:
        """Return which fields of a cell are meant."""
        return self.fields.get((cell.revision, cell.number), frozenset())

    @property
    def records(self) -> frozenset[int]:
        """Revisions whose record lost something."""
        return frozenset(revision for revision, _ in self.fields)

    def __str__(self) -> str:
        return f"what is erased in session {self.session}"


async def copies_of(store: Store, key: SessionKey) -> AsyncIterator[tuple[SessionKey, Copies]]:
    """Yield the sessions that hold copies of what is erased in this one, and what they hold."""
    ours = LogReader(store, key)
    await ours.read_on()
    async for other, log, same in _family(store, ours):
        left = {
            place: claim.fields
            for place, claim in ours.log.claims.items()
            if place[0] <= same and log.keeps_cell(*place) and _is_left(log, place, claim.fields)
        }
        if left:
            yield other, Copies(key.session, left)


def _is_left(log: SessionLog, place: Place, fields: frozenset[str]) -> bool:
    claim = log.claims.get(place)
    return claim is None or not fields <= claim.fields


async def _family(store: Store, ours: LogReader) -> AsyncIterator[tuple[SessionKey, SessionLog, int]]:
    """Yield the other sessions with their logs, and up to which revision they are the same as ours."""
    key = ours.key
    seen = {key.session}
    waiting: deque[tuple[LogReader, int]] = deque([(ours, ours.log.revision)])
    while waiting:
        reader, same = waiting.popleft()
        for name, revision in await _relatives(reader):
            if name in seen:
                continue
            other = LogReader(store, SessionKey(key.owner, name))
            await other.read_on()
            shared = min(same, revision)
            if not _is_same(ours.log, other.log, shared):
                continue  # it was never made, or is another one of that name
            seen.add(name)
            waiting.append((other, shared))
            yield other.key, other.log, shared


async def _relatives(reader: LogReader) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for entry in reader.log.entries:
        if entry.header.kind is Kind.NOTE:
            record = await reader.record(entry)
            said = [one for one in map(record.get, ("fork", "forked", "import")) if isinstance(one, dict)]
            found += [(str(one.get("session", "")), int(one.get("revision", 0))) for one in said]
    return found


def _is_same(one: SessionLog, other: SessionLog, revision: int) -> bool:
    """Whether two logs have the same entry at a revision, as far as both still keep it."""
    if not other.entries:
        return False
    if not (one.keeps(revision) and other.keeps(revision)):
        return True
    return revision <= other.revision and one.entry(revision).header.digest == other.entry(revision).header.digest
