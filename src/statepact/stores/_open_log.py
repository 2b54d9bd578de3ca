"""One session's log, opened from a store: reading lazily, committing exactly once.

The store compares and appends; here is what that makes possible. A cell is written once: a second
write of the same step with the same inputs gets the stored result, with other inputs an error.
Branches that commit while another's commit is being flushed go together in the next one, and a
writer in another process is noticed by the store (`Behind`), read, and taken into account.

Never more than one append of an open log is under way. An entry numbers its names after the entries
before it, so one that is sent before its predecessor is known to have landed could end up behind a
stranger's entry and say something else there, with a correct digest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import orjson
from pydantic_core import from_json

from statepact.errors import Behind, CorruptState, StatepactError, StepIdReused, StoreTimeout, UnknownRun
from statepact.ledger._blocks import Parts, addresses_in, put_together
from statepact.ledger._digest import INPUT_DIGEST_SIZE, entry_digest, leaf_digest, new_salt
from statepact.ledger._header import CellSize, Header, Kind, Names, Read, encode_body
from statepact.ledger._key import SessionKey
from statepact.ledger._log import Cell, Entry, SessionLog
from statepact.ledger._view import CellView, EntryView, ReadView, RunView
from statepact.stores._base import NewEntry, Store

VIEWED_AT_ONCE = 100
"""Entries whose values are fetched together when a whole run is read."""

KEPT_BYTES = 4 * 2**20
"""Stored bytes of cells that an open log keeps in memory; older ones are read again when needed."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """An entry before it has a place in the log."""

    kind: Kind = Kind.COMMIT
    at: int
    run: str
    step: str
    branch: str = ""
    input_digest: bytes = b"\x00" * INPUT_DIGEST_SIZE
    documents: Sequence[tuple[str, Parts]] = ()
    """Contract (as `describe` puts it) and bytes of each cell."""
    reads: tuple[Read, ...] = ()
    extra: bytes = b""
    """JSON object with what has no place in the header: reason, usage, marks. Empty for none."""


class _Prepared(NamedTuple):
    """An entry with its digest, ready to be sent."""

    header: Header
    body: bytes
    payload: bytes
    blocks: tuple[tuple[bytes, bytes], ...]
    documents: Sequence[bytes]
    """The cells with their large values in place."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A draft that somebody waits for: it ends with an entry or an error."""

    draft: Draft
    entry: Entry | None = None
    error: BaseException | None = None
    alone: bool = False
    """It was in a batch that failed, so it must not take others with it again."""
    sent: tuple[bytes, ...] = ()
    """Digests of the attempts of which nobody knows whether they landed."""


