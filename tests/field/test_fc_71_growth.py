"""FC-71: snapshots grew with the square of the session, because each held all that had not changed."""

from __future__ import annotations

import random
import time
from pathlib import Path
from statistics import median

import psycopg
import pytest

from statepact import MemoryStore, Store
from statepact.ledger import SessionKey
from statepact.ledger._blocks import take_apart
from statepact.stores import Rewrite
from statepact.stores._draft import Document, Draft
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify

KEY = SessionKey("acme", "long")
STEPS = 500
CONSTANT = random.Random(71).randbytes(100_000).hex()
"""200 KB that every step has in its state."""


def state(number: int) -> bytes:
    """The whole state after a step: the constant part and 1 KB of new text."""
    return f'{{"constant":"{CONSTANT}","text":"{random.Random(number).randbytes(500).hex()}"}}'.encode()


def wrote(number: int, document: bytes) -> Draft:
    parts = take_apart(KEY.owner, document)
    return Draft(at=1, run="r", step=f"s{number}", documents=[Document("State 1.0|constant,text", parts)])


def stored_bytes(backend: str, store: Store, url: str, folder: Path) -> int:
    """What it takes: on disk with indexes and log for a file, tables with indexes for a server."""
    if isinstance(store, MemoryStore):
        (session,) = store._sessions.values()
        return sum(map(len, session.blocks.values())) + sum(len(h) + len(p) for h, p in session.entries)
    if backend == "sqlite":
        return sum(file.stat().st_size for file in folder.glob("state.db*"))
    place, _, schema = url.partition("&schema=")
    with psycopg.connect(place) as db:
        row = db.execute(
            "select sum(pg_total_relation_size(oid)) from pg_class"
            " where relnamespace = %s::regnamespace and relkind = 'r'",
            (schema,),
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def measured(backend: str) -> None:
    if backend not in ("memory", "sqlite", "postgres"):
        pytest.skip(f"how much {backend} stores is measured with its own tests")


@pytest.mark.usefixtures("measured")
async def test_unchanged_parts_are_stored_once(store: Store, backend: str, store_url: str, tmp_path: Path) -> None:
    """500 steps take less than 5 MB instead of 100, the last ones as long as the first, and all come back."""
    log = await OpenLog.open(store, KEY)
    took: list[float] = []
    for number in range(STEPS):
        draft = wrote(number, state(number))
        begin = time.perf_counter()
        await log.append(draft)
        took.append(time.perf_counter() - begin)

    assert stored_bytes(backend, store, store_url, tmp_path) < 5_000_000
    assert median(took[-50:]) < 2 * median(took[5:55])

    again = await OpenLog.open(store, KEY)
    for number in (0, 1, 249, STEPS - 1):
        (cell,) = again.log.entries[number].cells
        await again.fetch([cell])
        assert cell.document == state(number)
    assert (await verify(store, KEY)).ok


async def test_removing_old_entries_does_not_break_the_kept_ones(store: Store) -> None:
    """The part that all share was stored with the first entry; it stays when that one goes."""
    log = await OpenLog.open(store, KEY)
    parts = take_apart(KEY.owner, state(0))
    for number in range(20):
        await log.append(wrote(number, state(number)))

    await store.rewrite(KEY, Rewrite(first=16), after=20)

    assert [stored.revision for stored in await store.headers(KEY)] == [16, 17, 18, 19, 20]
    assert len(await store.payloads(KEY, range(1, 21))) == 5
    ((address, data),) = parts.blocks
    assert dict(await store.blocks(KEY, [address])) == {address: data}
