"""Finding sessions by what they are about, when the index stands in another slot than the truth.

The truth is in the session, written by the commit. The owner's index is written after it, and the owner
notes before it that this session may change. So whatever ends in between, a question either finds the
note, and asks the session itself, or finds the index complete:

    note → commit → index → take the note back

A question reads the notes first and the index then, and asks the session about each hit. The index may
claim too much and too late a use, never too little: its scores are upper bounds, so reading it from
the top until enough confirmed hits are above the rest gives the exact answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from statepact.ledger import SessionKey
from statepact.stores._base import Entity, EntityUse, NewEntry
from statepact.stores._redis_keys import BATCH, Names, pack, unpack
from statepact.stores._redis_link import Command, Link
from statepact.stores._redis_scripts import ENTITIES, LATEST, PEND, PENDING

PATIENCE = 30_000
"""Milliseconds after its note within which a commit must arrive; later, the server refuses it."""

ABANDONED = 60_000
"""Milliseconds after which a note is of somebody who has died."""


@dataclass(frozen=True, slots=True)
class Note:
    """Says that the entities of a session may be changing."""

    member: bytes
    since: int

    @property
    def latest(self) -> int:
        """The server's time after which the commit is too late."""
        return self.since + PATIENCE


class EntityIndex:
    """The entities of owners, as one event loop asks about them."""

    def __init__(self, link: Link, names: Names) -> None:
        self._link = link
        self._names = names

    async def note(self, key: SessionKey) -> Note:
        """Say that the session's entities may change."""
        member = pack(key.session, secrets.token_hex(8))
        since = await self._link.run(PEND, [self._names.owner(key.owner).pending], [member], writing=False)
        return Note(member, int(since))

    async def add(self, key: SessionKey, entries: Iterable[NewEntry]) -> None:
        """Put what was committed into the index."""
        uses: dict[Entity, int] = {}
        for entry in entries:
            for entity in entry.entities:
                uses[entity] = max(entry.at, uses.get(entity, entry.at))
        await self._add(key, uses)

    async def take_back(self, key: SessionKey, note: Note) -> None:
        """Say that the index is complete."""
        await self._link.ask(b"ZREM", self._names.owner(key.owner).pending, note.member)

    async def _add(self, key: SessionKey, uses: Mapping[Entity, int]) -> None:
        await self._each(key, uses, lambda place, member, at: (b"ZADD", place, b"GT", at, member))

    async def remove(self, key: SessionKey, entities: Iterable[Entity]) -> None:
        """Take out of the index what the session says it is not about. Needs a note."""
        wanted = dict.fromkeys(entities, 0)
        await self._each(key, wanted, lambda place, member, _: (b"ZREM", place, member))
        # Somebody may have committed one of them in the meantime.
        now = await self.of_session(key)
        await self._add(key, {entity: at for entity, at in now.items() if entity in wanted})

    async def _each(
        self, key: SessionKey, uses: Mapping[Entity, int], command: Callable[[bytes, bytes, int], Command]
    ) -> None:
        commands = [
            command(self._names.about(key.owner, kind, value), pack(*entity, key.session), at)
            for entity, at in uses.items()
            for kind in (None, entity.kind)
            for value in (None, entity.value)
        ]
        for start in range(0, len(commands), BATCH):
            await self._link.ask_all(commands[start : start + BATCH])

    async def of_session(self, key: SessionKey) -> dict[Entity, int]:
        """Return what a session is about, from the session itself."""
        state = self._names.session(key)
        found = await self._link.run(ENTITIES, state[:2], [], writing=False)
        pairs = zip(found[::2], found[1::2], strict=True)
        return {Entity(*unpack(bytes(name))): int(at) for name, at in pairs}

    # -- asking ----------------------------------------------------------------------------------

    async def find(self, owner: str, kind: str | None, value: str | None, most: int) -> list[EntityUse]:
        """Return the latest uses."""
        if most <= 0:
            return []
        changing = await self._changing(owner)
        found: dict[tuple[Entity, str], int] = {}
        for session, entities in changing.items():
            for entity, at in entities.items():
                if kind in (None, entity.kind) and value in (None, entity.value):
                    found[entity, session] = at
        seen: set[bytes] = set()
        dead: dict[str, list[Entity]] = {}
        place = self._names.about(owner, kind, value)
        highest, ties = "+inf", 0
        while True:
            size = min(BATCH, max(2 * most, 16))
            got = await self._link.run(LATEST, [place], [highest, size + ties], writing=False)
            batch = [(bytes(member), int(float(score))) for member, score in zip(got[::2], got[1::2], strict=True)]
            new = [member for member, _ in batch if member not in seen]
            seen.update(new)
            await self._confirm(owner, new, changing, found, dead)
            if len(batch) < size + ties:
                break
            last = batch[-1][1]
            if sum(at > last for at in found.values()) >= most:
                break
            ties = ties + size if str(last) == highest else sum(score == last for _, score in batch)
            highest = str(last)
        await self._clean(owner, dead)
        uses = [
            EntityUse(kind=entity.kind, value=entity.value, session=session, at=at)
            for (entity, session), at in found.items()
        ]
        uses.sort(key=lambda use: (-use.at, use.session, use.kind, use.value))
        return uses[:most]

    async def _confirm(
        self,
        owner: str,
        members: Sequence[bytes],
        changing: Mapping[str, object],
        found: dict[tuple[Entity, str], int],
        dead: dict[str, list[Entity]],
    ) -> None:
        hits = [(Entity(kind, value), session) for kind, value, session in map(unpack, members)]
        hits = [hit for hit in hits if hit[1] not in changing]
        answers = await self._link.ask_all(
            [
                (b"HGET", self._names.session(SessionKey(owner, session)).state, b"e" + pack(*entity))
                for entity, session in hits
            ]
        )
        for (entity, session), answer in zip(hits, answers, strict=True):
            if answer is None:
                dead.setdefault(session, []).append(entity)
            else:
                found[entity, session] = int(bytes(answer).split(b" ")[1])

    async def _changing(self, owner: str) -> dict[str, dict[Entity, int]]:
        """Return the entities of sessions that are noted; finish what somebody who died has left."""
        pending = self._names.owner(owner).pending
        sessions: dict[str, dict[Entity, int]] = {}
        start = 0
        while True:
            now, *noted = await self._link.run(PENDING, [pending], [start, start + BATCH - 1], writing=False)
            for member, since in zip(noted[::2], noted[1::2], strict=True):
                session = unpack(bytes(member))[0]
                key = SessionKey(owner, session)
                if session not in sessions:
                    sessions[session] = await self.of_session(key)
                if int(now) - int(float(since)) > ABANDONED:
                    # Its commit has been refused since, or stands in what was just read.
                    await self._add(key, sessions[session])
                    await self._link.ask(b"ZREM", pending, bytes(member))
            if len(noted) < 2 * BATCH:
                return sessions
            start += BATCH

    async def _clean(self, owner: str, dead: Mapping[str, Sequence[Entity]]) -> None:
        for session, entities in dead.items():
            key = SessionKey(owner, session)
            note = await self.note(key)
            await self.remove(key, entities)
            await self.take_back(key, note)
