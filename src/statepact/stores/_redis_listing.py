"""Who has sessions, and which: listings that say too much rather than too little.

They lie in other slots than the sessions, so no script can write both. A session is listed before it can
exist, and whoever reads a listing asks each session whether it does.
"""

from __future__ import annotations

from collections.abc import Sequence

from statepact.ledger import SessionKey
from statepact.stores._base import SessionInfo
from statepact.stores._redis_keys import BATCH, Names
from statepact.stores._redis_link import Link


class Listing:
    """The listings of a server, as one event loop sees them."""

    def __init__(self, link: Link, names: Names) -> None:
        self._link = link
        self._names = names

    async def add(self, key: SessionKey) -> None:
        """List a session that is about to begin."""
        await self._link.ask_all(
            [
                (b"SADD", self._names.owners, key.owner.encode()),
                (b"SADD", self._names.owner(key.owner).sessions, key.session.encode()),
            ]
        )

    async def owners(self) -> Sequence[str]:
        """Return those who have sessions, by name."""
        names = await self._members(self._names.owners)
        return sorted([name for name in names if await self._existing(name, one=True)])

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        """Return the sessions of an owner, by name."""
        return sorted(await self._existing(owner), key=lambda info: info.session)

    async def _existing(self, owner: str, *, one: bool = False) -> list[SessionInfo]:
        """Ask the listed sessions of an owner whether they exist; with `one`, until one does."""
        names = await self._members(self._names.owner(owner).sessions)
        found: list[SessionInfo] = []
        for start in range(0, len(names), BATCH):
            some = names[start : start + BATCH]
            states = [self._names.session(SessionKey(owner, name)).state for name in some]
            revisions = await self._link.ask_all([(b"HGET", state, b"n") for state in states])
            pairs = zip(some, revisions, strict=True)
            found += [SessionInfo(session=name, revision=int(n)) for name, n in pairs if n is not None]
            if one and found:
                break
        return found

    async def _members(self, place: bytes) -> list[str]:
        cursor = 0
        names: set[str] = set()
        while True:
            cursor, some = await self._link.ask(b"SSCAN", place, cursor, b"COUNT", BATCH)
            names.update(bytes(name).decode() for name in some)
            cursor = int(cursor)
            if not cursor:
                return sorted(names)
