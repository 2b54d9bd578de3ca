"""One session's log, opened from a store for committing: each cell exactly once.

The store compares and appends; here is what that makes possible. A cell is written once: a second
write of the same step with the same inputs gets the stored result, with other inputs an error.
Branches that commit while another's commit is being flushed go together in the next one, and a
writer in another process is noticed by the store (`Behind`), read, and taken into account.

Never more than one append of an open log is under way. An entry numbers its names after the entries
before it, so one that is sent before its predecessor is known to have landed could end up behind a
stranger's entry and say something else there, with a correct digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from statepact.errors import (
    Behind,
    CorruptState,
    Deleted,
    KeyMissing,
    LeaseLost,
    SessionHeld,
    SharedConflict,
    StatepactError,
    StepIdReused,
    StoreError,
    StoreTimeout,
)
from statepact.ledger._cells import Entry
from statepact.ledger._derived import may_have_brought
from statepact.ledger._described import described
from statepact.ledger._digest import DIGEST_SIZE
from statepact.ledger._header import Header, Kind, Names
from statepact.ledger._key import REQUEST_STEP, SessionKey
from statepact.ledger._keyed import key_of_session, same_tag, tag_of
from statepact.ledger._pinned import all_reads
from statepact.ledger._vault import KeyRing
from statepact.stores._base import Hold, NewEntry, Rewrite, Store
from statepact.stores._draft import Draft, Prepared, Requirement, belongs_to, ends, new_entry, prepared, refused
from statepact.stores._log_reader import LogReader


@dataclass(slots=True, eq=False)
class _Waiting:
    """A draft that somebody waits for: it ends with an entry or an error."""

    draft: Draft
    held: bool
    """Only to be kept as long as we hold the session."""
    entry: Entry | None = None
    error: BaseException | None = None
    alone: bool = False
    """It was in a batch that failed, so it must not take others with it again."""
    sent: tuple[bytes, ...] = ()
    """Digests of the attempts of which nobody knows whether they landed."""


class OpenLog(LogReader):
    """A session's log together with the store that holds it.

    Belongs to one event loop at a time. Open one for each run; several on the same session, in one
    process or many, are safe beside each other.
    """

    def __init__(
        self, store: Store, key: SessionKey, *, keys: KeyRing | None = None, log_key: bytes | None = None
    ) -> None:
        super().__init__(store, key, keys=keys)
        self._tag_key = key_of_session(log_key, key) if log_key is not None else None
        self.hold: Hold | None = None
        """Our claim on the session: entries of its run are only kept while it is ours."""
        self.lost: LeaseLost | None = None
        """Set once somebody else has taken over: nothing more of that run can be committed here."""
        import asyncio

        self._sending = asyncio.Lock()
        self._waiting: list[_Waiting] = []

    @classmethod
    async def open(
        cls, store: Store, key: SessionKey, *, keys: KeyRing | None = None, log_key: bytes | None = None
    ) -> OpenLog:
        """Open a session and read its headers; a session that does not exist yet is empty.

        With `log_key` every entry gets a tag, and the tags of those that are there are checked. Raises
        `KeyMissing` if the first of them is of another key, `CorruptState` if a later one is.
        """
        opened = cls(store, key, keys=keys, log_key=log_key)
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
        await self.read_on()
        # An attempt may have landed although its answer was lost.
        for waiting in self._waiting:
            if waiting.sent and waiting.entry is None:
                landed = (entry for entry in self.log.after(before) if entry.header.digest in waiting.sent)
                waiting.entry = next(landed, None)

    def _check_tag(self, entry: Entry) -> None:
        if self._tag_key is None or not entry.header.keyed:
            return
        previous = self.log.previous_tag(entry.revision)
        if same_tag(tag_of(self._tag_key, previous, entry.header.digest, entry.revision), entry.header.tag):
            return
        what = f"the tag of revision {entry.revision} of session {self.key.session!r} was not made with this key"
        hint = "run `statepact verify --key-file` on the session: it names what was changed"
        if len(previous) == DIGEST_SIZE:
            raise KeyMissing(what, hint=f"is it the key that the log was begun with? Otherwise {hint}")
        raise CorruptState(what, hint=hint)

    # -- committing ------------------------------------------------------------------------------

    async def claim(self, hold: Hold) -> None:
        """Claim the session for a run now. Raises `SessionHeld`."""
        await self.store.hold(self.key, hold)
        self.hold = replace(hold, claim=False)

    async def append(self, draft: Draft) -> Entry:
        """Append an entry; for a commit whose cell is already written, return that entry.

        For the beginning of an effect that has begun before, or has its result, that entry is returned.

        Raises `StepIdReused` if the cell was written from other inputs, `SessionHeld` if the session
        had to be claimed and is somebody else's, `LeaseLost` if it is not ours any more (what would
        have been committed stands in the log as a refusal then), and `StoreError`.
        """
        try:
            return await self._append(draft)
        except (SessionHeld, LeaseLost) as refusal:
            if isinstance(refusal, LeaseLost):
                self.lost = refusal
            # Who only asks whether it is its turn, with the first entry of a run, has tried nothing yet.
            if draft.kind is Kind.COMMIT and draft.step != REQUEST_STEP:
                with suppress(StoreError):
                    await self._append(refused(draft, refusal))
            raise

    async def _append(self, draft: Draft) -> Entry:
        held = self.hold is not None and belongs_to(draft, self.hold)
        waiting = _Waiting(draft, held)
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

    def _next_batch(self) -> list[tuple[_Waiting, Prepared]]:
        """Return who is to be sent now, and give those whose cell is written what is written."""
        batch: list[tuple[_Waiting, Prepared]] = []
        cells: set[tuple[str, str, str]] = set()
        for waiting in self._waiting:
            draft = waiting.draft
            if waiting.entry is not None or waiting.error is not None or (waiting.alone and batch):
                continue
            if batch and waiting.held is not batch[0][0].held:
                continue
            names = len(self._names)
            try:
                if draft.kind is Kind.COMMIT or draft.begins:
                    self.must_not_be_removed(draft.run)
                    waiting.entry = self._stored(draft) or (self._begun(draft) if draft.begins else None)
                    cell = draft.run, draft.step, draft.branch
                    if waiting.entry is not None or cell in cells:
                        continue  # the same step twice at once: the next round finds the result of the first
                    if draft.requires:
                        self._refuse_if_changed(draft.requires)
                        if _met_by(draft.requires, batch):
                            continue  # the next round finds what was changed
                    cells.add(cell)
                batch.append((waiting, self._prepared(draft)))
            except Exception as error:
                self._names.cut_back(names)
                waiting.error = error
            if waiting.alone:
                break
        return batch

    async def _send(self, batch: Sequence[tuple[_Waiting, Prepared]]) -> None:
        """Send a batch in one append. Who is left without an entry or an error is to be sent again."""
        self._tag([made.header for _, made in batch])
        new = [new_entry(waiting.draft, made) for waiting, made in batch]
        hold = self.hold if batch[0][0].held else None
        if hold is not None and any(ends(waiting.draft, hold) for waiting, _ in batch):
            hold = replace(hold, seconds=0.0)
        try:
            await self.store.append(self.key, new, after=self.log.revision, hold=hold)
        except BaseException as error:
            # Names are numbered in the order of the log, and these have not become a part of it.
            self._names.cut_back(self._known_names)
            if isinstance(error, Behind):
                await self._catch_up(error)
            elif isinstance(error, (SessionHeld, LeaseLost)):
                for waiting, _ in batch:
                    waiting.error = error
            else:
                await self._failed(batch, error)
            return
        if hold is not None:
            # From here on it is ours to keep or to lose. After a seal it is nobody's.
            self.hold = replace(hold, claim=False) if hold.seconds else None
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

    async def _failed(self, batch: Sequence[tuple[_Waiting, Prepared]], error: BaseException) -> None:
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

    def _refuse_if_changed(self, requires: Sequence[Requirement]) -> None:
        """Raise `SharedConflict` if somebody has changed what a draft was made from.

        The store appends only if the session is still at the revision that is looked at here.
        """
        for needed in requires:
            for cell in reversed(self.log.shared.get(needed.contract, ())):
                if cell.revision <= needed.revision:
                    break
                same = cell.contract.version == needed.version
                if changed := [name for name in cell.touched if name in needed.fields or not same]:
                    raise SharedConflict(
                        cell.contract.label, fields=changed, winner=cell.writer, run=cell.run, revision=cell.revision
                    )

    def _begun(self, draft: Draft) -> Entry | None:
        run = self.log.runs.get(draft.run)
        return run.begun.get((draft.step, draft.branch)) if run else None

    def _tag(self, headers: Iterable[Header]) -> None:
        """Give the next entries their tags."""
        if self._tag_key is None:
            return
        revision = self.log.revision
        previous = self.log.previous_tag(revision + 1)
        for header in headers:
            revision += 1
            previous = header.tag = tag_of(self._tag_key, previous, header.digest, revision)

    def _refuse_what_is_gone(self, draft: Draft, header: Header) -> None:
        """Raise `Deleted` if a draft was made from values that were erased after its maker has read them."""
        if draft.as_of is None or not self.log.erased_at:
            return
        for read in all_reads(self.log, header):
            place = read.revision, read.cell
            at = self.log.erased_at.get(place, 0)
            if at > draft.as_of and may_have_brought(read, self.log.claims[place].fields, self.log):
                raise Deleted(
                    f"what step {draft.step!r} of run {draft.run!r} had read has been erased since",
                    hint="its result is not kept, because it would bring back what was erased",
                )

    def tag(self, previous: bytes, digest: bytes, revision: int) -> bytes:
        """Return the tag of an entry; raises `KeyMissing` if the key of the log was not given."""
        if self._tag_key is None:
            raise self._no_key()
        return tag_of(self._tag_key, previous, digest, revision)

    def _no_key(self) -> KeyMissing:
        return KeyMissing(
            f"session {self.key.session!r} is kept under a log key, and none was given",
            hint="pass log_key=, or set STATEPACT_LOG_KEY",
        )

    def _prepared(self, draft: Draft) -> Prepared:
        if self._tag_key is None and self.log.entries and self.log.entries[-1].header.keyed:
            raise self._no_key()
        made = prepared(draft, self._names, keyed=self._tag_key is not None)
        self._refuse_what_is_gone(draft, made.header)
        return made

    def entry_of(self, draft: Draft) -> NewEntry:
        """Return what a draft would be at the end of the log as it was read; it is neither sent nor remembered."""
        try:
            made = self._prepared(draft)
            self._tag([made.header])
            return new_entry(draft, made)
        finally:
            self._names.cut_back(self._known_names)

    async def rewrite(self, change: Rewrite, draft: Draft) -> Entry:
        """Change what is stored and append the entry that says so, all or nothing.

        Raises `Behind` if somebody has committed since the log was read, and `StoreError`. Read the log
        anew afterwards: what this object knows of changed entries is old.
        """
        async with self._sending:
            try:
                made = self._prepared(draft)
                self._tag([made.header])
                await self.store.rewrite(self.key, change, [new_entry(draft, made)], after=self.log.revision)
            except BaseException:
                self._names.cut_back(self._known_names)
                raise
            entry = self._arrived(made)
            self._known_names = len(self._names)
            return entry

    def _arrived(self, made: Prepared) -> Entry:
        """Add an acknowledged entry to the log."""
        entry = self.log.add(self.log.revision + 1, made.header, made.body)
        payload = made.payload
        entry.extra = payload[sum([cell.size for cell in entry.cells]) :]
        for cell, document, leaf in zip(entry.cells, made.documents, made.leaves, strict=False):
            cell.leaf = leaf
            self._keep_as(cell, payload[cell.offset : cell.offset + cell.size], document)
        if entry.extra:
            self._note_unset(entry)
        return entry


def _met_by(requires: Sequence[Requirement], batch: Sequence[tuple[_Waiting, Prepared]]) -> bool:
    """Whether a draft of the batch changes a shared value that another one was made from."""
    names = {needed.contract for needed in requires}
    return any(
        document.shared and described(document.contract).name in names
        for waiting, _ in batch
        for document in waiting.draft.documents
    )
