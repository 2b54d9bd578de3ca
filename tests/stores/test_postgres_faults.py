"""What goes wrong with a PostgreSQL server: each its own error, nothing lost, nothing twice, no hang."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from _postgres import WITH_PASSWORD, Server, running

from statepact.errors import (
    StatepactError,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTimeout,
    StoreTooNew,
    StoreUnavailable,
)
from statepact.ledger import SessionKey
from statepact.stores import Hold, PostgresStore, Store, open_store
from statepact.testing._sentences import add, entry, texts

KEY = SessionKey("acme", "s-1")
SECRET = "hunter2-秘密"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore.from_url(postgres_url) as store:
        yield store


@pytest.fixture(scope="module")
def fragile() -> Iterator[Server]:
    """A server to be killed. It flushes by itself only every ten seconds, so what is not flushed is lost."""
    with running(wal_writer_delay="10s", bgwriter_delay="10s") as server:
        yield server


@contextmanager
def held_up(server: Server, table: str) -> Iterator[psycopg.Connection]:
    """Let nobody write to a table: whoever tries is in flight until the end of this."""
    with server.connect() as db:
        db.autocommit = False
        db.execute(f"lock table {table} in share mode")  # type: ignore[call-overload]
        yield db
        with suppress(psycopg.OperationalError):  # the server may be gone
            db.rollback()


async def in_flight(server: Server, how_many: int = 1) -> None:
    """Wait until so many statements wait for a lock."""
    blocked = "select count(*) from pg_locks where not granted"
    while (await asyncio.to_thread(server.execute, blocked))[0][0] < how_many:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def run(*command: str) -> bool:
    """Run a command of the system; return whether it worked."""
    return subprocess.run(command, capture_output=True).returncode == 0


def schema_of(url: str) -> str:
    return url.rsplit("schema=", 1)[1]


# -- a server that goes away -------------------------------------------------------------------------------


async def test_killed_server_loses_nothing_that_was_acknowledged(fragile: Server) -> None:
    """Every process of the server is killed at once, again and again, with commits in flight."""
    known: dict[str, int] = {}
    async with PostgresStore(fragile.url(), schema="killed", timeout=5) as store:

        async def write(session: str) -> None:
            key = SessionKey("acme", session)
            while True:
                await store.append(key, [entry(str(known[session]))], after=known[session])
                known[session] += 1

        for round_number in range(3):
            sessions = [f"{round_number}-{n}" for n in range(4)]
            known.update(dict.fromkeys(sessions, 0))
            writers = [asyncio.ensure_future(write(session)) for session in sessions]
            while sum(known[session] for session in sessions) < 40:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            fragile.kill()
            ends = await asyncio.gather(*writers, return_exceptions=True)
            assert {type(end) for end in ends} <= {StoreTimeout, StoreUnavailable}
            fragile.start()

        for session, number in known.items():
            found = await texts(store, SessionKey("acme", session))
            assert found[:number] == [str(n) for n in range(number)]
            assert len(found) <= number + 1  # the one in flight may have landed


async def test_weaker_mode_does_lose_what_the_server_had_not_flushed(fragile: Server) -> None:
    """The control: the same kill shows what `durability=process` gives up, and its promise says so."""
    url = fragile.url(schema="control")
    async with open_store(url) as strong:
        await add(strong, KEY, "flushed")
    async with open_store(url + "&durability=process") as weak:
        assert "may lose the newest commits" in weak.promise
        await add(weak, KEY, "not flushed")
        assert await texts(weak, KEY) == ["flushed", "not flushed"]
        fragile.kill()
    fragile.start()
    async with open_store(url) as strong:
        assert await texts(strong, KEY) == ["flushed"]


async def test_role_that_turns_durability_off_does_not(fragile: Server) -> None:
    """`alter role … set synchronous_commit=off` has no effect on us: a kill loses nothing."""
    fragile.execute("create role hasty login superuser; alter role hasty set synchronous_commit = off")
    url = fragile.url(user="hasty", schema="hasty")
    async with open_store(url) as store:
        await add(store, KEY, "one", "two")
        await store.hold(KEY, Hold(run="r-1", holder="worker 41", seconds=60))
        fragile.kill()
        fragile.start()
        assert await texts(store, KEY) == ["one", "two"]


async def test_commit_in_flight_at_a_kill_is_unknown_and_not_made_twice(fragile: Server) -> None:
    """No answer is neither yes nor no: `StoreTimeout`, and the store does not try again by itself."""
    async with PostgresStore(fragile.url(), schema="flight") as store:
        await add(store, KEY, "one")
        with held_up(fragile, "flight.entry"):
            task = asyncio.ensure_future(store.append(KEY, [entry("two")], after=1))
            await in_flight(fragile)
            fragile.kill()
            with pytest.raises(StoreTimeout, match="not known"):
                await task
        with pytest.raises(StoreUnavailable, match="no server answers"):
            await store.headers(KEY)
        fragile.start()
        assert await texts(store, KEY) == ["one"]
        await add(store, KEY, "two")


async def test_idle_store_does_not_notice_a_restart(fragile: Server) -> None:
    """Connections that ended meanwhile are found out before a commit is sent through one of them."""
    async with PostgresStore(fragile.url(), schema="restart") as store:
        await asyncio.gather(*(add(store, SessionKey("acme", f"s-{n}"), "x") for n in range(6)))
        for number in range(2):
            fragile.stop()
            fragile.start()
            await asyncio.gather(*(add(store, SessionKey("acme", f"s-{n}"), str(number)) for n in range(6)))
        assert await texts(store, SessionKey("acme", "s-3")) == ["x", "0", "1"]


async def test_waiting_goes_on_over_a_restart(fragile: Server) -> None:
    """The server is away for a while; who waits for a change is told afterwards. FC-73 (c)."""
    async with PostgresStore(fragile.url(), schema="away") as store:
        await add(store, KEY, "one")
        waiting = asyncio.ensure_future(store.changed(KEY, after=1, within=60))
        await asyncio.sleep(0.1)
        fragile.kill()
        await asyncio.sleep(0.3)
        fragile.start()
        await add(store, KEY, "two")
        assert await asyncio.wait_for(waiting, 20) == 2


async def test_ended_connection_is_unknown_for_a_commit_and_nothing_for_a_read(
    store: Store, postgres_server: Server, postgres_url: str
) -> None:
    """An administrator ends our connections in mid-statement: a read is simply done again."""
    schema = schema_of(postgres_url)
    await add(store, KEY, "one")
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        f" where application_name = 'statepact' and query like '%{schema}%' and wait_event_type = 'Lock'"
    )
    with held_up(postgres_server, f"{schema}.entry"):
        task = asyncio.ensure_future(store.append(KEY, [entry("two")], after=1))
        await in_flight(postgres_server)
        postgres_server.execute(end)
        with pytest.raises(StoreTimeout, match="not known"):
            await task
    with postgres_server.connect() as db:
        db.autocommit = False
        db.execute(f"lock table {schema}.entry in access exclusive mode")  # type: ignore[call-overload]
        reading = asyncio.ensure_future(store.payloads(KEY, [1]))
        await in_flight(postgres_server)
        postgres_server.execute(end)
        await asyncio.sleep(0.1)
        db.rollback()
    assert dict(await reading) == {1: b"one"}


# -- deadlines -------------------------------------------------------------------------------------------------


async def test_commit_behind_a_lock_ends_in_time_and_is_not_kept(postgres_server: Server, postgres_url: str) -> None:
    """Somebody else's transaction stands in the way for longer than we may wait."""
    async with PostgresStore.from_url(postgres_url + "&timeout=0.5") as store:
        await add(store, KEY, "one")
        with held_up(postgres_server, f"{schema_of(postgres_url)}.entry"):
            begin = time.monotonic()
            with pytest.raises(StoreTimeout, match="nothing was kept"):
                await store.append(KEY, [entry("two")], after=1)
            assert time.monotonic() - begin < 2
        assert await texts(store, KEY) == ["one"]


