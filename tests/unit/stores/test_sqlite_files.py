"""Files that are locked, full, damaged, read-only, somebody else's: what happens to a store on them."""

# ruff: noqa: ASYNC221, ASYNC240 - these tests prepare files and mounts; nothing else runs on their loop
from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from statepact.errors import (
    Behind,
    CorruptState,
    StoreFull,
    StoreReadOnly,
    StoreTimeout,
    StoreTooNew,
    StoreUnavailable,
)
from statepact.ledger import SessionKey
from statepact.stores import Hold, NewEntry, SqliteStore, open_store
from statepact.stores._sqlite_schema import MIGRATIONS, connect
from statepact.stores._sqlite_tail import Tail
from statepact.testing._sentences import add, entry, revision, texts, won

KEY = SessionKey("acme", "s-1")
SOON = 20

both = pytest.mark.parametrize("durability", ["power", "process"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def write(path: Path, *words: str) -> None:
    async with SqliteStore(path) as store:
        await add(store, KEY, *words)


async def read(path: Path) -> list[str]:
    async with SqliteStore(path, read_only=True) as store:
        return await texts(store, KEY)


# -- read-only ---------------------------------------------------------------------------------------


async def test_read_only_url_reads_and_refuses_to_write(path: Path) -> None:
    """The whole file can be read; a commit is an error that says how to get one."""
    await write(path, "one", "two")

    async with open_store(f"sqlite:///{path}?read_only=1") as store:
        assert await texts(store, KEY) == ["one", "two"]
        with pytest.raises(StoreReadOnly, match="read-only"):
            await store.append(KEY, [entry("three")], after=2)
    assert await read(path) == ["one", "two"]


async def test_read_only_creates_nothing(path: Path) -> None:
    """Looking into a file that is not there does not make one."""
    store = SqliteStore(path, read_only=True)
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await store.headers(KEY)
    assert not path.exists()


async def test_read_only_on_an_empty_file_says_that_there_is_no_state(path: Path) -> None:
    """An empty file is not an empty log."""
    path.touch()
    store = SqliteStore(path, read_only=True)
    with pytest.raises(StoreUnavailable, match="holds no statepact state"):
        await store.headers(KEY)
    assert path.stat().st_size == 0


async def test_read_only_reads_what_another_process_is_writing(path: Path) -> None:
    """A reader sees commits of a writer that is still open, each time it looks."""
    async with SqliteStore(path) as writer, SqliteStore(path, read_only=True) as reader:
        await add(writer, KEY, "one")
        assert await texts(reader, KEY) == ["one"]
        await add(writer, KEY, "two")
        assert await texts(reader, KEY) == ["one", "two"]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return a function that mounts a small file system of its own, or skips the test."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    mounted: list[Path] = []

    def make(*options: str) -> Path:
        folder = tmp_path / "mount"
        folder.mkdir()
        call = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
        if subprocess.run(call, check=False, capture_output=True).returncode:
            pytest.skip("this machine does not allow mounts, even to root")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_read_only_medium_can_be_read_and_says_that_it_cannot_be_written(mount: Callable[..., Path]) -> None:
    """A log on a write-protected medium, where SQLite can make no file beside it."""
    folder = mount("size=4m")
    await write(folder / "state.db", "one", "two")
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)

    assert await read(folder / "state.db") == ["one", "two"]
    async with SqliteStore(folder / "state.db") as store:
        with pytest.raises((StoreReadOnly, StoreUnavailable), match=r"read-only|cannot be opened"):
            await store.append(KEY, [entry("three")], after=2)
    async with SqliteStore(folder / "new.db") as store:
        with pytest.raises((StoreReadOnly, StoreUnavailable), match=r"read-only|cannot be opened"):
            await store.append(KEY, [entry("one")], after=0)


# -- locked ------------------------------------------------------------------------------------------


@pytest.fixture
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """A file with two entries, and another connection that holds its write lock."""
    asyncio.run(write(path, "one", "two"))
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("begin immediate")
        yield other


@both
async def test_waiting_for_a_lock_does_not_stop_the_event_loop(
    path: Path, locked: sqlite3.Connection, durability: Any
) -> None:
    """The lock is let go by a task of the same loop: were the loop blocked, that would never happen."""
    async with SqliteStore(path, durability=durability, lock_timeout=SOON) as store:
        waiting = asyncio.ensure_future(store.append(KEY, [entry("three")], after=2))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        assert await texts(store, KEY) == ["one", "two"]
        locked.execute("rollback")

        async with asyncio.timeout(SOON):
            await waiting
        assert await texts(store, KEY) == ["one", "two", "three"]


@both
async def test_lock_that_stays_is_a_timeout_and_nothing_is_kept(
    path: Path, locked: sqlite3.Connection, durability: Any
) -> None:
    """The error names the file and the cause; once the lock is gone the store goes on."""
    async with SqliteStore(path, durability=durability, lock_timeout=0.01) as store:
        with pytest.raises(StoreTimeout, match="locked by another process") as caught:
            await store.append(KEY, [entry("three")], after=2)
        assert str(path) in caught.value.message
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)

        locked.execute("rollback")
        assert await texts(store, KEY) == ["one", "two"]
        await store.append(KEY, [entry("three")], after=2)
    assert await read(path) == ["one", "two", "three"]


