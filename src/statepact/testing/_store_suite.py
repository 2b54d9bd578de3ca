"""The definition of a store, as tests.

Beside the log itself, which is here: commits through an open log (`_commit_suite`), who may run and who
waits (`_turn_suite`), rewriting and finding (`_change_suite`), many clients whose answers must fit
together (`_history_suite`), clocks that jump and writers that die (`_fault_suite`).
"""

from __future__ import annotations

import asyncio
import random

import pytest

from statepact.errors import Behind, StoreError
from statepact.ledger import SessionKey
from statepact.stores._base import NewEntry, SessionInfo, Store
from statepact.testing._change_suite import ChangeSuite
from statepact.testing._commit_suite import CommitSuite
from statepact.testing._fault_suite import FaultSuite
from statepact.testing._history_suite import HistorySuite
from statepact.testing._sentences import add, entry, revision, texts, won
from statepact.testing._turn_suite import TurnSuite

NAMES = (
    *("foo", "foobar", "foo:1", "*", "f?o", "[a-z]oo", "foo\\", "foo%", "f_o", "foo/..", "'; drop table entry; --"),
    *("Foo", "foo ", " ", "é", "e\u0301", "预算有限", "售后:订单*", "🔧🇨🇭", "x" * 512, "x" * 511, "修" * 512),
)
"""Session names that somewhere became a pattern, a path, a statement or each other."""


