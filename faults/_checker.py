"""What must hold after every fault, whatever the store: the invariants I1 to I9 of the programme.

Two numbers come out. *Lost* are commits that were acknowledged and are not there: whole, with their
value, in an order that fits, and found by what they are about. *Duplicated* are those that are there
and should not be: twice, although they were refused, or never tried by anybody. Both with a remark.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from faults._facts import Cell, order_of, value_of
from faults._ledger import Books
from faults._worker import OWNER, RAW, batch_of
from statepact.errors import StatepactError
from statepact.ledger import SessionKey, session_key
from statepact.ledger._header import Kind
from statepact.stores import Store, open_store
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify

EVERYTHING = 1_000_000


@dataclass
class Findings:
    """What a check has found."""

    committed: int = 0
    lost: set[str] = field(default_factory=set)
    duplicated: set[str] = field(default_factory=set)
    indeterminate: int = 0
    remarks: list[str] = field(default_factory=list)
    present: set[str] = field(default_factory=set)

    @property
    def ok(self) -> bool:
        return not (self.lost or self.duplicated or self.remarks)

    def lose(self, names: Iterable[str], why: str) -> None:
        for name in names:
            self.lost.add(name)
            self.remark(f"{name}: {why}")

    def surplus(self, name: str, why: str) -> None:
        self.duplicated.add(name)
        self.remark(f"{name}: {why}")

    def remark(self, text: str) -> None:
        if len(self.remarks) < 20:
            self.remarks.append(text)


def check(url: str, books: Books) -> Findings:
    """Open a store anew and compare it with the books."""

    async def opened() -> Findings:
        async with open_store(url) as store:
            return await check_store(store, books)

    return asyncio.run(opened())


async def check_store(store: Store, books: Books) -> Findings:
    """Compare a store with the books."""
    found = Findings(committed=len(books.committed), indeterminate=len(books.indeterminate))
    for strange in books.strange:
        found.remark(f"an error that no user should see: {strange}")
    places: dict[str, tuple[str, int]] = {}
    try:
        for owner in {OWNER, RAW} | set(await store.owners()):
            if owner not in (OWNER, RAW):
                found.remark(f"owner {owner!r} has sessions and committed nothing")
            for info in await store.sessions(owner):
                key = session_key(owner, info.session)
                read = _read_batches if owner == RAW else _read_session
                await read(store, key, found, places)
        await _check_index(store, found, places)
    except StatepactError as error:
        found.remark(f"the store cannot be read: {error}")
    found.present = set(places)
    found.lose(sorted(books.committed - found.present - found.lost), "acknowledged, and not there")
    for name in sorted(found.present & books.refused):
        found.surplus(name, f"there, although refused with {books.records[name].error}")
    for name in sorted(found.present - set(books.records)):
        found.surplus(name, "there, and nobody has tried to commit it")
    _check_order(books, found, places)
    return found


async def _read_session(store: Store, key: SessionKey, found: Findings, places: dict[str, tuple[str, int]]) -> None:
    verdict = await verify(store, key)
    for fault in verdict.faults:
        found.remark(f"{key.session}: {fault}")
    bad = {fault.revision for fault in verdict.faults}
    try:
        log = await OpenLog.open(store, key)
    except StatepactError as error:
        found.remark(f"{key.session} cannot be opened: {error}")
        return
    for entry in log.log.entries:
        if entry.header.kind is not Kind.COMMIT or entry.revision in bad:
            continue
        header = entry.header
        name = str(Cell(key.owner, key.session, header.run, header.step, header.branch))
        if not header.step or name.split("/")[3] not in _STEPS:
            continue  # the request that opens a run
        try:
            await log.fetch(entry.cells)
            value = orjson.loads(entry.cells[0].document or b"")
        except (StatepactError, ValueError) as error:
            found.remark(f"{name} cannot be read: {error}")
            continue
        if name in places:
            found.surplus(name, f"at revision {places[name][1]} and at {entry.revision}")
        if value != value_of(name):
            found.remark(f"{name} has the value of {value.get('id')!r}")
            continue
        places.setdefault(name, (key.session, entry.revision))


_STEPS = {"plan", *(f"s{n}" for n in range(100))}


async def _read_batches(store: Store, key: SessionKey, found: Findings, places: dict[str, tuple[str, int]]) -> None:
    headers = await store.headers(key)
    revisions = [stored.revision for stored in headers]
    if revisions != list(range(1, len(headers) + 1)):
        found.remark(f"{key.session}: revisions are not 1 to {len(headers)}")
    payloads = await store.payloads(key, revisions)
    stored = {one.revision: (one.header, payloads.get(one.revision)) for one in headers}
    at = 0
    while at < len(headers):
        name = headers[at].header.decode(errors="replace").removeprefix("header of ").partition("#")[0]
        expected = batch_of(name) if name.count("/") == 4 else []
        there = [stored.get(revisions[at] + n) for n in range(3)]
        if not expected or there != [(entry.header, entry.payload) for entry in expected]:
            found.remark(f"{key.session}: revision {revisions[at]} is a torn batch, or half of one")
            at += 1
            continue
        blocks = dict(expected[1].blocks)
        if await store.blocks(key, blocks) != blocks:
            found.remark(f"{name}: its large value is missing or not what was committed")
        elif name in places:
            found.surplus(name, f"at revision {places[name][1]} and at {revisions[at]}")
        else:
            places[name] = key.session, revisions[at]
        at += 3


async def _check_index(store: Store, found: Findings, places: dict[str, tuple[str, int]]) -> None:
    for owner, kind in ((OWNER, "order"), (RAW, "batch")):
        listed = {(use.value, use.session) for use in await store.entities(owner, most=EVERYTHING) if use.kind == kind}
        expected: dict[tuple[str, str], list[str]] = {}
        for name, (session, _) in places.items():
            about = name if owner == RAW else order_of(name) if name.split("/")[3] != "plan" else ""
            if name.startswith(owner + "/") and about:
                expected.setdefault((about, session), []).append(name)
        for pair in expected.keys() - listed:
            found.lose(expected[pair], f"there, and not found by {kind} {pair[0]}")
        for value, session in listed - expected.keys():
            found.remark(f"{session} is found by {kind} {value}, which no fact of it is about")


def _check_order(books: Books, found: Findings, places: dict[str, tuple[str, int]]) -> None:
    """A fact that was acknowledged before another one was tried must stand before it."""
    by_session: dict[str, list[tuple[int, str]]] = {}
    for name, (session, revision) in places.items():
        by_session.setdefault(name.split("/")[0] + "/" + session, []).append((revision, name))
    for session, entries in by_session.items():
        earliest = None
        for _, name in sorted(entries, reverse=True):
            record = books.records.get(name)
            if record is None:
                continue
            if earliest is not None and earliest < record.tried:
                found.remark(f"{session}: {name} stands before what was acknowledged before it was tried")
            if record.acked:
                earliest = min(record.acked, earliest or record.acked)