async def test_frozen_server_ends_everything_in_time(fragile: Server) -> None:
    """A machine that stands still: reads, commits and new connections end at their deadline."""
    async with PostgresStore(fragile.url(), schema="frozen", timeout=0.5) as store:
        await add(store, KEY, "one")
        async with PostgresStore(fragile.url(), schema="frozen", timeout=0.5) as fresh:
            fragile.freeze()
            try:
                begin = time.monotonic()
                for asked in (
                    store.append(KEY, [entry("two")], after=1),
                    store.headers(KEY),
                    store.changed(KEY, after=1, within=0),
                    fresh.headers(KEY),
                ):
                    with pytest.raises((StoreTimeout, StoreUnavailable)):
                        await asked
                assert time.monotonic() - begin < 8
            finally:
                fragile.thaw()
    async with PostgresStore(fragile.url(), schema="frozen") as store:
        assert await texts(store, KEY) in (["one"], ["one", "two"])


async def test_server_that_says_nothing_ends_in_time() -> None:
    """Something listens at the port and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as mute:
        port = mute.getsockname()[1]
        async with PostgresStore(f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable", timeout=0.3) as store:
            begin = time.monotonic()
            with pytest.raises(StoreUnavailable, match=rf"127\.0\.0\.1:{port}.* did not answer within"):
                await store.headers(KEY)
            assert time.monotonic() - begin < 2


async def test_cancelled_commit_lets_go_at_once(store: Store, postgres_server: Server, postgres_url: str) -> None:
    """Whoever stops waiting does not wait for somebody else's lock, and nothing of the commit stays."""
    await add(store, KEY, "one")
    with held_up(postgres_server, f"{schema_of(postgres_url)}.entry"):
        task = asyncio.ensure_future(store.append(KEY, [entry("a"), entry("b")], after=1))
        await in_flight(postgres_server)
        begin = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begin < 2
    assert await texts(store, KEY) == ["one"]
    await add(store, KEY, "two")


