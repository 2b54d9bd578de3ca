"""What commits mean on every store: the half of `StoreSuite` that goes through an open log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from statepact.errors import CorruptState, StepIdReused, StoreFull
from statepact.ledger import Entry, SessionKey
from statepact.stores._base import Store
from statepact.stores._draft import Draft
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify
from statepact.testing._sentences import (
    Forgetful,
    Hesitant,
    Refusing,
    all_at_once,
    each_at_once,
    remark,
    said,
    transcript,
)


class CommitSuite:
    """Commits of steps: once, whole, and by whoever made them."""

    @pytest.fixture(params=["at once", "hesitant"])
    def shared_store(self, store: Store, request: pytest.FixtureRequest) -> Store:
        """The store as it is, and as it would be behind a network."""
        return Hesitant(store) if request.param == "hesitant" else store

    @pytest.fixture
    async def log(self, shared_store: Store, key: SessionKey) -> OpenLog:
        """An open log of an empty session."""
        return await OpenLog.open(shared_store, key)

    async def test_parallel_branches_both_land(self, log: OpenLog, store: Store, key: SessionKey) -> None:
        """Steps that saw the same snapshot all commit: their cells are their own. FC-19."""
        flight, hotel = await all_at_once(log, said("flight", "LX 318"), said("hotel", "Alma"))

        assert {flight.revision, hotel.revision} == {1, 2}
        assert sorted(await transcript(store, key)) == ["r-1 flight: LX 318", "r-1 hotel: Alma"]

    async def test_one_step_in_many_branches_loses_none(self, log: OpenLog, store: Store, key: SessionKey) -> None:
        """A fan-out of forty writes forty entries, in whatever order."""
        await all_at_once(log, *(said("look", branch=str(n)) for n in range(40)))

        assert sorted(await transcript(store, key)) == sorted(f"r-1 look/{n}: look" for n in range(40))

    async def test_same_step_twice_at_once_is_one_entry(self, log: OpenLog, store: Store, key: SessionKey) -> None:
        """A step started twice commits once, and both callers get what was committed."""
        first, second = await all_at_once(log, said("refund", "59.90"), said("refund", "95.90"))

        assert first is second
        assert len(await transcript(store, key)) == 1

    async def test_repeated_step_gets_the_stored_result(self, log: OpenLog, store: Store, key: SessionKey) -> None:
        """A step done again later, from another process too, changes nothing."""
        first = await log.append(said("refund", "59.90"))
        again = await (await OpenLog.open(store, key)).append(said("refund", "95.90"))

        assert again.header.digest == first.header.digest
        assert await transcript(store, key) == ["r-1 refund: 59.90"]

    async def test_same_step_with_other_input_is_refused(self, log: OpenLog, store: Store, key: SessionKey) -> None:
        """The result of another input is never passed off as the result of this one."""
        await log.append(said("refund", "59.90", given="KX-1"))

        with pytest.raises(StepIdReused):
            await log.append(said("refund", "95.90", given="KX-2"))
        assert await transcript(store, key) == ["r-1 refund: 59.90"]

    async def test_same_step_with_other_input_at_once_is_refused(self, log: OpenLog) -> None:
        """Whoever comes first counts; the other one is told."""
        first, second = await each_at_once(log, said("refund", given="KX-1"), said("refund", given="KX-2"))

        assert isinstance(first, Entry)
        assert isinstance(second, StepIdReused)

    async def test_log_that_is_behind_reads_on_and_lands(self, log: OpenLog, store: Store, key: SessionKey) -> None:
        """A process with an old revision commits after the entries that it had not seen."""
        behind = await OpenLog.open(store, key)
        await log.append(said("understand"))
        await log.append(said("look_up"))

        landed = await behind.append(said("answer"))

        assert landed.revision == 3
        assert [entry.header.step for entry in behind.log.entries] == ["understand", "look_up", "answer"]

    async def test_log_that_is_behind_cannot_write_a_cell_again(
        self, log: OpenLog, store: Store, key: SessionKey
    ) -> None:
        """What another process has committed in the meantime is found, not overwritten."""
        behind = await OpenLog.open(store, key)
        theirs = await log.append(said("answer", "theirs"))

        assert (await behind.append(said("answer", "ours"))).header.digest == theirs.header.digest
        assert await transcript(store, key) == ["r-1 answer: theirs"]

    async def test_stranger_between_commits_changes_nobodys_words(
        self, log: OpenLog, store: Store, key: SessionKey
    ) -> None:
        """Commits under way beside those of another process keep run, step and branch of their own."""
        stranger = await OpenLog.open(store, key)
        await stranger.append(said("foreign", run="r-2"))
        await all_at_once(log, *(said(f"ours-{n}", branch=f"b{n}") for n in range(4)))

        expected = [f"r-1 ours-{n}/b{n}: ours-{n}" for n in range(4)]
        assert sorted(await transcript(store, key)) == [*expected, "r-2 foreign: foreign"]
        assert (await verify(store, key)).ok

    async def test_many_logs_on_one_session_lose_nothing(self, store: Store, key: SessionKey) -> None:
        """Eight processes with five steps each, all at once: forty entries, each by its writer."""
        logs = [await OpenLog.open(Hesitant(store), key) for _ in range(8)]

        await asyncio.gather(
            *(log.append(said(f"s{n}", run=f"r-{who}")) for who, log in enumerate(logs) for n in range(5))
        )

        expected = [f"r-{who} s{n}: s{n}" for who in range(8) for n in range(5)]
        assert sorted(await transcript(store, key)) == sorted(expected)
        assert (await verify(store, key)).ok

    async def test_bad_commit_among_others_fails_alone(self, store: Store, key: SessionKey) -> None:
        """One commit that the store refuses does not take those beside it with it."""
        log = await OpenLog.open(Refusing(store, "too much"), key)

        done = await each_at_once(log, said("a"), said("b"), said("c", "too much"), said("d"))

        assert [isinstance(one, Entry) for one in done] == [True, True, False, True]
        assert isinstance(done[2], StoreFull)
        assert sorted(await transcript(store, key)) == ["r-1 a: a", "r-1 b: b", "r-1 d: d"]

    async def test_draft_that_is_no_entry_fails_alone(self, log: OpenLog, store: Store, key: SessionKey) -> None:
        """A commit that cannot even be written down leaves no trace, not in the names of the log either."""
        impossible = Draft(at=-1, run="r-impossible", step="impossible")

        done = await each_at_once(log, said("a"), impossible, said("b"))
        await log.append(said("c"))

        assert [isinstance(one, Entry) for one in done] == [True, False, True]
        assert sorted(await transcript(store, key)) == ["r-1 a: a", "r-1 b: b", "r-1 c: c"]

    async def test_refused_commit_can_be_made_again(self, store: Store, key: SessionKey) -> None:
        """After "no room left" the log goes on as if nothing had been tried."""
        refusing = Refusing(store, "too much")
        log = await OpenLog.open(refusing, key)
        with pytest.raises(StoreFull):
            await log.append(said("first-name", "too much", run="r-new"))
        await log.append(said("second-name"))

        refusing.text = None
        await log.append(said("first-name", "too much", run="r-new"))

        assert await transcript(store, key) == ["r-1 second-name: second-name", "r-new first-name: too much"]

    async def test_commit_whose_answer_was_lost_is_not_made_twice(self, store: Store, key: SessionKey) -> None:
        """The store timed out, but had kept the entry: it is found again, whatever kind it is."""
        log = await OpenLog.open(Forgetful(store), key)
        assert (await log.append(remark("lost answer"))).revision == 1

        other = SessionKey(key.owner, key.session + "-2")
        log = await OpenLog.open(Forgetful(store), other)
        assert (await log.append(said("a"))).revision == 1
        assert await transcript(store, other) == ["r-1 a: a"]

    @pytest.mark.parametrize("turns", range(8))
    async def test_cancelled_commit_takes_no_other_with_it(self, store: Store, key: SessionKey, turns: int) -> None:
        """Whoever waits beside a cancelled commit still lands, once."""
        log = await OpenLog.open(Hesitant(store), key)
        cancelled, *others = [asyncio.ensure_future(log.append(said(step))) for step in "abcd"]
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled.cancel()

        await asyncio.gather(*others)
        await asyncio.gather(cancelled, return_exceptions=True)

        heard = await transcript(store, key)
        assert [line for line in sorted(heard) if line != "r-1 a: a"] == [f"r-1 {step}: {step}" for step in "bcd"]
        assert heard.count("r-1 a: a") <= 1

    async def test_reader_beside_writers_sees_whole_entries(self, log: OpenLog, key: SessionKey) -> None:
        """Refreshing while others commit neither misses entries nor hinders them."""
        await asyncio.gather(*(log.append(said(f"s{n}")) for n in range(6)), *(log.refresh() for _ in range(6)))
        await log.refresh()

        assert sorted(entry.header.step for entry in log.log.entries) == [f"s{n}" for n in range(6)]

    async def test_session_that_was_set_back_is_noticed(self, store: Store, key: SessionKey) -> None:
        """A log that has read more than the store holds says so instead of trying for ever."""
        log = await OpenLog.open(store, key)
        await log.append(said("a"))
        log.key = SessionKey(key.owner, "an older copy")

        with pytest.raises(CorruptState, match="fewer entries"):
            await log.append(said("b"))

    async def test_large_values_are_read_by_others(self, log: OpenLog, store: Store, key: SessionKey) -> None:
        """A value that is stored beside its document comes back whole, in another process too."""
        text = "叶片坏了。" * 20_000
        await all_at_once(log, said("understand", text), said("answer", text + "!"))

        assert sorted(await transcript(store, key)) == [f"r-1 answer: {text}!", f"r-1 understand: {text}"]
        assert (await verify(store, key)).ok

    async def test_equal_large_values_of_two_owners_are_two(self, store: Store, key: SessionKey) -> None:
        """Nobody can read, or even notice, that somebody else has stored the same text. FC-75."""
        ours, theirs = key, SessionKey("umbrella", key.session)
        secret: Any = {"text": "x" * 200_000}
        draft, other = said("a", secret["text"]), said("a", secret["text"], owner="umbrella")
        await (await OpenLog.open(store, ours)).append(draft)
        await (await OpenLog.open(store, theirs)).append(other)

        address, address_of_other = draft.documents[0][1].blocks[0][0], other.documents[0][1].blocks[0][0]
        assert address != address_of_other
        assert list(await store.blocks(ours, [address, address_of_other])) == [address]
        assert list(await store.blocks(theirs, [address, address_of_other])) == [address_of_other]
