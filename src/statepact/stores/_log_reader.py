"""One session's log, opened from a store for reading: headers at once, values when somebody needs them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from statepact.contracts import Contract
from statepact.errors import CorruptState, Expired, StatepactError, UnknownRevision, UnknownRun, UnknownSession
from statepact.ledger._base_record import removed_in
from statepact.ledger._blocks import addresses_in, is_value_id, put_together
from statepact.ledger._cells import Cell, Entry
from statepact.ledger._claims import Claim, claims_in
from statepact.ledger._digest import block_digest
from statepact.ledger._erased import is_base, is_erased
from statepact.ledger._header import Kind, Read, kind_of
from statepact.ledger._key import SessionKey
from statepact.ledger._log import OF_THE_SESSION, SessionLog
from statepact.ledger._pinned import reads_of
from statepact.ledger._shared import Folded, fold
from statepact.ledger._unset import UNSET, unset_paths
from statepact.ledger._vault import KeyRing
from statepact.ledger._view import CellView, EntryView, ReadView, RunView
from statepact.stores._base import Store, StoredHeader
from statepact.stores._viewing import cell_view, entry_view, extra_of, left_of, record_in, record_of

C = TypeVar("C", bound=Contract)

VIEWED_AT_ONCE = 100
"""Entries whose values are fetched together when a whole run is read."""

FOLDED_AT_ONCE = 1_000
"""Changes of a shared value that are fetched together."""

_UNSET_KEY = f'"{UNSET}":'.encode()

KEPT_BYTES = 4 * 2**20
"""Stored bytes of cells that an open log keeps in memory; older ones are read again when needed."""


class LogReader:
    """Values of a session's log, fetched when they are needed and kept for a while."""

    def __init__(self, store: Store, key: SessionKey, *, keys: KeyRing | None = None) -> None:
        self.store = store
        self.key = key
        self.keys = keys
        """Opens sensitive values. Without it they are stored in plain text, and those that are not stay locked."""
        self.log = SessionLog(key)
        # What never left this process was not damaged on the way, and reading it should cost nothing.
        self._trusted: bool = getattr(store, "in_process", False)
        self._known_names = 0
        """Names of the entries that are known to be in the log."""
        self._folded: dict[type[Contract], Folded[Any]] = {}
        self._base_claims: list[Claim] = []
        self.until: int | None = None
        """Revision behind which nothing is read; `None` for all there is."""
        self._kept: deque[Cell] = deque()
        self._kept_bytes = 0

    @classmethod
    async def at(cls, store: Store, key: SessionKey, revision: int | None, *, keys: KeyRing | None = None) -> LogReader:
        """Return the log of a session as it stood at a revision, `None` for all there is now.

        What was erased since then is gone from it, too. Raises `UnknownSession`, `UnknownRevision` for a
        revision that is not there yet, and `Expired` for one that a retention rule has removed.
        """
        reader = cls(store, key, keys=keys)
        reader.until = revision
        await reader.read_on()
        if not reader.log.entries:
            there = [one.revision for one in await store.headers(key)]
            if not there:
                raise unknown(key)
            _check_revision(key, revision or 0, there[0], there[-1])
        elif revision is not None:
            reader.check_revision(revision)
        return reader

    def check_revision(self, revision: int) -> None:
        """Raise `UnknownRevision` or `Expired` for a revision that the log, as far as it was read, does not have."""
        _check_revision(self.key, revision, self.log.first, self.log.revision)

    async def read_on(self) -> None:
        """Read the headers that have come since the last look. Raises `CorruptState` if one is missing."""
        of_the_session: list[Entry] = []
        headers = await self.store.headers(self.key, after=self.log.revision)
        if headers and self.log.entries and kind_of(headers[0].header) is Kind.BASE:
            # What we have not read yet was removed meanwhile, so what we know has no continuation.
            self._start_anew()
            headers = await self.store.headers(self.key)
        later: list[StoredHeader] = []
        for stored in headers:
            if self.until is not None and stored.revision > self.until:
                if kind_of(stored.header) is Kind.ERASURE and stored.revision > self.log.last_erasure:
                    later.append(stored)
                continue
            based = not self.log.entries and kind_of(stored.header) is Kind.BASE
            if stored.revision != self.log.revision + 1 and not based:
                raise CorruptState(
                    f"session {self.key.session!r} has no revision {self.log.revision + 1}",
                    hint="entries are missing; restore the store from a backup",
                )
            entry = self.log.read(stored.revision, stored.header)
            self._check_tag(entry)
            self._known_names = len(self.log.names)
            if entry.header.kind in OF_THE_SESSION:
                of_the_session.append(entry)
        if of_the_session:
            await self._take_in(of_the_session)
        if later:
            await self._take_in_later(later)

    def _start_anew(self) -> None:
        self.log = SessionLog(self.key)
        self._known_names = 0
        self._folded.clear()
        self._kept.clear()
        self._kept_bytes = 0

    def _check_tag(self, entry: Entry) -> None:
        """Check the tag of an entry that was just read; for those who have the key."""

    async def _take_in(self, entries: Sequence[Entry]) -> None:
        """Learn from the entries that say it what was erased, and what was removed."""
        for entry in entries:
            record = await self.record(entry)
            removed = removed_in(record) if entry.header.kind is Kind.NOTE else 0
            if removed > self._removed() and not await self._take_in_base():
                self._start_anew()
                await self.read_on()
                return
            if entry.header.kind is Kind.BASE:
                self._base_claims = claims_in(record)
            if removed and removed == self._removed():
                self.log.restate(self._base_claims)
            if claims := claims_in(record):
                self.log.erase(entry.revision, claims)
                self._folded.clear()
                self._count_kept()

    def _removed(self) -> int:
        """Return up to which revision entries are known to be removed."""
        return self.log.base.size if self.log.base is not None else 0

    def _count_kept(self) -> None:
        self._kept = deque(cell for cell in self._kept if cell.document is not None)
        self._kept_bytes = sum(len(cell.document or b"") for cell in self._kept)

    async def _take_in_base(self) -> bool:
        """Learn what has been removed of the entries that were read; false if that is nothing new."""
        headers = await self.store.headers(self.key)
        if not headers or kind_of(headers[0].header) is not Kind.BASE:
            return False
        if not self._removed() < headers[0].revision <= self.log.revision:
            return False
        self.log.adopt(headers[0].revision, headers[0].header)
        self._count_kept()
        if (entry := self.log.base_entry) is not None:
            self._base_claims = claims_in(await self.record(entry))
            self.log.erase(entry.revision, self._base_claims)
        return True

    async def _take_in_later(self, headers: Sequence[StoredHeader]) -> None:
        """Learn what was erased by now: whoever reads an old revision must be told, too."""
        payloads = await self.store.payloads(self.key, [one.revision for one in headers])
        for one in headers:
            claims = claims_in(record_in(payloads.get(one.revision), one.revision))
            self.log.erase(one.revision, [claim for claim in claims if claim.revision <= self.log.revision])

    async def fetch(self, cells: Iterable[Cell]) -> None:
        """Make sure that `document` is there for each of these cells, with as few reads as possible.

        It stays there until the next call that reads or commits, so use it before you await anything.
        """
        wanted = tuple(cells)
        if not any(cell.document is None for cell in wanted):
            return
        self._trim()  # may drop some of those that are wanted
        missing = [cell for cell in wanted if cell.document is None]
        held = [(cell, cell.stored, cell.document, cell.locked) for cell in wanted if cell.document is not None]
        payloads = await self.store.payloads(self.key, {cell.home for cell in missing})
        stored: dict[int, bytes] = {}
        addresses: set[bytes] = set()
        for cell in missing:
            payload = payloads.get(cell.home)
            if payload is None or (is_base(payload) and cell.carried is None):
                if await self._take_in_base():
                    await self.fetch(wanted)
                    return
                raise await self._missing(cell)
            if not is_erased(payload) and len(payload) < cell.offset + cell.size:
                raise await self._missing(cell)
            raw = left_of(cell, payload) if is_erased(payload) else payload[cell.offset : cell.offset + cell.size]
            stored[id(cell)] = raw
            self._note_extra(self.log.holder(cell), payload)
            addresses.update(addresses_in(raw).values())
        for entry in {cell.home: self.log.holder(cell) for cell in missing}.values():
            if not self._agrees(entry, payloads.get(entry.revision)):
                raise await self._not_as_committed(entry)
        blocks = await self.store.blocks(self.key, addresses) if addresses else {}
        self._check_blocks(blocks)
        for cell in missing:
            self._keep(cell, stored[id(cell)], blocks)
        for cell, raw_bytes, document, locked in held:
            # Others may have fetched, and so dropped these, while we waited for the store.
            if cell.document is None and raw_bytes is not None and document is not None:
                self._keep_as(cell, raw_bytes, document, locked)

    def _agrees(self, entry: Entry, payload: bytes | None) -> bool:
        """Whether anybody may work with a payload: it is what was committed, or what is left of that."""
        if payload is None or (is_base(payload) and entry.header.kind is not Kind.BASE):
            return False  # it was removed
        return self._trusted or entry.agrees_with(payload)

    async def _not_as_committed(self, entry: Entry) -> StatepactError:
        return await self._gone(entry.revision, entry.header.step) or CorruptState(
            f"revision {entry.revision} of session {self.key.session!r}, by step {entry.header.step!r},"
            " is not what was committed",
            hint="run `statepact verify` on the session, and restore the store from a backup",
        )

    def _check_blocks(self, blocks: Mapping[bytes, bytes]) -> None:
        if self._trusted:
            return
        for address, data in blocks.items():
            # A sealed value is checked when it is opened.
            if not is_value_id(address) and block_digest(self.key.owner, data) != address:
                raise CorruptState(
                    f"a large value of session {self.key.session!r} is not what was committed",
                    hint="run `statepact verify` on the session, and restore the store from a backup",
                )

    async def _missing(self, cell: Cell) -> StatepactError:
        """Return why a value cannot be read."""
        return await self._gone(cell.home, cell.step) or CorruptState(
            f"the value of step {cell.step!r} at revision {cell.revision} is missing or cut short",
            hint="run `statepact verify` on the session, and restore the store from a backup",
        )

    async def _gone(self, revision: int, step: str) -> Expired | None:
        """Return the error for what a retention rule has removed since the log was read, `None` if none has."""
        headers = await self.store.headers(self.key)
        if not headers or headers[0].revision < revision or kind_of(headers[0].header) is not Kind.BASE:
            return None
        return Expired(
            f"the value of step {step!r} at revision {revision} of session {self.key.session!r}"
            " is older than what is kept",
            hint="a retention rule has removed it; start a new run",
        )

    def must_not_be_removed(self, run: str) -> None:
        """Raise `Expired` for a run that a retention rule has removed."""
        if self.log.has_removed(run):
            raise Expired(
                f"run {run!r} of session {self.key.session!r} is older than what is kept",
                hint=f"it still has: {', '.join(list(self.log.runs)[-10:]) or 'no run'}",
            )

    async def view(self, run: str) -> RunView:
        """Return a run with its values.

        Raises `UnknownRun`, `Expired` if a retention rule has removed it, and `CorruptState` for what
        cannot be read.
        """
        self.must_not_be_removed(run)
        log = self.log.runs.get(run)
        if log is None:
            raise UnknownRun(
                f"session {self.key.session!r} has no run {run!r}",
                hint=f"it has: {', '.join(list(self.log.runs)[-10:]) or 'none'}",
            )
        entries = [entry async for entry in self._views(log.entries)]
        return RunView(self.key.owner, self.key.session, run, tuple(entries))

    async def entries(self, *, after: int) -> AsyncIterator[EntryView]:
        """Yield the entries of all runs after a revision, as far as they have been read on.

        Of what a step has read, only what is among these entries is named.
        """
        async for entry in self._views(self.log.after(after)):
            yield entry

    async def _views(self, entries: Sequence[Entry]) -> AsyncIterator[EntryView]:
        cells: dict[tuple[int, int], CellView] = {}
        views: dict[Read, ReadView] = {}
        await self._view_shared(entries, cells)
        for start in range(0, len(entries), VIEWED_AT_ONCE):
            some = entries[start : start + VIEWED_AT_ONCE]
            payloads = await self._payloads(some)
            for entry in some:
                for cell in entry.cells:
                    cells[cell.revision, cell.number] = cell_view(cell)
            for entry in some:
                reads = self._read_views(entry, cells, views)
                yield entry_view(entry, cells, reads, payloads.get(entry.revision))

    async def _view_shared(self, entries: Sequence[Entry], cells: dict[tuple[int, int], CellView]) -> None:
        """Add the changes of shared values that these entries have read and that others have made."""
        if not self.log.shared:
            return
        ours = {entry.revision for entry in entries}
        read = {(one.revision, one.cell) for entry in entries for one in entry.header.reads}
        others = [
            self.log.cell(*place) for place in sorted(read) if place[0] not in ours and self.log.keeps_cell(*place)
        ]
        others = [cell for cell in others if cell.shared]
        await self.fetch(others)
        for cell in others:
            cells[cell.revision, cell.number] = cell_view(cell)

    async def shared(self, contract: type[C], *, at: int | None = None) -> Folded[C]:
        """Return a shared value of the session as it is, or stood at a revision, as far as it was read.

        What was folded is kept, so that each change is read once. Raises `CorruptState` if a change is
        missing or cannot be read: a fold without it would be another value. Raises `Expired` for a revision
        that is older than what is kept.
        """
        while True:
            removed = self._removed()
            try:
                return await self._folded_at(contract, at)
            except Expired:
                if self._removed() == removed:
                    raise
                # Changes that were overridden since have been removed: they are not needed either.

    async def _folded_at(self, contract: type[C], at: int | None) -> Folded[C]:
        if at is not None and at < self._removed():
            self.log.entry(max(at, 1))
        revision = self.log.revision if at is None else min(at, self.log.revision)
        start: Folded[C] = self._folded.get(contract) or Folded(contract)
        if start.revision > revision:
            start = Folded(contract)
        cells = self.log.shared.get(contract.contract_name, ())
        new = [cell for cell in cells if start.revision < cell.revision <= revision]
        folded = start
        for begin in range(0, len(new), FOLDED_AT_ONCE):
            some = new[begin : begin + FOLDED_AT_ONCE]
            await self.fetch(some)
            folded = fold(folded, some, revision=some[-1].revision)
        folded = replace(folded, revision=revision)
        kept = self._folded.get(contract)
        if kept is None or kept.revision < revision:
            self._folded[contract] = folded
        return folded

    async def record(self, entry: Entry) -> Mapping[str, Any]:
        """Return what an entry says beside its values: reason, usage, marks."""
        if entry.extra is None:
            payload = (await self.store.payloads(self.key, [entry.revision])).get(entry.revision)
            if not self._agrees(entry, payload):
                raise await self._not_as_committed(entry)
            entry.extra = extra_of(entry, payload)
        return record_of(entry, entry.extra)

    def _read_views(
        self, entry: Entry, cells: Mapping[tuple[int, int], CellView], views: dict[Read, ReadView]
    ) -> tuple[ReadView, ...]:
        """Return what a step was given. Pinned facts are in most steps of a run, so their views are shared."""
        found = []
        for read in reads_of(self.log, entry):
            view = views.get(read)
            if view is None and (cell := cells.get((read.revision, read.cell))) is not None:
                view = views[read] = ReadView(cell, read.reached, read.mask, read.declared)
            if view is not None:
                found.append(view)
        return tuple(found)

    async def _payloads(self, entries: Sequence[Entry]) -> Mapping[int, bytes]:
        await self.fetch(cell for entry in entries for cell in entry.cells)
        missing = [entry.revision for entry in entries if entry.extra is None]
        payloads = await self.store.payloads(self.key, missing) if missing else {}
        for entry in entries:
            if entry.extra is None and not self._agrees(entry, payloads.get(entry.revision)):
                raise await self._not_as_committed(entry)
        return payloads

    def _note_extra(self, entry: Entry, payload: bytes) -> None:
        """Keep the record of an entry that came along with its values."""
        if entry.extra is None:
            entry.extra = extra_of(entry, payload)
        self._note_unset(entry)

    def _note_unset(self, entry: Entry) -> None:
        if entry.extra and _UNSET_KEY in entry.extra:
            record = record_of(entry, entry.extra)
            for cell in entry.cells:
                cell.unset = unset_paths(record, cell.leaf_number)

    def _keep(self, cell: Cell, stored: bytes, blocks: Mapping[bytes, bytes]) -> None:
        if cell.document is not None:
            return  # two readers fetched it at once
        if not blocks and b"\x00" not in stored:
            self._keep_as(cell, stored, stored)
            return
        whole = put_together(stored, blocks, owner=self.key.owner, keys=self.keys)
        self._keep_as(cell, stored, whole.document, whole.locked or None)

    def _keep_as(self, cell: Cell, stored: bytes, document: bytes, locked: Mapping[str, str] | None = None) -> None:
        cell.stored = stored
        cell.document = document
        cell.locked = locked
        self._kept.append(cell)
        self._kept_bytes += len(document)

    def _trim(self) -> None:
        # Runs before something is added, never after: what a caller has just fetched stays until
        # it had the chance to use it.
        while self._kept and self._kept_bytes > KEPT_BYTES:
            oldest = self._kept.popleft()
            self._kept_bytes -= len(oldest.document or b"")
            oldest.stored = oldest.document = None


def unknown(key: SessionKey) -> UnknownSession:
    """Return the error for a session that is not there."""
    return UnknownSession(
        f"owner {key.owner!r} has no session {key.session!r}", hint="check the name, the owner and the store"
    )


def _check_revision(key: SessionKey, revision: int, oldest: int, newest: int) -> None:
    if 0 < revision < oldest:
        raise Expired(
            f"revision {revision} of session {key.session!r} is older than what is kept",
            hint=f"a retention rule has removed it; the oldest is {oldest}",
        )
    if not 0 < revision <= newest:
        raise UnknownRevision(f"session {key.session!r} has no revision {revision}", hint=f"its newest is {newest}")
