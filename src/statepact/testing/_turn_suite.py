"""Who may run in a session, and how those who wait hear of it: a part of `StoreSuite`."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from statepact.errors import Behind, LeaseLost, SessionHeld, StoreError
from statepact.ledger import SessionKey
from statepact.stores._base import Hold, Store
from statepact.testing._sentences import add, entry, revision, texts

SOON = 10.0
"""Seconds after which waiting counts as hanging."""


def by(holder: str, *, run: str = "r-1", seconds: float = 60.0, claim: bool = True) -> Hold:
    """Return the claim of a worker."""
    return Hold(run=run, holder=holder, seconds=seconds, claim=claim)


async def granted(store: Store, key: SessionKey, hold: Hold) -> bool:
    """Claim a session; return whether it was free."""
    try:
        await store.hold(key, hold)
    except SessionHeld:
        return False
    return True


async def granted_at_last(store: Store, key: SessionKey, hold: Hold) -> None:
    """Claim a session again and again until it is granted: the store's clock decides when."""
    while not await granted(store, key, hold):  # noqa: ASYNC110 - nobody could set an event
        await asyncio.sleep(0.005)


class TurnSuite:
    """Holds and waiting, as every store promises them."""

    async def test_one_holder_at_a_time(self, store: Store, key: SessionKey) -> None:
        """A session that somebody holds is refused to others, who are told by whom and for how long."""
        await store.hold(key, by("worker 41", run="J-77"))

        with pytest.raises(SessionHeld) as caught:
            await store.hold(key, by("worker 42"))
        assert (caught.value.holder, caught.value.run) == ("worker 41", "J-77")
        assert 0 < caught.value.seconds <= 60

    async def test_holder_may_claim_again(self, store: Store, key: SessionKey) -> None:
        """Renewing is the same claim once more."""
        await store.hold(key, by("worker 41"))
        await store.hold(key, by("worker 41"))

        assert not await granted(store, key, by("worker 42"))

    async def test_of_many_claims_at_once_one_is_granted(self, store: Store, key: SessionKey) -> None:
        """Eight workers find the same run at the same moment."""
        done = await asyncio.gather(*(granted(store, key, by(f"worker {n}")) for n in range(8)))

        assert done.count(True) == 1

    async def test_given_up_session_is_free(self, store: Store, key: SessionKey) -> None:
        """0 seconds give the session up, and only the holder can."""
        await store.hold(key, by("worker 41"))
        await store.hold(key, by("worker 42", seconds=0))
        assert not await granted(store, key, by("worker 42"))

        await store.hold(key, by("worker 41", seconds=0))
        assert await granted(store, key, by("worker 42"))

    async def test_dead_holder_is_succeeded_when_its_time_is_up(self, store: Store, key: SessionKey) -> None:
        """Nobody has to do anything about a worker that has died."""
        await store.hold(key, by("worker 41", seconds=0.05))

        async with asyncio.timeout(SOON):
            await granted_at_last(store, key, by("worker 42"))
        assert not await granted(store, key, by("worker 41"))

    async def test_holder_that_is_known_to_be_dead_is_succeeded_at_once(self, store: Store, key: SessionKey) -> None:
        """Who knows that the holder has died names it, and need not wait; any other is not taken over."""
        await store.hold(key, by("worker 41"))

        assert not await granted(store, key, replace(by("worker 42"), succeeds="worker 40"))
        assert await granted(store, key, replace(by("worker 42"), succeeds="worker 41"))
        with pytest.raises(LeaseLost):
            await store.append(key, [entry("late")], after=0, hold=by("worker 41", claim=False))

    async def test_append_of_another_holder_is_refused_whole(self, store: Store, key: SessionKey) -> None:
        """A copy that was started twice cannot commit while the first one lives. FC-29 (b)."""
        await store.append(key, [entry("begun")], after=0, hold=by("worker 41"))

        with pytest.raises(SessionHeld):
            await store.append(key, [entry("copy", blocks=((b"a", b"x"),))], after=1, hold=by("worker 42"))
        assert await texts(store, key) == ["begun"]
        assert dict(await store.blocks(key, [b"a"])) == {}

    async def test_late_append_of_a_succeeded_holder_is_refused(self, store: Store, key: SessionKey) -> None:
        """A worker that wakes up after it was succeeded commits nothing. FC-29 (c)."""
        await store.append(key, [entry("begun")], after=0, hold=by("worker 41", seconds=0.01))
        async with asyncio.timeout(SOON):
            await granted_at_last(store, key, by("worker 42"))
        await store.append(key, [entry("42 records")], after=1, hold=by("worker 42"))

        with pytest.raises(SessionHeld):
            await store.append(key, [entry("nothing")], after=2, hold=by("worker 41"))
        with pytest.raises(LeaseLost):
            await store.append(key, [entry("nothing")], after=2, hold=by("worker 41", claim=False))
        assert await texts(store, key) == ["begun", "42 records"]

    async def test_succeeded_holder_is_told_even_when_its_successor_is_done(
        self, store: Store, key: SessionKey
    ) -> None:
        """A claim that is only renewed never becomes a new one, however free the session is. FC-29."""
        await store.hold(key, by("worker 41", seconds=0.01))
        async with asyncio.timeout(SOON):
            await granted_at_last(store, key, by("worker 42"))
        await store.append(key, [entry("42 records")], after=0, hold=by("worker 42", seconds=0))

        with pytest.raises(LeaseLost):
            await store.append(key, [entry("nothing")], after=1, hold=by("worker 41", claim=False))
        with pytest.raises(LeaseLost):
            await store.hold(key, by("worker 41", claim=False))
        await store.hold(key, by("worker 41", seconds=0, claim=False))
        assert await texts(store, key) == ["42 records"]

    async def test_renewal_keeps_what_is_ours(self, store: Store, key: SessionKey) -> None:
        """As long as nobody took over, renewing works, late or not, with an append or alone."""
        await store.hold(key, by("worker 41", seconds=0.001))
        await asyncio.sleep(0.01)
        await store.hold(key, by("worker 41", claim=False))
        await store.append(key, [entry("one")], after=0, hold=by("worker 41", claim=False))

        assert not await granted(store, key, by("worker 42"))
        assert await texts(store, key) == ["one"]

    async def test_late_holder_that_nobody_succeeded_may_go_on(self, store: Store, key: SessionKey) -> None:
        """Being slow is no crime: a finished model call is not thrown away for it."""
        await store.hold(key, by("worker 41", seconds=0.001))
        await asyncio.sleep(0.01)

        await store.append(key, [entry("late")], after=0, hold=by("worker 41"))
        assert await texts(store, key) == ["late"]

    async def test_append_renews_and_gives_up(self, store: Store, key: SessionKey) -> None:
        """An append claims what is free, and the last one of a run gives it up in the same step."""
        await store.append(key, [entry("begun")], after=0, hold=by("worker 41"))
        assert not await granted(store, key, by("worker 42"))

        await store.append(key, [entry("done")], after=1, hold=by("worker 41", seconds=0))
        assert await granted(store, key, by("worker 42"))

    async def test_refused_append_claims_nothing(self, store: Store, key: SessionKey) -> None:
        """Who is behind has not got the session either."""
        await add(store, key, "one")

        with pytest.raises(Behind):
            await store.append(key, [entry("late")], after=0, hold=by("worker 41"))
        assert await granted(store, key, by("worker 42"))

    async def test_append_without_a_claim_asks_nobody(self, store: Store, key: SessionKey) -> None:
        """What is not part of a run, such as the record of a refusal, can always be written."""
        await store.hold(key, by("worker 41"))

        await store.append(key, [entry("refused: worker 42")], after=0)
        assert await texts(store, key) == ["refused: worker 42"]

    async def test_holds_of_owners_and_sessions_are_apart(self, store: Store, key: SessionKey) -> None:
        """A hold is of one session of one owner. FC-75."""
        await store.hold(key, by("worker 41"))

        assert await granted(store, SessionKey(key.owner, "s-2"), by("worker 42"))
        assert await granted(store, SessionKey("umbrella", key.session), by("worker 42"))

    async def test_held_session_without_entries_is_not_listed(self, store: Store, key: SessionKey) -> None:
        """A session exists once it has an entry."""
        await store.hold(key, by("worker 41"))

        assert list(await store.sessions(key.owner)) == []
        assert list(await store.owners()) == []
        assert await revision(store, key) == 0

    # -- waiting for changes -----------------------------------------------------------------------

    async def test_change_before_waiting_is_seen_at_once(self, store: Store, key: SessionKey) -> None:
        """The revision decides, not whether somebody listened when the notice came. FC-73 (a)."""
        await add(store, key, "one", "two")

        async with asyncio.timeout(SOON):
            assert await store.changed(key, after=1, within=3600) == 2

    async def test_change_while_waiting_ends_the_wait(self, store: Store, key: SessionKey) -> None:
        """Whenever the commit comes, before, between or after the first look. FC-73 (b), (d)."""
        for after in range(20):
            waiting = asyncio.ensure_future(store.changed(key, after=after, within=3600))
            for _ in range(after % 5):
                await asyncio.sleep(0)
            await add(store, key, f"number {after + 1}")
            async with asyncio.timeout(SOON):
                assert await waiting == after + 1

    async def test_many_wait_and_all_go_on(self, store: Store, key: SessionKey) -> None:
        """A hundred waiters of one session, and none of another one, hear of a commit."""
        waiters = [asyncio.ensure_future(store.changed(key, after=0, within=3600)) for _ in range(100)]
        other = asyncio.ensure_future(store.changed(SessionKey(key.owner, "s-2"), after=0, within=0.2))
        await asyncio.sleep(0)
        await add(store, key, "one")
        await add(store, key, "two")

        async with asyncio.timeout(SOON):
            assert all(seen in (1, 2) for seen in await asyncio.gather(*waiters))
            assert await other == 0

    async def test_waiting_for_nothing_ends(self, store: Store, key: SessionKey) -> None:
        """Nobody waits longer than agreed; 0 seconds ask without waiting."""
        async with asyncio.timeout(SOON):
            assert await store.changed(key, after=0, within=0.05) == 0
            assert await store.changed(key, after=0, within=0) == 0

    async def test_closing_ends_every_wait(self, store: Store, key: SessionKey) -> None:
        """Nobody waits for a store that is closed: whoever does is told at once."""
        await add(store, key, "one")
        waiting = [asyncio.ensure_future(store.changed(key, after=1, within=3600)) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        await store.aclose()

        async with asyncio.timeout(SOON):
            done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in done if not isinstance(one, StoreError)] == []