@both
async def test_opening_a_locked_file_does_not_wait(path: Path, locked: sqlite3.Connection, durability: Any) -> None:
    """Readers need no lock, and a file that is ours is not written to when it is opened."""
    async with SqliteStore(path, durability=durability, lock_timeout=SOON) as store:
        assert await texts(store, KEY) == ["one", "two"]


async def test_commits_queued_behind_a_lock_keep_their_order(path: Path, locked: sqlite3.Connection) -> None:
    """In process mode, too, where the writer thread takes over only while there is a lock."""
    async with SqliteStore(path, durability="process", lock_timeout=SOON) as store:
        queued = [asyncio.ensure_future(won(store, KEY, str(n), after=n)) for n in (2, 3, 4)]
        await asyncio.sleep(0)
        locked.execute("rollback")
        assert await asyncio.gather(*queued) == [True, True, True]
        assert await texts(store, KEY) == ["one", "two", "2", "3", "4"]


# -- damaged, or not ours ----------------------------------------------------------------------------


@both
async def test_file_that_is_no_database_is_left_as_it_is(path: Path, durability: Any) -> None:
    """Garbage where the header should be."""
    path.write_bytes(b"this is not a database " * 500)
    before = path.read_bytes()

    async with SqliteStore(path, durability=durability) as store:
        with pytest.raises(CorruptState, match="damaged or is not an SQLite database"):
            await store.append(KEY, [entry("one")], after=0)
        with pytest.raises(CorruptState):
            await store.sessions("acme")
    with pytest.raises(CorruptState):
        await read(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def pages_of(path: Path, table: str) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("select rootpage from sqlite_master where name=?", (table,))]


