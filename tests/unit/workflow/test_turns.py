"""Runs of a session take turns, and a run is done by one worker at a time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from statepact import Context, Contract, MemoryStore, Request, SqliteStore, Store, Workflow, open_session
from statepact.errors import LeaseLost, SessionHeld
from statepact.ledger import SessionKey
from statepact.stores import Hold

SOON = 10.0


class Said(Contract):
    text: str


def chat(log: list[str]) -> Workflow:
    workflow = Workflow("chat")

    @workflow.step
    async def answer(ctx: Context, request: Request) -> Said:
        log.append(f"begin {ctx.request}")
        earlier = await ctx.earlier(Said)
        for _ in range(5):
            await asyncio.sleep(0)
        log.append(f"end {ctx.request}")
        return Said(text=f"{ctx.request} after {len(earlier)}")

    return workflow


async def test_runs_of_a_session_take_turns(store: Store) -> None:
    """Two messages sent quickly: the second run sees what the first one said."""
    log: list[str] = []
    async with asyncio.timeout(SOON):
        runs = await asyncio.gather(*(chat(log).run(f"m{n}", session="s-1", store=store) for n in range(5)))

    assert sorted(run[Said].text.split(" after ")[1] for run in runs) == ["0", "1", "2", "3", "4"]
    begun = [line.split()[1] for line in log if line.startswith("begin")]
    assert log == [word for name in begun for word in (f"begin {name}", f"end {name}")]


async def test_runs_of_different_sessions_do_not_wait(store: Store) -> None:
    """Turns are a matter of one session."""
    log: list[str] = []
    await asyncio.gather(*(chat(log).run("m", session=f"s-{n}", store=store) for n in range(3)))

    assert log[:2] == ["begin m", "begin m"]


async def test_run_without_a_lease_takes_no_turn(store: Store) -> None:
    """`lease=None`: runs of one session mix, each on its own cells."""
    log: list[str] = []
    workflow = chat(log)
    await asyncio.gather(*(workflow.run("m", session="s-1", store=store, lease=None) for _ in range(3)))

    assert log[:2] == ["begin m", "begin m"]


async def test_session_is_free_after_a_run(store: Store) -> None:
    """Whether it went well, failed, or could not even start."""
    workflow = Workflow("fails")

    @workflow.step
    async def fail(request: Request) -> Said:
        raise ConnectionError

    log: list[str] = []
    await chat(log).run("one", session="s-1", id="r-1", store=store)
    await chat(log).run("one", session="s-1", id="r-1", store=store)
    assert not (await workflow.run("two", session="s-1", store=store)).ok
    with pytest.raises(Exception, match="another request"):
        await chat(log).run("not one", session="s-1", id="r-1", store=store)

    await store.hold(SessionKey("local", "s-1"), Hold(run="r", holder="me", seconds=1))


async def test_double_click_is_one_run(store: Store) -> None:
    """The same id twice at once: one runs, both get the same result."""
    log: list[str] = []
    async with asyncio.timeout(SOON):
        first, second = await asyncio.gather(
            *(chat(log).run("m", session="s-1", id="click", store=store) for _ in range(2))
        )

    assert log == ["begin m", "end m"]
    assert first[Said] == second[Said]
    assert sorted([first.steps["answer"].ending, second.steps["answer"].ending]) == ["done", "stored"]


async def test_long_run_keeps_its_session(store: Store) -> None:
    """A step that takes longer than the lease renews it while it works."""
    workflow = Workflow("slow")

    @workflow.step
    async def slow(request: Request) -> Said:
        for _ in range(10):
            await asyncio.sleep(0.03)
            with pytest.raises(SessionHeld):
                await store.hold(SessionKey("local", "s-1"), Hold(run="r", holder="other", seconds=1))
        return Said(text="kept")

    run = await workflow.run("m", session="s-1", store=store, lease=0.15)
    assert run[Said].text == "kept"


async def test_worker_that_learns_of_its_end_while_it_works(store: Store) -> None:
    """Who is succeeded in the middle of a step cannot commit it."""
    workflow = Workflow("stolen")

    @workflow.step
    async def stolen(ctx: Context, request: Request) -> Said:
        held = Hold(run=ctx.run, holder="thief", seconds=60)
        try:
            await store.hold(SessionKey("local", "s-1"), held)
        except SessionHeld as refusal:
            await store.hold(
                SessionKey("local", "s-1"),
                Hold(run=ctx.run, holder="thief", seconds=60, succeeds=refusal.holder),
            )
        return Said(text="late")

    run = await workflow.run("m", session="s-1", store=store)
    assert isinstance(run.problem, LeaseLost)
    assert run.get(Said) is None


async def test_run_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    """On the same machine nobody waits for the lease of a process that is not there any more."""
    path = tmp_path / "state.db"
    program = f"""
import asyncio, os, signal
from statepact import Contract, Request, Workflow
class Said(Contract):
    text: str
workflow = Workflow("dies")
@workflow.step
async def answer(request: Request) -> Said:
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(workflow.run("m", session="s-1", id="r-1", store="sqlite:///{path}"))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stderr=subprocess.DEVNULL)
    assert await process.wait() == -9

    async with SqliteStore(path) as store, asyncio.timeout(SOON):
        with pytest.raises(SessionHeld):
            await store.hold(SessionKey("local", "s-1"), Hold(run="r-1", holder="x", seconds=1))
        run = await chat([]).run("m", session="s-1", id="r-1", store=store)
    assert run.ok


async def test_script_may_want_the_session_for_itself() -> None:
    """`open_session(lease=...)` takes a turn as a workflow does."""
    store = MemoryStore()
    async with open_session("s-1", store=store, lease=60) as session:
        with pytest.raises(SessionHeld):
            async with open_session("s-1", store=store, lease=60, patience=0):
                pass
        async with open_session("s-1", store=store, run=session.run):
            pass  # without a lease nobody asks
    async with open_session("s-1", store=store, lease=60, patience=0):
        pass


class SlowToClaim(SqliteStore):
    """A worker whose claims reach the store late, as over a slow network."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.asked, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        self.asked.set()
        await self.may_go_on.wait()
        await super().hold(key, hold)


async def test_worker_that_got_its_turn_sees_what_was_done_before(tmp_path: Path) -> None:
    """Another worker has finished the run between the look at the log and the claim: nothing is done again."""
    said: list[str] = []

    def parts(*, fails: bool = False) -> Workflow:
        workflow = Workflow("parts")

        @workflow.step
        def answer(request: Request) -> Said:
            if fails:
                raise ConnectionError
            said.append("answer")
            return Said(text="yes")

        return workflow

    async with SqliteStore(tmp_path / "state.db") as store, SlowToClaim(tmp_path / "state.db") as slow:
        await parts(fails=True).run("x", session="s-1", id="r-1", store=store)
        late = asyncio.create_task(parts().run("x", session="s-1", id="r-1", store=slow))
        await slow.asked.wait()
        await parts().run("x", session="s-1", id="r-1", store=store)
        slow.may_go_on.set()
        run = await late
        assert run[Said].text == "yes"

    assert said == ["answer"]
