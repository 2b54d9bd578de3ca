"""One session's log, opened from a store: reading lazily, committing exactly once.

The store compares and appends; here is what that makes possible. A cell is written once: a second
write of the same step with the same inputs gets the stored result, with other inputs an error.
Branches of one process commit without waiting for each other's flush, and a writer in another
process is noticed by the store (`Behind`), read, and taken into account.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from statepact.errors import Behind, CorruptState, StepIdReused, UnknownRun
from statepact.ledger._blocks import Parts, addresses_in, put_together
from statepact.ledger._digest import INPUT_DIGEST_SIZE, entry_digest, leaf_digest, new_salt
from statepact.ledger._header import CellSize, Header, Kind, Names, Read, encode_body
from statepact.ledger._key import SessionKey
from statepact.ledger._log import Cell, Entry, SessionLog
from statepact.ledger._view import CellView, EntryView, ReadView, RunView
from statepact.stores._base import NewEntry, Store

if TYPE_CHECKING:
    import asyncio

VIEWED_AT_ONCE = 100
"""Entries whose values are fetched together when a whole run is read."""

KEPT_BYTES = 4 * 2**20
"""Stored bytes of cells that an open log keeps in memory; older ones are read again when needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
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


class OpenLog:
    """A session's log together with the store that holds it.

    Belongs to one event loop at a time. Open one for each run; several on the same session, in one
    process or many, are safe beside each other.
    """

    def __init__(self, store: Store, key: SessionKey) -> None:
        self.store = store
        self.key = key
        self.log = SessionLog(key)
        self._tail = 0
        self._in_flight: dict[int, tuple[Header, bytes, bytes, tuple[tuple[bytes, bytes], ...]]] = {}
        self._writing: dict[tuple[str, str, str], asyncio.Event] = {}
        self._generation = 0
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
        if self._in_flight:
            return
        for stored in await self.store.headers(self.key, after=self.log.revision):
            if stored.revision == self.log.revision + 1:
                self.log.read(stored.revision, stored.header)
            elif stored.revision > self.log.revision:
                raise CorruptState(
                    f"session {self.key.session!r} has no revision {self.log.revision + 1}",
                    hint="entries are missing; restore the store from a backup",
                )
        self._tail = self.log.revision

    # -- committing ------------------------------------------------------------------------------

    async def append(self, draft: Draft) -> Entry:
        """Append an entry; for a commit whose cell is already written, return that entry.

        Raises `StepIdReused` if the cell was written from other inputs, and `StoreError`.
        """
        cell = (draft.run, draft.step, draft.branch)
        while True:
            if draft.kind is Kind.COMMIT:
                if (stored := self._stored(draft)) is not None:
                    return stored
                if (writing := self._writing.get(cell)) is not None:
                    await writing.wait()
                    continue
            generation = self._generation
            header, body, payload, blocks = self._prepare(draft)
            self._tail = revision = self._tail + 1
            self._in_flight[revision] = header, body, payload, blocks
            if draft.kind is Kind.COMMIT:
                self._claim(cell)
            try:
                new = NewEntry(header.digest + body, payload, blocks)
                await self.store.append(self.key, (new,), after=revision - 1)
            except Behind:
                await self._start_over(generation)
                continue
            except BaseException:
                # Whatever the reason, memory may now be ahead of the store: forget and read again.
                await self._start_over(generation)
                raise
            finally:
                if draft.kind is Kind.COMMIT:
                    self._release(cell)
            if generation == self._generation:
                self._arrive(revision)
            elif self.log.revision < revision:
                await self.refresh()
            return self.log.entries[revision - 1]

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

    def _prepare(self, draft: Draft) -> tuple[Header, bytes, bytes, tuple[tuple[bytes, bytes], ...]]:
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
        object.__setattr__(header, "digest", entry_digest(body, leaves))
        if len(draft.documents) == 1 and not draft.extra:
            parts = draft.documents[0][1]
            return header, body, parts.stored, parts.blocks
        payload = b"".join([*(parts.stored for _, parts in draft.documents), draft.extra])
        return header, body, payload, tuple([block for _, parts in draft.documents for block in parts.blocks])

    def _arrive(self, revision: int) -> None:
        """Make everything up to an acknowledged revision visible, in order."""
        self._trim()
        for number in range(self.log.revision + 1, revision + 1):
            header, body, payload, blocks = self._in_flight.pop(number)
            entry = self.log.add(number, header, body)
            entry.extra = payload[sum([cell.size for cell in entry.cells]) :]
            by_address = dict(blocks) if blocks else {}
            for cell in entry.cells:
                self._keep(cell, payload[cell.offset : cell.offset + cell.size], by_address)

    def _claim(self, cell: tuple[str, str, str]) -> None:
        import asyncio

        self._writing[cell] = asyncio.Event()

    def _release(self, cell: tuple[str, str, str]) -> None:
        writing = self._writing.pop(cell, None)
        if writing is not None:
            writing.set()

    async def _start_over(self, generation: int) -> None:
        if generation != self._generation:
            return
        self._generation += 1
        self._in_flight.clear()
        self.log = SessionLog(self.key)
        await self.refresh()

    # -- reading ---------------------------------------------------------------------------------

    async def fetch(self, cells: Iterable[Cell]) -> None:
        """Make sure that `document` is there for each of these cells, with as few reads as possible.

        It stays there until the next call that reads or commits, so use it before you await anything.
        """
        missing = [cell for cell in cells if cell.document is None]
        if not missing:
            return
        self._trim()
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
        cell.stored = stored
        cell.document = put_together(stored, blocks) if blocks or b"\x00" in stored else stored
        self._kept.append(cell)
        self._kept_bytes += len(cell.document)

    def _trim(self) -> None:
        # Runs before something is added, never after: what a caller has just fetched stays until
        # it had the chance to use it.
        while self._kept_bytes > KEPT_BYTES:
            oldest = self._kept.popleft()
            self._kept_bytes -= len(oldest.document or b"")
            oldest.stored = oldest.document = None


def _cell_view(cell: Cell) -> CellView:
    try:
        values = orjson.loads(cell.document or b"")
    except orjson.JSONDecodeError as error:
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