# -- being refused -----------------------------------------------------------------------------------------------


async def refusal(url: str, kind: type[StatepactError], match: str) -> StatepactError:
    """Return the error that the first use of a store ends with."""
    async with open_store(url) as store:
        with pytest.raises(kind, match=match) as caught:
            await store.headers(KEY)
    return caught.value


async def test_no_server_at_all(tmp_path: Path) -> None:
    """Over a socket file and over a port: which place, and what to do."""
    error = await refusal(f"postgresql:///d?host={tmp_path}", StoreUnavailable, "no server answers")
    assert str(tmp_path) in str(error)
    assert "start it" in error.hint
    with closing(socket.create_server(("127.0.0.1", 0))) as once:
        port = once.getsockname()[1]
    await refusal(f"postgresql://127.0.0.1:{port}/d", StoreUnavailable, f"{port}.*no server answers")


async def test_wrong_password_is_never_shown(postgres_server: Server) -> None:
    """Not in the message, not in the cause, not in the repr of the store."""
    postgres_server.execute(f"create role {WITH_PASSWORD} login password 'right'")
    quoted = "hunter2-%E7%A7%98%E5%AF%86"
    url = postgres_server.url(user=f"{WITH_PASSWORD}:{quoted}")
    error = await refusal(url, StoreUnavailable, "does not take this role and password")
    for text in (str(error), repr(error), str(error.__cause__), repr(error.__cause__), repr(open_store(url))):
        assert SECRET not in text
        assert quoted not in text
        assert "hunter2" not in text
    await refusal(postgres_server.url(user=WITH_PASSWORD), StoreUnavailable, "wants a password")

    right = postgres_server.url(user=f"{WITH_PASSWORD}:right", schema="x")
    await refusal(right, StoreUnavailable, "may not make the schema 'x'")
    postgres_server.execute(f"drop role {WITH_PASSWORD}")


async def test_unknown_database_and_role(postgres_server: Server) -> None:
    """Which of the two it is."""
    await refusal(postgres_server.url("nowhere"), StoreUnavailable, "this database does not exist")
    await refusal(postgres_server.url(user="nobody"), StoreUnavailable, "this role does not exist")


async def test_no_connection_left(postgres_server: Server, postgres_url: str) -> None:
    """The limit of a role, as well as that of the server."""
    postgres_server.execute("create role lonely login connection limit 1; grant create on database postgres to lonely")
    url = postgres_url.replace("postgres@", "lonely@")
    async with open_store(url) as store:
        await add(store, KEY, "one")
        error = await refusal(url, StoreUnavailable, "has no connection left")
        assert "limit" in error.hint
    postgres_server.execute("drop owned by lonely cascade; drop role lonely")


