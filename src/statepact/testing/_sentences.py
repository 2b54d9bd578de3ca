"""What the store suite is written in: short helpers, and stores that behave badly on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from statepact.errors import Behind, StoreFull, StoreTimeout
from statepact.ledger import Entry, SessionKey
from statepact.ledger._blocks import take_apart
from statepact.ledger._header import Kind
from statepact.stores._base import EntityUse, Hold, NewEntry, Rewrite, SessionInfo, Store, StoredHeader
from statepact.stores._draft import Document, Draft
from statepact.stores._open_log import OpenLog

NOTE = "Note 1.0|text"
"""The contract under which `said` commits."""


# -- entries as bytes ------------------------------------------------------------------------------


def entry(text: str, *, blocks: tuple[tuple[bytes, bytes], ...] = ()) -> NewEntry:
    """Return an entry whose payload is a text; its header can be told from all others by it."""
    return NewEntry(b"header of " + text.encode(), text.encode(), blocks)


async def add(store: Store, key: SessionKey, *texts: str) -> None:
    """Append entries at the end of a session, all in one append."""
    await store.append(key, [entry(text) for text in texts], after=await revision(store, key))


async def revision(store: Store, key: SessionKey) -> int:
    """Return the revision of a session."""
    return len(await store.headers(key))


async def texts(store: Store, key: SessionKey) -> list[str]:
    """Return the payloads of a session in order, and insist on gaplessness and matching headers."""
    headers = await store.headers(key)
    payloads = await store.payloads(key, [stored.revision for stored in headers])
    assert [stored.revision for stored in headers] == list(range(1, len(headers) + 1))
    assert [stored.header for stored in headers] == [b"header of " + payloads[n + 1] for n in range(len(headers))]
    return [payloads[stored.revision].decode() for stored in headers]


async def won(store: Store, key: SessionKey, text: str, *, after: int) -> bool:
    """Try to append; return whether the session was still at that revision."""
    try:
        await store.append(key, [entry(text)], after=after)
    except Behind:
        return False
    return True


# -- steps of an open log --------------------------------------------------------------------------


def said(
    step: str, text: str = "", *, branch: str = "", run: str = "r-1", given: str = "", owner: str = "acme"
) -> Draft:
    """Return the draft of a step that says `text`; `given` stands for what it was given."""
    document = b'{"text":"' + (text or step).encode() + b'"}'
    return Draft(
        at=1_767_225_600_000,
        run=run,
        step=step,
        branch=branch,
        input_digest=given.encode().ljust(16, b".")[:16],
        documents=[Document(NOTE, take_apart(owner, document))],
    )


def remark(text: str) -> Draft:
    """Return the draft of an entry that is not state."""
    return Draft(kind=Kind.ATTEMPT, at=1, run="r-1", step="remark", extra=b'{"error":"' + text.encode() + b'"}')


async def transcript(store: Store, key: SessionKey) -> list[str]:
    """Return `run step/branch: text` of each commit, as somebody reads it who has just opened the log."""
    opened = await OpenLog.open(store, key)
    lines = []
    for one in opened.log.entries:
        for cell in one.cells:
            await opened.fetch([cell])
            text = (cell.document or b"")[9:-2].decode()
            lines.append(f"{cell.run} {cell.writer}: {text}")
    return lines


async def all_at_once(log: OpenLog, *drafts: Draft) -> list[Entry]:
    """Append drafts at the same time; return their entries."""
    return list(await asyncio.gather(*(log.append(draft) for draft in drafts)))


async def each_at_once(log: OpenLog, *drafts: Draft) -> list[Entry | BaseException]:
    """Append drafts at the same time; return entry or error of each."""
    return list(await asyncio.gather(*(log.append(draft) for draft in drafts), return_exceptions=True))


# -- stores that behave badly ------------------------------------------------------------------------


class Hesitant:
    """Lets other tasks run before and after everything, as a store behind a network does."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.appends = 0
        """How many appends were tried."""

    @property
    def promise(self) -> str:
        return self.store.promise

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        self.appends += 1
        await _turns(2)
        await self.store.append(key, entries, after=after, hold=hold)
        await _turns(2)

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        await _turns(1)
        found = await self.store.headers(key, after=after)
        await _turns(2)
        return found

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        await _turns(1)
        found = await self.store.payloads(key, revisions)
        await _turns(1)
        return found

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        await _turns(1)
        return await self.store.blocks(key, addresses)

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        await _turns(2)
        await self.store.rewrite(key, change, entries, after=after)
        await _turns(2)

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        await _turns(2)
        await self.store.hold(key, hold)
        await _turns(2)

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        await _turns(1)
        return await self.store.changed(key, after=after, within=within)

    async def owners(self) -> Sequence[str]:
        await _turns(1)
        return await self.store.owners()

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        await _turns(1)
        return await self.store.sessions(owner)

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        await _turns(1)
        return await self.store.entities(owner, kind=kind, value=value, most=most)

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Refusing(Hesitant):
    """Has no room for an append that holds a certain text."""

    def __init__(self, store: Store, text: str) -> None:
        super().__init__(store)
        self.text: str | None = text
        """What is refused, `None` once there is room."""

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        self.appends += 1
        await _turns(2)
        if self.text is not None and any(self.text.encode() in one.payload for one in entries):
            raise StoreFull("no room left")
        await self.store.append(key, entries, after=after, hold=hold)


class Forgetful(Hesitant):
    """Keeps the entries of an append, then says that it has timed out; once."""

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        await super().append(key, entries, after=after, hold=hold)
        if self.appends == 1:
            raise StoreTimeout("no answer")
