"""The store suite on PostgreSQL, and what is true of it besides."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest
from _postgres import Server

from statepact import Contract, Workflow, open_session
from statepact.errors import Behind, MissingExtra, SetupError, StoreError
from statepact.ledger import SessionKey
from statepact.stores import Entity, Hold, NewEntry, PostgresStore, Store, open_store
from statepact.testing import StoreSuite
from statepact.testing._sentences import add, entry, texts

KEY = SessionKey("acme", "s-1")


class TestPostgresStore(StoreSuite):
    """Everything a store promises, run against a real server."""

    @pytest.fixture
    async def store(self, postgres_url: str) -> AsyncIterator[Store]:
        async with open_store(postgres_url) as store:
            yield store

    @pytest.fixture
    async def second_store(self, postgres_url: str) -> AsyncIterator[Store]:
        async with open_store(postgres_url) as store:
            yield store

    @pytest.fixture
    def jump(self, postgres_server: Server, postgres_url: str) -> Callable[[float], None]:
        """The server's clock is the machine's, so what it is compared with moves the other way."""
        change = f"update {schema_of(postgres_url)}.session set until = until - interval '1 second' * "

        def jump(seconds: float) -> None:
            postgres_server.execute(change + str(seconds))

        return jump

    @pytest.fixture
    def kill_writer(self, postgres_server: Server) -> Callable[[], Awaitable[None]]:
        """The server ends all our connections, whatever they are doing."""
        end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'statepact'"

        async def kill() -> None:
            await asyncio.to_thread(postgres_server.execute, end)

        return kill


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore.from_url(postgres_url) as store:
        yield store


def schema_of(url: str) -> str:
    return url.rsplit("schema=", 1)[1]


# -- names ---------------------------------------------------------------------------------------------


async def test_longest_names_of_any_script_fit_into_every_index(store: Store) -> None:
    """512 characters of four bytes each, as different as can be, as owner, session, kind and value. FC-69."""
    chance = random.Random(69)
    names = ["".join(chr(chance.randrange(0x10000, 0x110000)) for _ in range(512)) for _ in range(4)]
    owner, session, kind, value = names
    key = SessionKey(owner, session)

    await store.append(
        key,
        [NewEntry(b"h", b"p", entities=(Entity(kind, value),), at=1)],
        after=0,
        hold=Hold(run=owner, holder=session, seconds=60),
    )

    assert [info.session for info in await store.sessions(owner)] == [session]
    assert [use.session for use in await store.entities(owner, kind=kind, value=value)] == [session]
    assert list(await store.entities(owner, value=value[:-1])) == []


async def test_collation_of_the_database_does_not_matter(postgres_server: Server) -> None:
    """A database that sorts like a dictionary and takes letters for equal lists names by code point."""
    name = postgres_server.new_name()
    try:
        postgres_server.execute(
            f"create database {name} template template0 locale_provider icu icu_locale 'de-u-ks-level1' locale 'C'"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this build of PostgreSQL sorts by code point only")
    names = sorted(["a", "B", "ä", "A", "á", "Z", "ß", "ss", "修", "🔧", "_", "10", "9"])
    async with PostgresStore(postgres_server.url(name)) as store:
        for one in names:
            await add(store, SessionKey("acme", one), one)
            await add(store, SessionKey(one, "s"), one)
        assert [info.session for info in await store.sessions("acme")] == names
        assert list(await store.owners()) == sorted([*names, "acme"])
    postgres_server.execute(f"drop database {name}")


async def test_text_that_cannot_be_stored_is_refused(store: Store) -> None:
    """NUL and half an emoji never get that far; if they do, it is an error of its own."""
    for name in ("a\x00b", "\ud83d"):
        with pytest.raises((StoreError, SetupError), match="not text"):
            await store.append(SessionKey("acme", name), [entry("x")], after=0)
    await add(store, KEY, "one")


@pytest.mark.parametrize("schema", ["agents", "Ägenten 1", 'a"b', "a'b", "100%", "$1", "{schema}", "x" * 63])
async def test_schema_may_have_any_name(postgres_server: Server, schema: str) -> None:
    """Two schemas of one database are two stores."""
    async with PostgresStore(postgres_server.url(), schema=schema) as store:
        waiting = asyncio.ensure_future(store.changed(KEY, after=0, within=10))
        await asyncio.sleep(0.05)
        await add(store, KEY, "one")
        assert await waiting == 1
        assert await texts(store, KEY) == ["one"]
    async with PostgresStore(postgres_server.url(), schema=schema[:-1] + "y") as other:
        assert list(await other.owners()) == []
    with postgres_server.connect() as db:
        for name in (schema, schema[:-1] + "y"):
            quoted = name.replace('"', '""')
            db.execute(f'drop schema "{quoted}" cascade')  # type: ignore[call-overload]


# -- one round trip, exactly once ----------------------------------------------------------------------


async def test_commit_is_one_transaction(store: Store, postgres_server: Server) -> None:
    """What the server counts: one transaction for each append, with hold, large value and entity."""
    hold = Hold(run="r-1", holder="worker 41", seconds=60)
    await store.append(KEY, [entry("0")], after=0, hold=hold)
    next_one = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    ((before,),) = postgres_server.execute(next_one)
    for after in range(1, 21):
        new = NewEntry(b"h", b"p", ((b"%d" % after, b"large"),), (Entity("order", str(after)),), at=after)
        await store.append(KEY, [new], after=after, hold=hold)
    assert postgres_server.execute(next_one) == [(int(str(before)) + 20,)]


async def test_what_the_server_undid_is_done_again_once(
    store: Store, postgres_server: Server, postgres_url: str
) -> None:
    """Serialization failures and deadlocks are not for the user, and no entry comes twice."""
    schema = schema_of(postgres_url)
    await add(store, KEY, "one")
    postgres_server.execute(
        f"create sequence {schema}.tries;"
        f"create function {schema}.unlucky() returns trigger language plpgsql as $$ declare n bigint; begin"
        f" n := nextval('{schema}.tries');"
        " if n <= 3 then raise exception sqlstate '40001'; elsif n <= 5 then raise exception sqlstate '40P01'; end if;"
        " return new; end $$;"
        f"create trigger unlucky before insert on {schema}.entry for each row execute function {schema}.unlucky()"
    )

    await add(store, KEY, "two")

    assert await texts(store, KEY) == ["one", "two"]
    assert postgres_server.execute(f"select last_value from {schema}.tries") == [(6,)]


async def test_role_that_prefers_other_isolation_is_served(postgres_server: Server, postgres_url: str) -> None:
    """Serializable by default, weak commits by default: each commit says itself what it wants."""
    postgres_server.execute(
        "create role careful login superuser; alter role careful set default_transaction_isolation = 'serializable';"
        "alter role careful set synchronous_commit = off"
    )
    url = postgres_url.replace("postgres@", "careful@")
    async with PostgresStore.from_url(url) as store:
        done = await asyncio.gather(
            *(store.append(KEY, [entry(str(n))], after=0) for n in range(8)), return_exceptions=True
        )
    assert [type(one) for one in done if one is not None] == [Behind] * 7
    postgres_server.execute("drop owned by careful; drop role careful")


# -- event loops and threads -----------------------------------------------------------------------------


def test_one_store_serves_one_loop_after_another(postgres_url: str) -> None:
    """Connections of a loop that has ended are not used again, and not left open either."""
    store = PostgresStore.from_url(postgres_url)

    async def once(number: int) -> int:
        await add(store, KEY, str(number))
        return await store.changed(KEY, after=number, within=10)

    assert [asyncio.run(once(number)) for number in range(4)] == [1, 2, 3, 4]
    asyncio.run(store.aclose())


def test_one_store_serves_several_threads_at_once(postgres_url: str) -> None:
    """Each with a loop of its own; all entries land, and closing in one of them ends the others' work."""
    store = PostgresStore.from_url(
        postgres_url,
    )
    errors: list[BaseException] = []

    async def work(who: int) -> None:
        for number in range(10):
            await add(store, SessionKey("acme", f"s-{who}"), str(number))

    def run(who: int) -> None:
        try:
            asyncio.run(work(who))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []

    async def read() -> None:
        for who in range(4):
            assert await texts(store, SessionKey("acme", f"s-{who}")) == [str(number) for number in range(10)]
        await store.aclose()

    asyncio.run(read())


