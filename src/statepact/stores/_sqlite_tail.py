"""Writing through one connection: what each write asks of the session, and what it then does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from types import TracebackType

from statepact.errors import Behind, LeaseLost, SessionHeld
from statepact.ledger import SessionKey
from statepact.stores._base import Hold, NewEntry, Rewrite
from statepact.stores._sqlite_schema import InDoubt, is_of_disk

_ENTITY_IS_NEWS = 60_000
"""Milliseconds after which another use of an entity is worth a write."""


class Tail:
    """Writes through one connection, remembering where each session ends; `with` it, a transaction.

    The memory is dropped when another connection has written (`data_version`) and after every
    rollback, so it can be wrong in neither direction. Each write asks everything it has to ask before
    it changes anything, so a refused one leaves the others of its transaction alone.
    """

    def __init__(self, db: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self.db = db
        self._clock = clock
        self._ids: dict[SessionKey, tuple[int, int]] = {}
        self._last: dict[int, int] = {}
        self._held: dict[int, tuple[str, float]] = {}
        self._version = -1

    def __enter__(self) -> None:
        self.db.execute("begin immediate")
        try:
            version = self._newest()
            if version != self._version:
                self._forget()
                self._version = version
        except BaseException:
            self._roll_back()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._roll_back()
            return
        try:
            self.db.execute("commit")
        except BaseException as failed:
            self._roll_back()
            if isinstance(failed, sqlite3.OperationalError) and is_of_disk(failed):
                raise InDoubt(str(failed)) from failed
            raise

    def _newest(self) -> int:
        """Return a number that changes whenever another connection has written."""
        version: int = self.db.execute("pragma data_version").fetchone()[0]
        return version

    def _roll_back(self) -> None:
        self._forget()
        if self.db.in_transaction:
            self.db.execute("rollback")

    def ends_at(self, key: SessionKey, revision: int) -> bool:
        """Whether a session is known to end at a revision, without a look at its entries."""
        known = self._ids.get(key)
        return known is not None and self._last.get(known[1]) == revision and self._newest() == self._version

    # -- writing ---------------------------------------------------------------------------------

    def append(self, key: SessionKey, entries: Sequence[NewEntry], after: int, hold: Hold | None) -> None:
        """Append entries if the session ends at `after` and is free for `hold`."""
        owner, session = self._ids.get(key) or self._find(key)
        if hold is not None:
            self._check_hold(key, session, hold)
        self._compare(key, session, after)
        if hold is not None:
            self._take(session, hold)
        self._extend(owner, session, entries, after)

    def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry], after: int) -> None:
        """Change stored entries, then append others, if the session ends at `after`."""
        owner, session = self._ids.get(key) or self._find(key)
        self._compare(key, session, after)
        execute = self.db.execute
        place = "(select id from entry where session=? and revision=?)"
        for revision, (header, payload) in change.replace.items():
            execute(f"update header set bytes=? where id={place}", (header, session, revision))
            execute("update entry set payload=? where session=? and revision=?", (payload, session, revision))
        execute(
            "delete from header where id in (select id from entry where session=? and revision<?)",
            (session, change.first),
        )
        execute("delete from entry where session=? and revision<?", (session, change.first))
        for address, data in change.blocks.items():
            execute("delete from block where session=? and address=?", (session, address))
            if data is not None:
                execute("insert into block(session, address, bytes) values(?, ?, ?)", (session, address, data))
        if change.forget is None:
            execute("delete from entity where session=?", (session,))
        for entity in change.forget or ():
            execute(
                "delete from entity where owner=? and kind=? and value=? and session=?",
                (owner, entity.kind, entity.value, session),
            )
        self._extend(owner, session, entries, after or max(change.first - 1, 0))

    def hold(self, key: SessionKey, hold: Hold) -> SessionHeld | None:
        """Claim a session, renew the claim or give it up; return the refusal if somebody else has it."""
        _, session = self._ids.get(key) or self._find(key)
        row = self.db.execute("select holder, seconds, until from session where id=?", (session,)).fetchone()
        if hold.seconds <= 0 and row[0] != hold.holder:
            return None
        if row[0] is not None and row[2] > self._clock() + row[1]:
            # The clock was set back. The claim gets its full time from now on, and no more.
            self.db.execute("update session set until=? where id=?", (self._clock() + row[1], session))
            self._held.pop(session, None)
        try:
            self._check_hold(key, session, hold)
        except SessionHeld as refusal:
            return refusal
        self._take(session, hold)
        return None

    def _compare(self, key: SessionKey, session: int, after: int) -> None:
        last = self._last.get(session)
        if last is None:
            row = self.db.execute("select max(revision) from entry where session=?", (session,)).fetchone()
            last = self._last[session] = row[0] or 0
        if last != after:
            raise Behind(f"session {key.session!r} is at revision {last}, not {after}")

    def _check_hold(self, key: SessionKey, session: int, hold: Hold) -> None:
        known = self._held.get(session)
        if known is not None and known[0] == hold.holder:
            return
        row = self.db.execute("select holder, run, until from session where id=?", (session,)).fetchone()
        if row[0] == hold.holder:
            return
        if not hold.claim:
            raise LeaseLost(key.session, holder=hold.holder, run=hold.run)
        left = 0.0 if row[0] is None else row[2] - self._clock()
        if left > 0 and row[0] != hold.succeeds:
            raise SessionHeld(key.session, holder=row[0], run=row[1], seconds=left)

    def _take(self, session: int, hold: Hold) -> None:
        known = self._held.get(session)
        now = self._clock()
        if hold.seconds <= 0:
            self._held.pop(session, None)
            self.db.execute("update session set run=null, holder=null, until=null where id=?", (session,))
        elif known is None or known[0] != hold.holder or known[1] - now < hold.seconds / 2:
            # A page that is written in each step would cost more than the claim is worth.
            self._held[session] = hold.holder, now + hold.seconds
            self.db.execute(
                "update session set run=?, holder=?, seconds=?, until=? where id=?",
                (hold.run, hold.holder, hold.seconds, now + hold.seconds, session),
            )

    def _extend(self, owner: int, session: int, entries: Sequence[NewEntry], after: int) -> None:
        execute = self.db.execute
        for entry in entries:
            after += 1
            place = execute(
                "insert into entry(session, revision, payload) values(?, ?, ?)", (session, after, entry.payload)
            ).lastrowid
            execute("insert into header(id, bytes) values(?, ?)", (place, entry.header))
            for address, data in entry.blocks:
                execute(
                    "insert or ignore into block(session, address, bytes) values(?, ?, ?)", (session, address, data)
                )
            for entity in entry.entities:
                execute(
                    "insert into entity(owner, kind, value, session, at) values(?, ?, ?, ?, ?) on conflict do update"
                    f" set at=excluded.at where excluded.at > at + {_ENTITY_IS_NEWS}",
                    (owner, entity.kind, entity.value, session, entry.at),
                )
        if entries:
            self._last[session] = after

    def _find(self, key: SessionKey) -> tuple[int, int]:
        execute = self.db.execute
        execute("insert or ignore into owner(name) values(?)", (key.owner,))
        owner = execute("select id from owner where name=?", (key.owner,)).fetchone()[0]
        execute("insert or ignore into session(owner, name) values(?, ?)", (owner, key.session))
        session = execute("select id from session where owner=? and name=?", (owner, key.session)).fetchone()[0]
        self._ids[key] = owner, session
        return owner, session

    def _forget(self) -> None:
        self._ids.clear()
        self._last.clear()
        self._held.clear()