@pytest.mark.parametrize("table", ["entry", "entry_place", "header", "sqlite_autoindex_session_1"])
async def test_overwritten_page_is_an_error_that_names_the_file(path: Path, table: str) -> None:
    """A damaged page is never a shorter log."""
    await write(path, *(f"word {n} " + "x" * 900 for n in range(60)))
    (page,) = pages_of(path, table)
    raw = bytearray(path.read_bytes())
    raw[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    path.write_bytes(raw)

    with pytest.raises(CorruptState, match="damaged") as caught:
        await read(path)
    assert str(path) in caught.value.message


async def test_file_cut_in_half_is_an_error_of_ours(path: Path) -> None:
    """As after a copy that did not end."""
    await write(path, *("x" * 900 for _ in range(200)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    with pytest.raises(CorruptState):
        await read(path)


async def test_database_of_another_program_is_left_as_it_is(path: Path) -> None:
    """Not a byte of it changes, its journal mode included."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table entry(id integer primary key, customer text)")
        db.execute("insert into entry(customer) values('Zhang')")
        db.commit()
    before = path.read_bytes()

    for read_only in (False, True):
        async with SqliteStore(path, read_only=read_only) as store:
            with pytest.raises(StoreUnavailable, match="another program"):
                await store.headers(KEY)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_newer_schema_is_refused_and_left_as_it_is(path: Path) -> None:
    """An old program does not touch what a newer one has written."""
    await write(path, "one")
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"pragma user_version={len(MIGRATIONS) + 1}")
    before = path.read_bytes()

    for read_only in (False, True):
        async with SqliteStore(path, read_only=read_only) as store:
            with pytest.raises(StoreTooNew, match=f"schema {len(MIGRATIONS) + 1}") as caught:
                await store.headers(KEY)
            assert "update statepact" in caught.value.hint
    assert path.read_bytes() == before


async def test_missing_folder_is_named(tmp_path: Path) -> None:
    """The store makes files, not folders."""
    async with SqliteStore(tmp_path / "no" / "state.db") as store:
        with pytest.raises(StoreUnavailable, match="folder"):
            await store.append(KEY, [entry("one")], after=0)
    assert list(tmp_path.iterdir()) == []


async def test_folder_in_place_of_a_file(tmp_path: Path) -> None:
    """A path that is a folder cannot be opened, and says so."""
    async with SqliteStore(tmp_path) as store:
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            await store.headers(KEY)


async def test_store_that_could_not_be_opened_is_tried_again(tmp_path: Path) -> None:
    """A mistake that is put right needs no new store."""
    async with SqliteStore(tmp_path / "later" / "state.db") as store:
        with pytest.raises(StoreUnavailable):
            await store.headers(KEY)
        (tmp_path / "later").mkdir()
        await add(store, KEY, "one")
        assert await texts(store, KEY) == ["one"]


# -- full --------------------------------------------------------------------------------------------


async def fill(store: SqliteStore) -> list[str]:
    """Commit until there is no room; return what was acknowledged."""
    kept: list[str] = []
    while len(kept) < 100_000:
        word = f"{len(kept)} " + "x" * 3000
        try:
            await store.append(KEY, [entry(word)], after=len(kept))
        except StoreFull:
            return kept
        kept.append(word)
    pytest.fail("there was room for everything")


@both
async def test_full_disk_keeps_what_was_acknowledged_and_goes_on_later(
    mount: Callable[..., Path], durability: Any
) -> None:
    """No room: an error that says so, earlier commits untouched; with room again, the store works again."""
    folder = mount("size=1m")
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    async with SqliteStore(folder / "state.db", durability=durability) as store:
        kept = await fill(store)
        assert len(kept) > 5
        assert await texts(store, KEY) == kept

        ballast.unlink()
        await store.append(KEY, [entry("later")], after=len(kept))
        assert await texts(store, KEY) == [*kept, "later"]
    assert await read(folder / "state.db") == [*kept, "later"]


async def test_full_file_keeps_what_was_acknowledged_and_goes_on_later(path: Path) -> None:
    """The same without a mount, through SQLite's own limit on the number of pages."""
    async with SqliteStore(path, durability="process") as store:
        await store.headers(KEY)
        assert store._db is not None
        store._db.execute("pragma max_page_count=40")
        kept = await fill(store)
        assert kept
        with pytest.raises(StoreFull):
            await store.append(SessionKey("new owner", "new session"), [entry("x" * 9000)], after=0)
        assert list(await store.sessions("new owner")) == []

        store._db.execute("pragma max_page_count=4000")
        await store.append(KEY, [entry("later")], after=len(kept))
        await store.append(SessionKey("new owner", "new session"), [entry("first")], after=0)
        assert await texts(store, SessionKey("new owner", "new session")) == ["first"]
    assert await read(path) == [*kept, "later"]


async def test_full_file_refuses_only_what_does_not_fit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch of the writer thread, commits that fit are kept beside one that does not."""
    monkeypatch.setattr("statepact.stores._sqlite.connect", small(connect))
    async with SqliteStore(path) as store:
        keys = [SessionKey("acme", str(n)) for n in range(6)]
        words = ["x" * (10_000_000 if n == 3 else 10) for n in range(6)]
        done = await asyncio.gather(
            *(store.append(key, [entry(word)], after=0) for key, word in zip(keys, words, strict=True)),
            return_exceptions=True,
        )
        assert [type(one) for one in done] == [type(None)] * 3 + [StoreFull] + [type(None)] * 2
        assert [info.session for info in await store.sessions("acme")] == ["0", "1", "2", "4", "5"]


def small(connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
    def connect_small(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*arguments, **options)
        db.execute("pragma max_page_count=60")
        return db

    return connect_small


# -- several processes -------------------------------------------------------------------------------

SCRIPT = """
import asyncio, sys
from statepact.errors import Behind
from statepact.ledger import SessionKey
from statepact.stores import NewEntry, SqliteStore

async def main(path, who, durability):
    async with SqliteStore(path, durability=durability) as store:
        for n in range(10):
            word = f"{who}.{n}".encode()
            while True:
                after = len(await store.headers(SessionKey("acme", "s-1")))
                try:
                    await store.append(SessionKey("acme", "s-1"), [NewEntry(b"header of " + word, word)], after=after)
                    break
                except Behind:
                    pass
            await store.append(SessionKey("acme", who), [NewEntry(b"header of " + word, word)], after=n)

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main(*sys.argv[1:]))
"""


def processes(path: Path, count: int, durability: str) -> list[str]:
    """Start processes, let them begin at the same time, and return what went wrong in them."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path), f"p-{who}", durability],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for who in range(count)
    ]  # fmt: skip
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    problems = [process.communicate(timeout=60)[1] for process in started]
    return [problem for problem in problems if problem]


@both
def test_processes_that_create_the_file_at_once_share_it(path: Path, durability: str) -> None:
    """Whoever comes second waits, and from then on every process's commits land once, in one order."""
    assert processes(path, 4, durability) == []

    async def check() -> None:
        async with SqliteStore(path, read_only=True) as store:
            everything = await texts(store, KEY)
            assert sorted(everything) == sorted(f"p-{who}.{n}" for who in range(4) for n in range(10))
            for who in range(4):
                own = [f"p-{who}.{n}" for n in range(10)]
                assert [word for word in everything if word.startswith(f"p-{who}.")] == own
                assert await texts(store, SessionKey("acme", f"p-{who}")) == own

    asyncio.run(check())


def test_two_stores_that_create_the_file_at_once(tmp_path: Path) -> None:
    """The same with threads, many times: the moment in which both find an empty file is short."""
    for round_ in range(20):
        path, gate = tmp_path / f"{round_}.db", threading.Barrier(4)
        problems: list[BaseException] = []

        def create(
            who: int, path: Path = path, gate: threading.Barrier = gate, problems: list[BaseException] = problems
        ) -> None:
            gate.wait()
            try:
                asyncio.run(_append_alone(path, who))
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=create, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []


async def _append_alone(path: Path, who: int) -> None:
    async with SqliteStore(path) as store:
        await store.append(SessionKey("acme", f"s-{who}"), [entry("x")], after=0)


@both
async def test_second_process_reads_everything_and_is_refused_when_behind(path: Path, durability: Any) -> None:
    """What one store has acknowledged the other one sees; with an old revision it cannot write."""
    async with (
        SqliteStore(path, durability=durability) as ours,
        SqliteStore(path, durability=durability) as theirs,
    ):
        await add(ours, KEY, "one")
        assert await texts(theirs, KEY) == ["one"]
        await add(theirs, KEY, "two")
        assert await texts(ours, KEY) == ["one", "two"]

        # Both remember where the session ended when they last wrote; the other has moved it since.
        with pytest.raises(Behind, match="revision 2"):
            await ours.append(KEY, [entry("late")], after=1)
        await add(ours, KEY, "three")
        with pytest.raises(Behind, match="revision 3"):
            await theirs.append(KEY, [entry("late")], after=2)
        assert await revision(ours, KEY) == 3


async def test_revision_of_a_session_is_unique_in_the_file(path: Path) -> None:
    """The fence stands in the tables: no writer whatever can put a second entry at a revision."""
    await write(path, "one")
    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute("insert into entry(session, revision, payload) select session, revision, x'00' from entry")


# -- connections -------------------------------------------------------------------------------------


async def test_writer_has_a_connection_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a transaction is open the loop reads on, and sees nothing that is not committed."""
    entered, go_on = threading.Event(), threading.Event()
    append = Tail.append

    def slow(self: Tail, key: SessionKey, entries: Sequence[NewEntry], after: int, hold: Hold | None) -> None:
        append(self, key, entries, after, hold)
        entered.set()
        go_on.wait(SOON)

    monkeypatch.setattr(Tail, "append", slow)
    async with SqliteStore(path) as store:
        task = asyncio.ensure_future(store.append(KEY, [entry("one")], after=0))
        await asyncio.to_thread(entered.wait, SOON)

        assert await texts(store, KEY) == []
        assert list(await store.sessions("acme")) == []
        go_on.set()
        await task
        assert await texts(store, KEY) == ["one"]


@pytest.mark.parametrize(("full", "synchronous"), [(True, 2), (False, 1)])
def test_durability_is_what_it_says(path: Path, full: bool, synchronous: int) -> None:
    """Write-ahead log, and a flush for each commit unless the weaker promise was asked for."""
    with closing(connect(path, read_only=False, full=full)) as db:
        assert db.execute("pragma journal_mode").fetchone() == ("wal",)
        assert db.execute("pragma synchronous").fetchone() == (synchronous,)


async def test_commits_of_one_loop_share_transactions(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty-two sessions that commit at once take a handful of flushes."""
    transactions = 0
    begin = Tail.__enter__

    def counted(self: Tail) -> None:
        nonlocal transactions
        transactions += 1
        begin(self)

    async with SqliteStore(path) as store:
        await add(store, KEY, "one")
        monkeypatch.setattr(Tail, "__enter__", counted)
        await asyncio.gather(*(won(store, SessionKey("acme", f"s-{n}"), "x", after=0) for n in range(32)))
    assert 1 <= transactions <= 8