async def test_more_work_than_connections_waits_its_turn(postgres_url: str) -> None:
    """Two connections serve fifty sessions."""
    async with PostgresStore.from_url(postgres_url + "&connections=2") as store:
        await asyncio.gather(*(add(store, SessionKey("acme", f"s-{n}"), "x") for n in range(50)))
        assert len(await store.sessions("acme")) == 50


def test_code_without_a_loop_uses_it_like_a_file(postgres_url: str) -> None:
    """`with` sessions, runs and their reports: the store waits on the loop in the background."""

    class Order(Contract):
        sheet: str

    workflow = Workflow("orders")

    @workflow.step
    def look_up() -> Order:
        return Order(sheet="x" * 5_000_000)

    large = PostgresStore.from_url(postgres_url)
    run = workflow.run_sync("any?", store=large, session="s-1", id="r-1")
    again = workflow.resume_sync("r-1", store=large, session="s-1")
    assert len(run[Order].sheet) == len(again[Order].sheet) == 5_000_000
    assert again.loss.is_complete

    with open_session("s-1", store=large, run="r-2") as session:
        with session.step("change") as step:
            step.commit(Order(sheet="y"))
        assert session.get(Order) == Order(sheet="y")
        assert session.loss.is_complete
    asyncio.run(large.aclose())


