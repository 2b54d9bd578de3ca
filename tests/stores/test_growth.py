"""What a long session costs on disk, and that all of it is there afterwards."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from statepact.errors import CorruptState
from statepact.ledger import SessionKey
from statepact.ledger._blocks import Parts, take_apart
from statepact.ledger._header import Read
from statepact.stores import MemoryStore, SqliteStore, Store
from statepact.stores._draft import Document, Draft
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify

KEY = SessionKey("acme", "long")
STEPS = 500


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "state.db") as store:
        yield store


def wrote(
    step: str, document: bytes, *, contract: str = "State 1.0|constant,text", reads: tuple[Read, ...] = ()
) -> Draft:
    parts: Parts = take_apart(KEY.owner, document)
    return Draft(at=1, run="r", step=step, documents=[Document(contract, parts)], reads=reads)


def disk_usage(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


async def document(log: OpenLog, revision: int) -> bytes | None:
    (cell,) = log.log.entries[revision - 1].cells
    await log.fetch([cell])
    return cell.document


async def test_fc_71_unchanged_parts_are_stored_once(tmp_path: Path) -> None:
    """FC-71: 500 steps, each with the same 200 KB and 1 KB of new text, take less than 5 MB, not 100."""
    path = tmp_path / "state.db"
    constant = random.Random(71).randbytes(100_000).hex()
    documents = [
        f'{{"constant":"{constant}","text":"{random.Random(n).randbytes(500).hex()}"}}'.encode() for n in range(STEPS)
    ]
    async with SqliteStore(path, durability="process") as store:
        log = await OpenLog.open(store, KEY)
        for n, whole in enumerate(documents):
            await log.append(wrote(f"s{n}", whole))

    assert disk_usage(tmp_path) < 5_000_000
    async with SqliteStore(path, read_only=True) as store:
        log = await OpenLog.open(store, KEY)
        for n in (0, 1, 249, STEPS - 1):
            assert await document(log, n + 1) == documents[n]
        assert (await verify(store, KEY)).ok


async def test_fc_65_every_reload_has_everything_written_before(store: Store) -> None:
    """FC-65: each step in a process of its own that has just opened the log; no field is ever gone."""
    known: dict[int, bytes] = {}
    for n in range(STEPS):
        log = await OpenLog.open(store, KEY)
        assert log.log.revision == n
        if n % 100 == 99:
            for revision, value in known.items():
                assert await document(log, revision) == value
        whole = f'{{"constant":"{"c" * (5000 if n % 100 == 0 else 10)}","text":"step {n}"}}'.encode()
        entry = await log.append(wrote(f"s{n}", whole))
        known[entry.revision] = whole

    log = await OpenLog.open(store, KEY)
    await log.fetch(cell for entry in log.log.entries for cell in entry.cells)
    assert {cell.revision: cell.document for entry in log.log.entries for cell in entry.cells} == known


async def test_fc_65_a_missing_part_is_reported_not_skipped(tmp_path: Path) -> None:
    """FC-65: one entry less in the middle is an error on opening, never a shorter log."""
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        log = await OpenLog.open(store, KEY)
        for n in range(5):
            await log.append(wrote(f"s{n}", b'{"text":"x"}'))
        store._db.execute("delete from entry where revision=3")  # type: ignore[union-attr]

        with pytest.raises(CorruptState, match="no revision 3"):
            await OpenLog.open(store, KEY)
        assert [fault.revision for fault in (await verify(store, KEY)).faults] == [3]


async def test_fc_65_missing_large_value_is_reported_with_its_field(tmp_path: Path) -> None:
    """FC-65: a value without its large part is not handed out without that field."""
    async with SqliteStore(tmp_path / "state.db") as store:
        log = await OpenLog.open(store, KEY)
        await log.append(wrote("s", f'{{"constant":"{"c" * 5000}","text":"x"}}'.encode()))
        store._db.execute("delete from block")  # type: ignore[union-attr]

        with pytest.raises(CorruptState, match="'constant' is missing"):
            await document(await OpenLog.open(store, KEY), 1)
        assert [fault.revision for fault in (await verify(store, KEY)).faults] == [1]


@pytest.mark.parametrize("size", [200_000, 2_000_000])
async def test_fc_15_large_output_is_there_for_the_next_reader(store: Store, size: int) -> None:
    """FC-15: once a commit is acknowledged, the next reader sees it whole, however large it is."""
    text = random.Random(size).randbytes(size // 2).hex()
    whole = f'{{"constant":"{text}","text":"stock 4"}}'.encode()
    writer, reader = await OpenLog.open(store, KEY), await OpenLog.open(store, KEY)

    entry = await writer.append(wrote("stock", whole))
    await reader.refresh()

    assert await document(writer, entry.revision) == whole
    assert await document(reader, entry.revision) == whole


async def test_fc_15_values_over_the_memory_bound_are_read_again(store: Store) -> None:
    """FC-15: an open log forgets old values to stay small; who needs them gets them from the store."""
    log = await OpenLog.open(store, KEY)
    documents = [f'{{"constant":"{n}","text":"{str(n) * 1_000_000}"}}'.encode() for n in range(9)]
    for n, whole in enumerate(documents):
        await log.append(wrote(f"s{n}", whole))

    assert sum(cell.document is not None for entry in log.log.entries for cell in entry.cells) < len(documents)
    for n in (0, 8, 3, 0):
        assert await document(log, n + 1) == documents[n]
    cells = [cell for entry in log.log.entries for cell in entry.cells]
    await log.fetch(cells)
    assert [cell.document for cell in cells] == documents
