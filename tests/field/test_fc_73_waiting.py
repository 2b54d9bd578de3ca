"""FC-73: whoever waits for a notice that was sent while nobody listened waits for ever."""

from __future__ import annotations

import asyncio

from statepact import Contract, Store, open_session, watch
from statepact.ledger import SessionKey
from statepact.ledger._view import EntryView
from statepact.testing._sentences import Hesitant

SOON = 10.0
KEY = SessionKey("local", "s-1")


class State(Contract):
    number: int


async def commit(store: Store, *numbers: int) -> None:
    """Commit as another process would, each number as a step of its own."""
    async with open_session("s-1", store=store, run="r-1") as session:
        for number in numbers:
            async with session.step("change", branch=str(number)) as step:
                await step.commit(State(number=number))


async def follow(store: Store, until: int, *, after: int = 0) -> list[int]:
    """Follow the session until a number is seen; return all that were seen."""
    seen: list[int] = []
    async for entry in watch("s-1", store=store, after=after, bound=0.05):
        seen += numbers_of(entry)
        if until in seen:
            break
    return seen


def numbers_of(entry: EntryView) -> list[int]:
    return [cell.values["number"] for cell in entry.cells if cell.contract.name == "State"]


class Deaf(Hesitant):
    """A store whose notices never come: it only answers when the time is up."""

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        await asyncio.sleep(within)
        return await self.store.changed(key, after=after, within=0)


async def test_commit_before_anybody_listened(store: Store) -> None:
    """(a) What is already there comes first."""
    await commit(store, 1, 2)

    async with asyncio.timeout(SOON):
        assert await follow(store, 2) == [1, 2]


async def test_commit_between_look_and_listening(store: Store) -> None:
    """(b) At whatever moment the commit comes, the follower goes on."""
    for turns in range(12):
        waiting = asyncio.ensure_future(follow(store, turns + 1))
        for _ in range(turns):
            await asyncio.sleep(0)
        await commit(store, turns + 1)
        async with asyncio.timeout(SOON):
            assert (await waiting)[-1] == turns + 1


async def test_notices_that_are_lost(store: Store) -> None:
    """(c) With no notice at all the follower is late by no more than its bound, and misses nothing."""
    waiting = asyncio.ensure_future(follow(Deaf(store), 3))
    await commit(store, 1, 2, 3)

    async with asyncio.timeout(SOON):
        assert await waiting == [1, 2, 3]


async def test_commits_at_once_come_once_each_in_order(store: Store) -> None:
    """(d) Two within a moment, or forty: each comes once."""
    waiting = asyncio.ensure_future(follow(store, 39))
    await commit(store, *range(40))

    async with asyncio.timeout(SOON):
        assert await waiting == list(range(40))


async def test_following_goes_on_where_it_stopped(store: Store) -> None:
    """A follower that comes back with its last revision gets the rest, nothing twice."""
    await commit(store, 1, 2, 3)
    first: list[EntryView] = []
    async for entry in watch("s-1", store=store):
        first.append(entry)
        if numbers_of(entry) == [2]:
            break

    async with asyncio.timeout(SOON):
        assert await follow(store, 3, after=first[-1].revision) == [3]
    assert [entry.revision for entry in first] == [1, 2, 3]
    assert {entry.run for entry in first} == {"r-1"}


async def test_no_hang_in_many_waits(store: Store) -> None:
    """Two hundred waits, each beside a commit, none of them hangs."""
    async with asyncio.timeout(60):
        for number in range(200):
            waiting = asyncio.ensure_future(follow(store, number, after=0 if not number else 2 * number))
            await commit(store, number)
            assert number in await waiting


async def test_session_can_be_followed_from_inside(store: Store) -> None:
    """`session.watch()` begins after what the session has seen."""
    async with open_session("s-1", store=store, run="r-1") as session:
        following = session.watch()
        await commit(store, 7)
        async with asyncio.timeout(SOON):
            async for entry in following:
                if numbers_of(entry):
                    assert numbers_of(entry) == [7]
                    break