async def test_reader_may_read_and_not_write(postgres_server: Server, postgres_url: str) -> None:
    """A role with the right to select gets answers; its commit is refused, and says which rights are missing."""
    schema = schema_of(postgres_url)
    async with open_store(postgres_url) as store:
        await add(store, KEY, "one")
    postgres_server.execute(
        f"create role reader login; grant usage on schema {schema} to reader;"
        f"grant select on all tables in schema {schema} to reader"
    )
    async with open_store(postgres_url.replace("postgres@", "reader@")) as store:
        assert await texts(store, KEY) == ["one"]
        with pytest.raises(StoreReadOnly, match="may not write") as caught:
            await store.append(KEY, [entry("two")], after=1)
        assert "grant" in caught.value.hint
    postgres_server.execute("drop owned by reader; create role stranger login")
    await refusal(postgres_url.replace("postgres@", "stranger@"), StoreUnavailable, "may not")
    postgres_server.execute("drop role reader; drop role stranger")


async def test_standby_is_refused_and_primary_found(tmp_path: Path) -> None:
    """A standby may be behind, so it is not even read; of several servers the primary is taken."""
    with running() as primary, running() as standby:
        async with PostgresStore(primary.url()) as store:
            await add(store, KEY, "one")
        standby.stop()
        standby.become_copy_of(primary)
        standby.start()

        error = await refusal(standby.url(), StoreReadOnly, "standby")
        assert "primary" in error.hint
        both = f"postgresql:///postgres?user=postgres&host={standby.folder},{primary.folder}"
        async with open_store(both) as store:
            assert await texts(store, KEY) == ["one"]


async def test_server_without_fsync_is_refused_or_promises_less(tmp_path: Path) -> None:
    """What it acknowledges it may forget, and more."""
    with running(fsync="off") as server:
        error = await refusal(server.url(), StoreError, "fsync=off")
        assert "durability=process" in error.hint
        async with open_store(server.url(durability="process")) as store:
            await add(store, KEY, "one")
            assert "may destroy everything" in store.promise


async def test_server_that_was_set_read_only_says_so(store: Store, postgres_server: Server, postgres_url: str) -> None:
    """A switch of the administrator, or a failover behind our back: refused, and fine again afterwards."""
    await add(store, KEY, "one")
    postgres_server.execute(
        "create role frozen login superuser; alter role frozen set default_transaction_read_only=on"
    )
    async with open_store(postgres_url.replace("postgres@", "frozen@")) as other:
        assert await texts(other, KEY) == ["one"]
        with pytest.raises(StoreReadOnly, match="takes no commits"):
            await other.append(KEY, [entry("two")], after=1)
        postgres_server.execute("alter role frozen reset default_transaction_read_only")
        await add(other, KEY, "two")
    postgres_server.execute("drop role frozen")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file system of its own")