async def test_report_of_a_session_can_be_read_in_the_middle_of_a_commit(store: Store) -> None:
    """`session.loss` cannot be awaited, and the loop whose commit is under way stands still meanwhile."""

    class Order(Contract):
        number: int

    async with open_session("s-1", store=store, run="r-1") as session:

        async def commit(number: int) -> None:
            async with session.step("look", branch=str(number)) as step:
                await step.commit(Order(number=number))

        tasks = [asyncio.ensure_future(commit(number)) for number in range(5)]
        for _ in range(20):
            await asyncio.sleep(0)
            assert session.loss is not None
        await asyncio.gather(*tasks)
        assert len(await session.all(Order)) == 5


# -- notices -------------------------------------------------------------------------------------------------


async def test_notices_are_sent_to_those_who_wait_and_name_nobody(
    store: Store, postgres_server: Server, postgres_url: str
) -> None:
    """A commit that nobody waits for sends none; the others hold a number, no owner and no session."""
    with postgres_server.connect() as db:
        db.execute(f"listen {schema_of(postgres_url)}")  # type: ignore[call-overload]
        await add(store, KEY, "nobody waits")
        assert list(db.notifies(timeout=0)) == []

        waiting = asyncio.ensure_future(store.changed(KEY, after=1, within=10))
        await asyncio.sleep(0.1)
        await add(store, KEY, "somebody waits")
        assert await waiting == 2
        (notice,) = db.notifies(timeout=5, stop_after=1)
        int(notice.payload)


async def test_notice_comes_much_sooner_than_the_next_look(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With looks an hour apart, only a notice ends the wait; FC-73."""
    monkeypatch.setattr("statepact.stores._postgres.LOOK_AGAIN", 3600.0)
    await add(store, KEY, "0")
    for after in range(1, 30):
        waiting = asyncio.ensure_future(store.changed(KEY, after=after, within=3600))
        await asyncio.sleep(0.001 * (after % 7))
        await add(store, KEY, str(after))
        assert await asyncio.wait_for(waiting, 10) == after + 1


async def test_waiting_goes_on_when_the_listening_connection_ends(store: Store, postgres_server: Server) -> None:
    """The notice of a commit during the gap is lost; the waiter looks by itself. FC-73 (c)."""
    for after in range(3):
        waiting = asyncio.ensure_future(store.changed(KEY, after=after, within=60))
        await asyncio.sleep(0.1)
        postgres_server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'statepact'"
        )
        await add(store, KEY, str(after))
        assert await asyncio.wait_for(waiting, 10) == after + 1


async def test_foreign_notices_on_our_channel_do_no_harm(
    store: Store, postgres_server: Server, postgres_url: str
) -> None:
    """Anybody may send there."""
    waiting = asyncio.ensure_future(store.changed(KEY, after=0, within=60))
    await asyncio.sleep(0.05)
    for text in ("", "x", "1", "9" * 40):
        postgres_server.execute(f"select pg_notify('{schema_of(postgres_url)}', '{text}')")
    await add(store, KEY, "one")
    assert await asyncio.wait_for(waiting, 10) == 1


# -- without the extra ---------------------------------------------------------------------------------------


def test_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store is named, not at its first use."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"statepact\[postgres\]"):
        open_store("postgresql://localhost/x")


def test_driver_is_not_loaded_before_it_is_needed() -> None:
    """A worker on SQLite does not pay for it."""
    import subprocess

    code = "import sys, statepact, statepact.stores as s; s.open_store('memory:'); sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
