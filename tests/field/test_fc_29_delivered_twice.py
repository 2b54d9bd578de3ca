"""FC-29: a queue delivers a long job twice; the empty second run must not overwrite the first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from statepact import Contract, Request, Store, Workflow, open_session
from statepact.errors import LeaseLost, SessionHeld, StoreUnavailable
from statepact.ledger import SessionKey
from statepact.ledger._header import Kind
from statepact.stores import Hold
from statepact.stores._open_log import OpenLog
from statepact.testing._sentences import Hesitant, said

KEY = SessionKey("local", "jobs")
SOON = 10.0


class Records(Contract):
    ids: list[str]


FULL = Records(ids=[f"R-{n}" for n in range(42)])
EMPTY = Records(ids=[])


def job(work: Callable[[], Awaitable[Records]]) -> Workflow:
    """Return the job as a worker has it: what its one step does is passed in."""
    workflow = Workflow("job")

    @workflow.step
    async def export(request: Request) -> Records:
        return await work()

    return workflow


class CutOff(Hesitant):
    """A store whose worker cannot say that it lives: frozen, or behind a broken line."""

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        raise StoreUnavailable("no route to the store")


async def refusals(store: Store) -> list[tuple[str, str, int]]:
    """Return run, step and number of records of each commit that was refused."""
    opened = await OpenLog.open(store, KEY)
    found = [entry for entry in opened.log.entries if entry.header.kind is Kind.REFUSAL]
    await opened.fetch(cell for entry in found for cell in entry.cells)
    return [(entry.header.run, entry.header.step, (entry.cells[0].document or b"").count(b"R-")) for entry in found]


async def stored(store: Store) -> Records | None:
    """Return what somebody reads who comes later."""
    async with open_session("jobs", store=store) as session:
        return await session.get(Records, run="J-77")


async def test_copy_waits_while_the_first_one_lives(store: Store) -> None:
    """(a) Redelivered while the worker still says that it lives: the copy does nothing and gets its result."""
    bodies: list[str] = []
    ready, finish = asyncio.Event(), asyncio.Event()

    async def first() -> Records:
        bodies.append("first")
        ready.set()
        await finish.wait()
        return FULL

    async def copy() -> Records:
        bodies.append("copy")
        return EMPTY

    async with asyncio.timeout(SOON):
        running = asyncio.ensure_future(job(first).run("J-77", session="jobs", id="J-77", store=store))
        await ready.wait()
        waiting = asyncio.ensure_future(job(copy).run("J-77", session="jobs", id="J-77", store=store))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        finish.set()
        results = [(await running)[Records], (await waiting)[Records]]

    assert bodies == ["first"]
    assert results == [FULL, FULL]
    assert await stored(store) == FULL


async def test_copy_that_may_not_wait_is_told_who_has_the_job(store: Store) -> None:
    """(a) With no patience the copy ends at once, with the holder's name, and nothing has happened."""
    ready, finish = asyncio.Event(), asyncio.Event()

    async def first() -> Records:
        ready.set()
        await finish.wait()
        return FULL

    async with asyncio.timeout(SOON):
        running = asyncio.ensure_future(job(first).run("J-77", session="jobs", id="J-77", store=store))
        await ready.wait()
        with pytest.raises(SessionHeld) as caught:
            await job(first).run("J-77", session="jobs", id="J-77", store=store, patience=0)
        finish.set()
        await running

    assert caught.value.run == "J-77"
    assert "pid" in caught.value.holder


async def test_copy_that_runs_anyway_is_refused(store: Store) -> None:
    """(b) A higher token does not win: who holds the lease does. The attempt is in the log."""
    await store.hold(KEY, Hold(run="J-77", holder="worker 41", seconds=600))
    copy = await OpenLog.open(store, KEY)
    copy.hold = Hold(run="J-77", holder="worker 42", seconds=600)

    with pytest.raises(SessionHeld):
        await copy.append(said("export", "[]", run="J-77", owner="local"))

    holder = await OpenLog.open(store, KEY)
    holder.hold = Hold(run="J-77", holder="worker 41", seconds=600, claim=False)
    assert (await holder.append(said("export", "42 records", run="J-77", owner="local"))).revision == 2
    assert [entry.header.kind for entry in holder.log.entries] == [Kind.REFUSAL, Kind.COMMIT]


async def test_late_commit_of_a_frozen_worker_is_refused(store: Store) -> None:
    """(c) Declared dead, succeeded, woken up: its commit gets an error, and the 42 records stay."""
    ready, wake = asyncio.Event(), asyncio.Event()

    async def frozen() -> Records:
        ready.set()
        await wake.wait()
        return EMPTY

    async def healthy() -> Records:
        return FULL

    async with asyncio.timeout(SOON):
        late = asyncio.ensure_future(
            job(frozen).run("J-77", session="jobs", id="J-77", store=CutOff(store), lease=0.05)
        )
        await ready.wait()
        taken_over = await job(healthy).run("J-77", session="jobs", id="J-77", store=store)
        wake.set()
        run = await late

    assert taken_over[Records] == FULL
    assert isinstance(run.problem, LeaseLost)
    assert run.status == "failed"
    assert await stored(store) == FULL
    assert await refusals(store) == [("J-77", "export", 0)]
    report = await _status(store)
    assert report == "done"


async def _status(store: Store) -> str:
    opened = await OpenLog.open(store, KEY)
    return (await opened.view("J-77")).status


async def test_frozen_worker_starts_no_further_step(store: Store) -> None:
    """Once it has learned that it was succeeded, a worker does not go on spending."""
    ready, wake = asyncio.Event(), asyncio.Event()
    bodies: list[str] = []

    class Mail(Contract):
        text: str

    def two_steps(who: str) -> Workflow:
        workflow = Workflow("job")

        @workflow.step
        async def export(request: Request) -> Records:
            if who == "frozen":
                ready.set()
                await wake.wait()
            return FULL

        @workflow.step
        async def mail(records: Records) -> Mail:
            bodies.append(who)
            return Mail(text="done")

        return workflow

    async with asyncio.timeout(SOON):
        late = asyncio.ensure_future(
            two_steps("frozen").run("x", session="jobs", id="J-77", store=CutOff(store), lease=0.05)
        )
        await ready.wait()
        await two_steps("healthy").run("x", session="jobs", id="J-77", store=store)
        wake.set()
        run = await late

    assert bodies == ["healthy"]
    assert {name: step.ending for name, step in run.steps.items()} == {"export": "failed", "mail": "blocked"}