async def test_full_disk_is_said_and_survived(postgres_server: Server, tmp_path: Path) -> None:
    """The tables stand on a disk of 4 MB: the commit that does not fit is not kept, smaller ones go on."""
    disk = Path("/dev/shm") / f"spg-full-{os.getpid()}"
    disk.mkdir()
    if not run("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)):
        disk.rmdir()
        pytest.skip("may not mount here")
    try:
        place = disk / "tables"
        place.mkdir()
        os.chown(place, postgres_server.account_id, -1)
        postgres_server.execute(f"create tablespace small location '{place}'")
        postgres_server.execute(
            "create role cramped login superuser; alter role cramped set default_tablespace = small"
        )
        async with open_store(postgres_server.url(user="cramped", schema="cramped")) as store:
            await add(store, KEY, "one")
            with pytest.raises(StoreFull, match="no room left"):
                await store.append(KEY, [entry("two", blocks=((b"a", os.urandom(6_000_000)),))], after=1)
            assert await texts(store, KEY) == ["one"]
            await add(store, KEY, "two")
            assert dict(await store.blocks(KEY, [b"a"])) == {}
        postgres_server.execute("drop schema cramped cascade; drop role cramped")
        postgres_server.execute("drop tablespace small")
    finally:
        assert run("umount", str(disk))
        disk.rmdir()


# -- other tables than ours -----------------------------------------------------------------------------------------


async def test_newer_layout_is_refused_unchanged(postgres_server: Server, postgres_url: str) -> None:
    """An old program never touches what a newer one has made, at the start or under its feet."""
    schema = schema_of(postgres_url)
    async with open_store(postgres_url) as store:
        await add(store, KEY, "one")
        postgres_server.execute(f"update {schema}.statepact_layout set version = 99")
        error = await refusal(postgres_url, StoreTooNew, "layout 99")
        assert "update statepact" in error.hint
        postgres_server.execute(f"drop schema {schema} cascade")
        with pytest.raises(StoreUnavailable, match="no tables of this version any more"):
            await store.append(KEY, [entry("two")], after=1)
        with pytest.raises(StoreUnavailable, match="no tables of this version any more"):
            await store.headers(KEY)


async def test_schema_of_somebody_else_is_left_alone(postgres_server: Server, postgres_url: str) -> None:
    """Tables with our names in a schema that is not marked as ours are not ours."""
    schema = schema_of(postgres_url)
    postgres_server.execute(f"create schema {schema}; create table {schema}.session(id int)")
    error = await refusal(postgres_url, StoreUnavailable, "another program")
    assert "?schema=" in error.hint
    assert postgres_server.execute(f"select relname from pg_class where relnamespace = '{schema}'::regnamespace") == [
        ("session",)
    ]


async def test_empty_schema_that_was_made_for_us_is_used(postgres_server: Server, postgres_url: str) -> None:
    """The way for a role that may not make schemas."""
    schema = schema_of(postgres_url)
    postgres_server.execute(f"create role modest login; create schema {schema} authorization modest")
    async with open_store(postgres_url.replace("postgres@", "modest@")) as store:
        await add(store, KEY, "one")
        assert await texts(store, KEY) == ["one"]
    postgres_server.execute("drop owned by modest cascade; drop role modest")


async def test_database_with_another_encoding_is_refused(postgres_server: Server) -> None:
    """Latin letters only: names would be refused one day, so we do not begin."""
    postgres_server.execute("create database latin encoding 'LATIN1' template template0 locale 'C'")
    await refusal(postgres_server.url("latin"), StoreUnavailable, "LATIN1")
    postgres_server.execute("drop database latin with (force)")


async def test_migration_killed_at_any_statement_can_be_begun_again(
    postgres_server: Server, postgres_database: str
) -> None:
    """The server ends our connection after the first, second, third … statement: next time it is whole."""
    name = postgres_database
    postgres_server.execute(
        "create table public.fuse(length int); insert into public.fuse values (0);"
        "create sequence public.burnt;"
        "create function public.burn() returns event_trigger language plpgsql as $$ begin"
        " if nextval('public.burnt') >= (select length from public.fuse)"
        " then perform pg_terminate_backend(pg_backend_pid()); end if; end $$;"
        "create event trigger burn on ddl_command_end execute function public.burn()",
        database=name,
    )
    for length in range(1, 60):
        postgres_server.execute(
            f"update public.fuse set length = {length}; select setval('public.burnt', 1, false)", database=name
        )
        async with PostgresStore(postgres_server.url(name), schema="state") as store:
            try:
                await store.headers(KEY)
                break
            except StoreUnavailable:
                assert (
                    postgres_server.execute("select 1 from pg_namespace where nspname = 'state'", database=name) == []
                )
    assert length > 15
    async with PostgresStore(postgres_server.url(name), schema="state") as store:
        await add(store, KEY, "one")
        assert await texts(store, KEY) == ["one"]


async def test_many_that_begin_at_once_make_the_tables_once(postgres_server: Server, postgres_url: str) -> None:
    """Twelve stores, and processes of their own beside them, find nothing there at the same moment."""
    code = (
        "import asyncio, sys\n"
        "from statepact.stores import open_store\n"
        "from statepact.ledger import SessionKey\n"
        "from statepact.testing._sentences import add\n"
        "async def main():\n"
        "    async with open_store(sys.argv[1]) as store:\n"
        "        await add(store, SessionKey('acme', sys.argv[2]), 'x')\n"
        "asyncio.run(main())\n"
    )
    others = [await asyncio.create_subprocess_exec(sys.executable, "-c", code, postgres_url, f"p-{n}") for n in "12"]

    async def begin(number: int) -> None:
        async with open_store(postgres_url) as store:
            await add(store, SessionKey("acme", f"s-{number}"), "x")

    await asyncio.gather(*(begin(number) for number in range(12)))
    assert [await process.wait() for process in others] == [0, 0]
    async with open_store(postgres_url) as store:
        assert len(await store.sessions("acme")) == 14