class OpenLog:
    """A session's log together with the store that holds it.

    Belongs to one event loop at a time. Open one for each run; several on the same session, in one
    process or many, are safe beside each other.
    """

    def __init__(self, store: Store, key: SessionKey) -> None:
        self.store = store
        self.key = key
        self.log = SessionLog(key)
        import asyncio

        self._sending = asyncio.Lock()
        self._waiting: list[_Waiting] = []
        self._known_names = 0
        self._kept: deque[Cell] = deque()
        self._kept_bytes = 0

    @classmethod
    async def open(cls, store: Store, key: SessionKey) -> OpenLog:
        """Open a session and read its headers; a session that does not exist yet is empty."""
        opened = cls(store, key)
        await opened.refresh()
        return opened

    @property
    def _names(self) -> Names:
        return self.log.names

    async def refresh(self) -> None:
        """Read what others have committed since the last look."""
        async with self._sending:
            await self._read_on()

    async def _read_on(self) -> None:
        before = self.log.revision
        for stored in await self.store.headers(self.key, after=before):
            if stored.revision != self.log.revision + 1:
                raise CorruptState(
                    f"session {self.key.session!r} has no revision {self.log.revision + 1}",
                    hint="entries are missing; restore the store from a backup",
                )
            self.log.read(stored.revision, stored.header)
            self._known_names = len(self._names)
        # An attempt may have landed although its answer was lost.
        for waiting in self._waiting:
            if waiting.sent and waiting.entry is None:
                landed = (entry for entry in self.log.entries[before:] if entry.header.digest in waiting.sent)
                waiting.entry = next(landed, None)

    # -- committing ------------------------------------------------------------------------------

    async def append(self, draft: Draft) -> Entry:
        """Append an entry; for a commit whose cell is already written, return that entry.

        Raises `StepIdReused` if the cell was written from other inputs, and `StoreError`.
        """
        waiting = _Waiting(draft)
        self._waiting.append(waiting)
        # Not `async with`: this is the path of every step, and that costs a microsecond.
        try:
            await self._sending.acquire()
            try:
                while waiting.entry is None and waiting.error is None:
                    batch = self._next_batch()
                    if batch:
                        await self._send(batch)
            finally:
                self._sending.release()
        finally:
            self._waiting.remove(waiting)
        if waiting.error is not None:
            raise waiting.error
        assert waiting.entry is not None
        return waiting.entry

    def _next_batch(self) -> list[tuple[_Waiting, _Prepared]]:
        """Return who is to be sent now, and give those whose cell is written what is written."""
        batch: list[tuple[_Waiting, _Prepared]] = []
        cells: set[tuple[str, str, str]] = set()
        for waiting in self._waiting:
            draft = waiting.draft
            if waiting.entry is not None or waiting.error is not None or (waiting.alone and batch):
                continue
            names = len(self._names)
            try:
                if draft.kind is Kind.COMMIT:
                    waiting.entry = self._stored(draft)
                    cell = draft.run, draft.step, draft.branch
                    if waiting.entry is not None or cell in cells:
                        continue  # the same step twice at once: the next round finds the result of the first
                    cells.add(cell)
                batch.append((waiting, self._prepared(draft)))
            except Exception as error:
                self._names.cut_back(names)
                waiting.error = error
            if waiting.alone:
                break
        return batch

    async def _send(self, batch: Sequence[tuple[_Waiting, _Prepared]]) -> None:
        """Send a batch in one append. Who is left without an entry or an error is to be sent again."""
        new = [NewEntry(made.header.digest + made.body, made.payload, made.blocks) for _, made in batch]
        try:
            await self.store.append(self.key, new, after=self.log.revision)
        except BaseException as error:
            # Names are numbered in the order of the log, and these have not become a part of it.
            self._names.cut_back(self._known_names)
            if isinstance(error, Behind):
                await self._catch_up(error)
            else:
                await self._failed(batch, error)
            return
        self._trim()
        for waiting, made in batch:
            waiting.entry = self._arrived(made)
        self._known_names = len(self._names)

    async def _catch_up(self, behind: Behind) -> None:
        before = self.log.revision
        await self._read_on()
        if self.log.revision == before:
            raise CorruptState(
                f"session {self.key.session!r} has fewer entries than when it was read",
                hint="the store was set back, by a backup perhaps; open the session again",
            ) from behind

    async def _failed(self, batch: Sequence[tuple[_Waiting, _Prepared]], error: BaseException) -> None:
        """Find out what landed, then decide for whom the error counts."""
        for waiting, made in batch:
            waiting.sent += (made.header.digest,)
        with suppress(StatepactError):
            await self._read_on()
        if not isinstance(error, Exception):
            raise error  # this task was cancelled; the others of the batch wait on
        missing = [waiting for waiting, _ in batch if waiting.entry is None]
        for waiting in missing:
            # One bad commit must not fail the others. Waiting once more for each, though, helps nobody.
            if len(batch) > 1 and not isinstance(error, StoreTimeout):
                waiting.alone = True
            else:
                waiting.error = error

    def _stored(self, draft: Draft) -> Entry | None:
        run = self.log.runs.get(draft.run)
        entry = run.by_cell.get((draft.step, draft.branch)) if run else None
        if entry is None:
            return None
        if entry.header.input_digest != draft.input_digest:
            raise StepIdReused(
                f"step {draft.step!r} of run {draft.run!r} has already committed a result for other inputs",
                hint="give a repeated step its own branch name, or start a new run",
            )
        return entry

    def _prepared(self, draft: Draft) -> _Prepared:
        salt = new_salt()
        leaves = [leaf_digest(salt, number, parts.stored) for number, (_, parts) in enumerate(draft.documents)]
        if draft.extra:
            leaves.append(leaf_digest(salt, len(leaves), draft.extra))
        header = Header(
            kind=draft.kind,
            at=draft.at,
            run=draft.run,
            step=draft.step,
            branch=draft.branch,
            salt=salt,
            input_digest=draft.input_digest,
            cells=tuple([CellSize(contract, len(parts.stored)) for contract, parts in draft.documents]),
            reads=draft.reads,
        )
        body = encode_body(header, self._names)
        header.digest = entry_digest(body, leaves)
        whole = [parts.document or parts.stored for _, parts in draft.documents]
        if len(draft.documents) == 1 and not draft.extra:
            parts = draft.documents[0][1]
            return _Prepared(header, body, parts.stored, parts.blocks, whole)
        payload = b"".join([*(parts.stored for _, parts in draft.documents), draft.extra])
        blocks = tuple([block for _, parts in draft.documents for block in parts.blocks])
        return _Prepared(header, body, payload, blocks, whole)

    def _arrived(self, made: _Prepared) -> Entry:
        """Add an acknowledged entry to the log."""
        entry = self.log.add(self.log.revision + 1, made.header, made.body)
        payload = made.payload
        entry.extra = payload[sum([cell.size for cell in entry.cells]) :]
        for cell, document in zip(entry.cells, made.documents, strict=True):
            self._keep_as(cell, payload[cell.offset : cell.offset + cell.size], document)
        return entry

    # -- reading ---------------------------------------------------------------------------------

    async def fetch(self, cells: Iterable[Cell]) -> None:
        """Make sure that `document` is there for each of these cells, with as few reads as possible.

        It stays there until the next call that reads or commits, so use it before you await anything.
        """
        wanted = tuple(cells)
        if not any(cell.document is None for cell in wanted):
            return
        self._trim()  # may drop some of those that are wanted
        missing = [cell for cell in wanted if cell.document is None]
        held = [(cell, cell.stored, cell.document) for cell in wanted if cell.document is not None]
        payloads = await self.store.payloads(self.key, {cell.revision for cell in missing})
        stored: dict[int, bytes] = {}
        addresses: set[bytes] = set()
        for cell in missing:
            payload = payloads.get(cell.revision)
            if payload is None or len(payload) < cell.offset + cell.size:
                raise CorruptState(
                    f"the value of step {cell.step!r} at revision {cell.revision} is missing or cut short",
                    hint="run `statepact verify` on the session, and restore the store from a backup",
                )
            raw = payload[cell.offset : cell.offset + cell.size]
            stored[id(cell)] = raw
            addresses.update(addresses_in(raw).values())
        blocks = await self.store.blocks(self.key, addresses) if addresses else {}
        for cell in missing:
            self._keep(cell, stored[id(cell)], blocks)
        for cell, raw_bytes, document in held:
            # Others may have fetched, and so dropped these, while we waited for the store.
            if cell.document is None and raw_bytes is not None and document is not None:
                self._keep_as(cell, raw_bytes, document)

    async def view(self, run: str) -> RunView:
        """Return a run with its values. Raises `UnknownRun`, and `CorruptState` for what cannot be read."""
        log = self.log.runs.get(run)
        if log is None:
            raise UnknownRun(
                f"session {self.key.session!r} has no run {run!r}",
                hint=f"it has: {', '.join(list(self.log.runs)[-10:]) or 'none'}",
            )
        cells: dict[tuple[int, int], CellView] = {}
        entries: list[EntryView] = []
        for start in range(0, len(log.entries), VIEWED_AT_ONCE):
            some = log.entries[start : start + VIEWED_AT_ONCE]
            payloads = await self._payloads(some)
            for entry in some:
                for cell in entry.cells:
                    cells[cell.revision, cell.number] = _cell_view(cell)
                entries.append(_entry_view(entry, cells, payloads.get(entry.revision)))
        return RunView(self.key.owner, self.key.session, run, tuple(entries))

    async def _payloads(self, entries: Sequence[Entry]) -> Mapping[int, bytes]:
        await self.fetch(cell for entry in entries for cell in entry.cells)
        missing = [entry.revision for entry in entries if entry.extra is None]
        return await self.store.payloads(self.key, missing) if missing else {}

    def _keep(self, cell: Cell, stored: bytes, blocks: Mapping[bytes, bytes]) -> None:
        if cell.document is not None:
            return  # two readers fetched it at once
        self._keep_as(cell, stored, put_together(stored, blocks) if blocks or b"\x00" in stored else stored)

    def _keep_as(self, cell: Cell, stored: bytes, document: bytes) -> None:
        cell.stored = stored
        cell.document = document
        self._kept.append(cell)
        self._kept_bytes += len(document)

    def _trim(self) -> None:
        # Runs before something is added, never after: what a caller has just fetched stays until
        # it had the chance to use it.
        while self._kept and self._kept_bytes > KEPT_BYTES:
            oldest = self._kept.popleft()
            self._kept_bytes -= len(oldest.document or b"")
            oldest.stored = oldest.document = None


def _cell_view(cell: Cell) -> CellView:
    try:
        # Not orjson, which reads integers of more than 64 bits as floats.
        values = from_json(cell.document or b"")
    except ValueError as error:
        raise CorruptState(
            f"the value of step {cell.step!r} at revision {cell.revision} cannot be read",
            hint="run `statepact verify` on the session, and restore the store from a backup",
        ) from error
    return CellView(cell.revision, cell.number, cell.step, cell.branch, cell.contract, values)


def _entry_view(entry: Entry, cells: Mapping[tuple[int, int], CellView], payload: bytes | None) -> EntryView:
    header = entry.header
    raw = entry.extra if entry.extra is not None else (payload or b"")[sum(cell.size for cell in entry.cells) :]
    try:
        extra = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise CorruptState(f"the record of revision {entry.revision} cannot be read") from error
    return EntryView(
        entry.revision,
        header.kind,
        header.at,
        header.step,
        header.branch,
        tuple(cells[cell.revision, cell.number] for cell in entry.cells),
        tuple(
            ReadView(cells[read.revision, read.cell], read.reached, read.mask, read.declared)
            for read in header.reads
            if (read.revision, read.cell) in cells
        ),
        extra,
    )