class StoreSuite(CommitSuite, TurnSuite, ChangeSuite, HistorySuite, FaultSuite):
    """Everything a store promises. Inherit it and give it your store:

    ```python
    class TestSqliteStore(StoreSuite):
        @pytest.fixture
        async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
            async with SqliteStore(tmp_path / "state.db") as store:
                yield store
    ```

    Each test gets an empty store. Needs pytest-asyncio with `asyncio_mode = "auto"`. The fixtures
    `second_store` (another handle on the same place), `jump` (sets the store's clock) and `kill_writer`
    make the suite stricter; override those that your store can have.
    """

    @pytest.fixture
    async def store(self) -> Store:
        """The store to test, empty."""
        raise NotImplementedError("override the fixture `store` in your subclass of StoreSuite")

    @pytest.fixture
    def key(self) -> SessionKey:
        """A session that does not exist yet."""
        return SessionKey("acme", "s-1")

    # -- appending and comparing -----------------------------------------------------------------

    async def test_is_a_store_and_says_what_it_promises(self, store: Store) -> None:
        """The protocol is complete, and the promise is words that can be shown to a person."""
        assert isinstance(store, Store)
        assert store.promise

    async def test_session_that_does_not_exist_is_empty(self, store: Store, key: SessionKey) -> None:
        """Reading what is not there is no error and creates nothing."""
        assert list(await store.headers(key)) == []
        assert dict(await store.payloads(key, [1, 2])) == {}
        assert dict(await store.blocks(key, [b"address"])) == {}
        assert list(await store.sessions(key.owner)) == []

    async def test_entries_are_read_in_the_order_of_their_revisions(self, store: Store, key: SessionKey) -> None:
        """Revisions count 1, 2, 3 … over all appends."""
        await add(store, key, "one")
        await add(store, key, "two", "three")
        await add(store, key, "four")

        assert await texts(store, key) == ["one", "two", "three", "four"]

    async def test_headers_after_a_revision(self, store: Store, key: SessionKey) -> None:
        """A reader gets what it has not seen, and nothing if it has seen everything or more."""
        await add(store, key, "one", "two", "three")

        assert [stored.revision for stored in await store.headers(key, after=1)] == [2, 3]
        assert list(await store.headers(key, after=3)) == []
        assert list(await store.headers(key, after=99)) == []

    @pytest.mark.parametrize("wrong", [0, 1, 3, 99])
    async def test_append_at_another_revision_is_refused_whole(self, store: Store, key: SessionKey, wrong: int) -> None:
        """Only who has seen the newest entry may append; of the others nothing is kept."""
        await add(store, key, "one", "two")

        with pytest.raises(Behind):
            await store.append(key, [entry("late", blocks=((b"late block", b"x"),)), entry("later")], after=wrong)

        assert await texts(store, key) == ["one", "two"]
        assert dict(await store.blocks(key, [b"late block"])) == {}

    async def test_refused_append_leaves_no_session_behind(self, store: Store, key: SessionKey) -> None:
        """A session exists once it has an entry."""
        for _ in range(2):
            with pytest.raises(Behind):
                await store.append(key, [entry("late")], after=7)
        done = await asyncio.gather(
            *(won(store, SessionKey("acme", f"s-{n}"), "late", after=7) for n in range(4)),
            won(store, SessionKey("acme", "good"), "first", after=0),
        )

        assert done == [False] * 4 + [True]
        assert [info.session for info in await store.sessions("acme")] == ["good"]

    async def test_appending_nothing_compares_and_changes_nothing(self, store: Store, key: SessionKey) -> None:
        """An append without entries is a question: is the session still there?"""
        await store.append(key, [], after=0)
        assert list(await store.sessions("acme")) == []

        await add(store, key, "one")
        await store.append(key, [], after=1)
        with pytest.raises(Behind):
            await store.append(key, [], after=0)
        assert await texts(store, key) == ["one"]

    async def test_one_of_many_wins_each_revision(self, store: Store, key: SessionKey) -> None:
        """Eight writers try for the same revision at once, again and again: one gets it, seven are told."""
        winners = []
        for after in range(10):
            done = await asyncio.gather(*(won(store, key, f"{after} by {who}", after=after) for who in range(8)))
            assert done.count(True) == 1
            winners.append(f"{after} by {done.index(True)}")

        assert await texts(store, key) == winners

    async def test_history_of_many_writers_has_every_acknowledged_entry(self, store: Store, key: SessionKey) -> None:
        """Writers that read, lose and try again end with one history that agrees with what each was told."""
        acknowledged: dict[int, str] = {}

        async def write(who: int) -> None:
            chance = random.Random(who)
            for number in range(5):
                while True:
                    after = await revision(store, key)
                    for _ in range(chance.randrange(3)):
                        await asyncio.sleep(0)
                    if await won(store, key, f"{who}.{number}", after=after):
                        assert after + 1 not in acknowledged
                        acknowledged[after + 1] = f"{who}.{number}"
                        break

        await asyncio.gather(*(write(who) for who in range(8)))

        assert await texts(store, key) == [acknowledged[number] for number in range(1, 41)]

    @pytest.mark.parametrize("turns", range(6))
    async def test_cancelled_append_is_there_whole_or_not_at_all(
        self, store: Store, key: SessionKey, turns: int
    ) -> None:
        """Whoever stops waiting does not know whether it happened; half of it never does."""
        task = asyncio.ensure_future(store.append(key, [entry("a"), entry("b"), entry("c")], after=0))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        while not await won(store, key, "next", after=await revision(store, key)):
            pass

        assert await texts(store, key) in (["next"], ["a", "b", "c", "next"])

    # -- values ----------------------------------------------------------------------------------

    async def test_payloads_are_read_by_revision(self, store: Store, key: SessionKey) -> None:
        """Only what was asked for comes back; revisions that do not exist are left out."""
        await add(store, key, "one", "two", "three")

        assert dict(await store.payloads(key, [3, 1])) == {1: b"one", 3: b"three"}
        assert dict(await store.payloads(key, [2, 2, 0, -1, 4, 99])) == {2: b"two"}
        assert dict(await store.payloads(key, [])) == {}
        assert dict(await store.payloads(key, iter((2,)))) == {2: b"two"}

    async def test_a_thousand_payloads_are_read_together(self, store: Store, key: SessionKey) -> None:
        """No limit of a backend on the size of a question reaches the reader."""
        await add(store, key, *map(str, range(1200)))

        payloads = await store.payloads(key, range(1, 1201))
        assert [payloads[n + 1] for n in range(1200)] == [str(n).encode() for n in range(1200)]

    async def test_bytes_come_back_as_they_were(self, store: Store, key: SessionKey) -> None:
        """Nothing, every byte, and bytes that are no text or look like something else."""
        for_all = [b"", bytes(range(256)), b"\x00", b"\xff\xfe", b"null", b"1", "预算有限".encode()]
        await store.append(key, [NewEntry(b"h" + raw, raw) for raw in for_all], after=0)

        payloads = await store.payloads(key, range(1, 99))
        assert [payloads[n + 1] for n in range(len(for_all))] == for_all
        assert [stored.header for stored in await store.headers(key)] == [b"h" + raw for raw in for_all]

    async def test_value_of_two_megabytes(self, store: Store, key: SessionKey) -> None:
        """Large outputs are stored and read like small ones, as payload and as block. FC-15."""
        large = random.Random(1).randbytes(2 * 2**20)
        await store.append(key, [NewEntry(b"h", large, ((b"address", large[::-1]),))], after=0)

        assert (await store.payloads(key, [1]))[1] == large
        assert (await store.blocks(key, [b"address"]))[b"address"] == large[::-1]

    async def test_block_that_is_stored_again_is_the_same(self, store: Store, key: SessionKey) -> None:
        """In the same append, in a later one, and in another session: it is there, once for each session."""
        block = (b"address", b"a long text")
        await store.append(key, [entry("one", blocks=(block, block)), entry("two", blocks=(block,))], after=0)
        other = SessionKey(key.owner, "s-2")
        await store.append(other, [entry("three", blocks=(block,))], after=0)

        assert dict(await store.blocks(key, [b"address", b"unknown"])) == {b"address": b"a long text"}
        assert dict(await store.blocks(other, [b"address"])) == {b"address": b"a long text"}
        assert dict(await store.blocks(other, [])) == {}

    # -- owners and names --------------------------------------------------------------------------

    async def test_owners_share_nothing(self, store: Store) -> None:
        """Two owners with the same session name: own entries, own blocks, own listings. FC-75."""
        ours, theirs = SessionKey("ua", "support-1"), SessionKey("ub", "support-1")
        private = entry("order KX-5512, 12 Mill Lane", blocks=((b"address", b"12 Mill Lane"),))
        await store.append(ours, [private], after=0)

        assert list(await store.headers(theirs)) == []
        assert dict(await store.payloads(theirs, [1])) == {}
        assert dict(await store.blocks(theirs, [b"address"])) == {}
        assert list(await store.sessions("ub")) == []

        await store.append(theirs, [entry("theirs", blocks=((b"address", b"their own"),))], after=0)
        assert await texts(store, ours) == ["order KX-5512, 12 Mill Lane"]
        assert await texts(store, theirs) == ["theirs"]
        assert dict(await store.blocks(ours, [b"address"])) == {b"address": b"12 Mill Lane"}
        assert dict(await store.blocks(theirs, [b"address"])) == {b"address": b"their own"}

    async def test_refusal_names_nothing_of_another_owner(self, store: Store) -> None:
        """An error text tells the caller about the caller's session only. FC-75."""
        await add(store, SessionKey("ua", "support-1"), "one", "two", "three")

        with pytest.raises(Behind) as caught:
            await store.append(SessionKey("ub", "support-1"), [entry("x")], after=3)
        assert "revision 0" in str(caught.value)
        assert "ua" not in caught.value.message.split()

    async def test_names_are_compared_as_a_whole(self, store: Store) -> None:
        """No name is a pattern, a prefix or a path, and no two of them become one. FC-69."""
        for name in NAMES:
            await add(store, SessionKey("acme", name), f"in {name}")
        for name in NAMES:
            await add(store, SessionKey("acme", name), "second")

        for name in NAMES:
            assert await texts(store, SessionKey("acme", name)) == [f"in {name}", "second"]
        assert list(await store.sessions("acme")) == [SessionInfo(session=name, revision=2) for name in sorted(NAMES)]

    async def test_owner_names_are_compared_as_a_whole(self, store: Store) -> None:
        """The border between owner and session is never a character. FC-75."""
        pairs = [("a", "b:c"), ("a:b", "c"), ("a/b", "c"), ("a", "b/c"), ("*", "c"), ("a%", "c"), ("客户", "会话")]
        for owner, session in pairs:
            await add(store, SessionKey(owner, session), f"{owner} and {session}")

        for owner, session in pairs:
            assert await texts(store, SessionKey(owner, session)) == [f"{owner} and {session}"]
        assert [info.session for info in await store.sessions("a")] == ["b/c", "b:c"]
        assert [info.session for info in await store.sessions("*")] == ["c"]

    async def test_sessions_are_listed_by_name_with_their_revision(self, store: Store) -> None:
        """The listing is sorted, and the revision is the number of entries."""
        await add(store, SessionKey("acme", "b"), "one", "two", "three")
        await add(store, SessionKey("acme", "a"), "one")

        assert list(await store.sessions("acme")) == [
            SessionInfo(session="a", revision=1),
            SessionInfo(session="b", revision=3),
        ]

    # -- closing -----------------------------------------------------------------------------------

    async def test_closing_twice_is_fine(self, store: Store, key: SessionKey) -> None:
        """Used or not, a store may be closed as often as one likes."""
        await add(store, key, "one")
        await store.aclose()
        await store.aclose()

    async def test_closing_an_unused_store_is_fine(self, store: Store) -> None:
        """Nothing was opened, nothing is left open."""
        await store.aclose()
        await store.aclose()

    async def test_closed_store_refuses_everything(self, store: Store, key: SessionKey) -> None:
        """Use after closing is an error that says so, never an empty answer."""
        await add(store, key, "one")
        await store.aclose()

        with pytest.raises(StoreError, match="closed"):
            await store.append(key, [entry("two")], after=1)
        with pytest.raises(StoreError, match="closed"):
            await store.headers(key)
        with pytest.raises(StoreError, match="closed"):
            await store.payloads(key, [1])
        with pytest.raises(StoreError, match="closed"):
            await store.blocks(key, [b"address"])
        with pytest.raises(StoreError, match="closed"):
            await store.sessions(key.owner)

    async def test_what_is_being_appended_is_finished_before_closing(self, store: Store, key: SessionKey) -> None:
        """Closing does not leave anybody waiting: each append ends, well or with an error."""
        tasks = [asyncio.ensure_future(won(store, SessionKey("acme", f"s-{n}"), "x", after=0)) for n in range(20)]
        await asyncio.sleep(0)
        await store.aclose()

        async with asyncio.timeout(10):
            done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(one is True or isinstance(one, StoreError) for one in done)
