"""The fault campaigns' own tools: a checker that sees what is wrong, and a disk that forgets as disks do."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from faults._checker import Findings, check_store
from faults._children import Child
from faults._disk import FOLDER_SYNCED, MADE, MARK, SYNC_FAILED, SYNCED, WRITTEN, Disk, Op
from faults._kill_server import compared
from faults._ledger import Books, Witness
from faults._place import sweep_up
from faults._power import Heard
from faults._receipts import line_of
from faults._report import Report
from faults._tally import Tally
from faults._worker import Job, work
from statepact import MemoryStore
from statepact.ledger import Receipt, SessionKey
from statepact.stores import Entity, NewEntry, Rewrite

KEY = SessionKey("acme", "s0")


class Notebook(Witness):
    """Writes the books itself instead of telling another process."""

    def __init__(self, books: Books) -> None:
        self.books = books

    def _say(self, line: str) -> None:
        self.books.say(*line.strip("\n").split("\t"))

    def close(self) -> None:
        pass


@pytest.fixture
async def sound() -> tuple[MemoryStore, Books]:
    """A store and what was said while it was filled."""
    store, books = MemoryStore(), Books()
    await work(Job("memory:", "", ("s0",), runs=1), store, Notebook(books))
    return store, books


async def test_sound_store_has_everything(sound: tuple[MemoryStore, Books]) -> None:
    """Nothing is found where nothing is wrong."""
    store, books = sound
    found = await check_store(store, books)

    assert found.ok
    assert found.committed == len(books.records) > 10


async def test_missing_fact_is_lost(sound: tuple[MemoryStore, Books]) -> None:
    """Acknowledged and not there; the newest entry too, of which nobody inside could know."""
    store, books = sound
    books.say("i", "acme/s0/r9/plan/")
    books.say("a", "acme/s0/r9/plan/")

    assert (await check_store(store, books)).lost == {"acme/s0/r9/plan/"}


async def test_refused_fact_that_is_there_is_one_too_many(sound: tuple[MemoryStore, Books]) -> None:
    """Who was told "no" must not find it done."""
    store, books = sound
    record = books.records["acme/s0/r0/s1/"]
    record.acked, record.refused, record.error = 0, 1, "StoreFull"

    assert (await check_store(store, books)).duplicated == {"acme/s0/r0/s1/"}


async def test_exchanged_value_is_seen(sound: tuple[MemoryStore, Books]) -> None:
    """Bytes that are not what was committed fail the digest, and the fact is lost."""
    store, books = sound
    headers = await store.headers(KEY)
    payloads = await store.payloads(KEY, [3, 4])
    change = Rewrite(replace={3: (headers[2].header, payloads[4])})
    await store.rewrite(KEY, change, after=len(headers))

    found = await check_store(store, books)
    assert found.lost
    assert found.remarks


async def test_torn_batch_is_seen() -> None:
    """Two of three entries that belong together are none."""
    store = MemoryStore()
    name = "batches/b0/r0/batch/"
    entries = [NewEntry(f"header of {name}#{n}".encode(), f"{name}#{n}".encode() + b"." * 300) for n in range(2)]
    await store.append(SessionKey("batches", "b0"), entries, after=0)
    books = Books()
    books.say("i", name)

    assert any("torn" in remark for remark in (await check_store(store, books)).remarks)


async def test_index_without_a_fact_and_fact_without_an_index_are_seen(sound: tuple[MemoryStore, Books]) -> None:
    """Both directions."""
    store, books = sound
    revision = len(await store.headers(KEY))
    about = await store.entities("acme")
    assert about
    await store.rewrite(KEY, Rewrite(forget=None), after=revision)
    assert (await check_store(store, books)).lost

    await store.rewrite(KEY, Rewrite(), [], after=revision)
    store._sessions[KEY].entities[Entity("order", "KX-nobody")] = 1
    assert any("KX-nobody" in remark for remark in (await check_store(store, books)).remarks)


def test_control_that_loses_nothing_makes_the_line_void() -> None:
    """A search that cannot find anything proves nothing."""
    control = Tally("sqlite", "process", "power loss", control=True, hits=3).done()
    assert control.void
    assert not control.ok


def test_line_without_a_hit_is_void() -> None:
    """A fault that hit nobody is no fault."""
    tally = Tally("sqlite", "power", "kill -9")
    tally.add(Findings(), hit=False)
    assert tally.done().void


def test_control_whose_loss_the_product_does_not_name_fails() -> None:
    """Losing is what a control is for; losing without saying what is not."""
    control = Tally("sqlite", "process", "power loss", control=True, hits=3, lost=5, inexact=1).done()
    assert not control.void
    assert not control.ok


def test_trouble_of_a_campaign_fails_its_line_and_finds_no_bug() -> None:
    """A planted bug counts as found by what it has done to the store, not by a campaign that went wrong."""
    tally = Tally("sqlite", "power", "kill -9", hits=3).done()
    tally.trouble("the worker did not begin")
    assert not tally.ok
    assert not tally.found_something


def test_power_goes_after_a_receipt_and_before_the_acknowledgement() -> None:
    """The client has both, in the order in which they came between the writes."""
    receipt = Receipt(KEY, 3, b"\x01" * 32)
    said = ("i\tacme/s0/r0/s1/\n", f"r\t{line_of(receipt, 'acme/s0/r0/s1/')}\n")
    heard = Heard()
    for line in said:
        heard.hear(Op(MARK, 0, 0, line.encode()))

    assert heard.receipts == {receipt: "acme/s0/r0/s1/"}
    assert not heard.books.committed
    assert heard.books.flying_now == 1


def test_folders_of_dead_commands_are_swept_up(tmp_path: Path) -> None:
    """Who was killed could not do it; who lives still needs theirs."""
    ended = Child(lambda: None)
    ended.wait()
    (tmp_path / f"faults-{ended.pid}-x").mkdir()
    (tmp_path / f"faults-{os.getpid()}-x").mkdir()
    (tmp_path / "faults-shim.so").touch()
    sweep_up(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == [f"faults-{os.getpid()}-x", "faults-shim.so"]


def test_what_was_written_before_a_failed_sync_is_safe_only_once_it_is_written_again() -> None:
    """The kernel takes it for written, and a later sync that succeeds says nothing about it."""
    disk = Disk()
    for op in (
        Op(MADE, 1, 0, b"wal"),
        Op(SYNCED, 1, 0, b""),
        Op(WRITTEN, 1, 0, b"aaaabbbb"),
        Op(SYNC_FAILED, 1, 0, b""),
        Op(WRITTEN, 1, 4, b"cccc"),
        Op(SYNCED, 1, 0, b""),
    ):
        disk.apply(op)

    assert disk.after_power_loss("nothing", random.Random(1)) == {"wal": b"\0\0\0\0cccc"}
    assert disk.after_power_loss("everything", random.Random(1)) == {"wal": b"aaaacccc"}


@pytest.mark.parametrize("how", ["nothing", "prefix", "subset", "torn"])
def test_disk_keeps_what_was_synced_and_only_that_for_sure(how: str) -> None:
    """Before the sync anything may be left; after it everything is."""
    disk = Disk()
    disk.apply(Op(MADE, 1, 0, b"a"))
    disk.apply(Op(FOLDER_SYNCED, 0, 0, b""))
    disk.apply(Op(WRITTEN, 1, 0, b"x" * 1024))
    left = [disk.after_power_loss(how, random.Random(seed)) for seed in range(50)]  # type: ignore[arg-type]
    assert any(files.get("a") != b"x" * 1024 for files in left)

    disk.apply(Op(SYNCED, 1, 0, b""))
    disk.apply(Op(WRITTEN, 1, 0, b"y" * 1024))
    left = [disk.after_power_loss(how, random.Random(seed)) for seed in range(50)]  # type: ignore[arg-type]
    assert all(set(files["a"]) <= set(b"xy") for files in left)
    assert all(len(files["a"]) == 1024 for files in left)


def test_own_report_is_compared_with_entries_that_are_gone() -> None:
    """Not found by its order is not lost, and what nobody has acknowledged is no false alarm."""
    books = Books()
    for name in ("gone", "unindexed", "unnamed"):
        books.say("i", name)
        books.say("a", name)
    books.say("i", "dead before its acknowledgement")
    found = Findings(lost={"gone", "unindexed", "unnamed"}, present={"unindexed"})

    assert compared({"gone", "dead before its acknowledgement"}, found, books) == (1, 1, 0)
    assert compared({"unindexed"}, found, books) == (0, 2, 1)


def test_of_two_runs_of_a_campaign_the_one_with_more_faults_counts(tmp_path: Path) -> None:
    """A page may stand on a long run of one campaign and a short run of the others."""
    long, short = Report(seed=1, long=True), Report(seed=1, long=False)
    long.add(Tally("sqlite", "power", "kill -9", hits=500, committed=9_000, also="said so").done())
    short.add(Tally("sqlite", "power", "kill -9", hits=50, committed=900).done())
    short.add(Tally("sqlite", "power", "power loss", hits=200, lost=1).done())
    long.write_json(tmp_path / "long.json")
    short.join(tmp_path / "long.json")

    assert [(t.fault, t.hits, t.lost, t.also) for t in short.tallies] == [
        ("kill -9", 500, 0, "said so"),
        ("power loss", 200, 1, ""),
    ]
