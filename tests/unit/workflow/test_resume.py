"""A run can be continued, asked for twice, read by others; what is committed is never done again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from statepact import Context, Contract, MemoryStore, Request, SqliteStore, Store, Workflow, open_session
from statepact.errors import StepIdReused, UnknownRun
from statepact.models import AnswersModel


class A(Contract):
    x: int


class B(Contract):
    x: int


class C(Contract):
    x: int


def chain(bodies: list[str], broken: set[str] | None = None) -> Workflow:
    broken = broken if broken is not None else set()
    workflow = Workflow("chain")

    @workflow.step
    async def a(request: Request) -> A:
        bodies.append("a")
        if "a" in broken:
            raise ConnectionError
        return A(x=1)

    @workflow.step
    async def b(a: A) -> B:
        bodies.append("b")
        if "b" in broken:
            raise ConnectionError
        return B(x=a.x + 1)

    @workflow.step
    async def c(b: B) -> C:
        bodies.append("c")
        return C(x=b.x + 1)

    return workflow


async def test_resume_repeats_nothing_that_is_committed(store: Store) -> None:
    """After a failure in the middle, only the failed step and what follows it run."""
    bodies: list[str] = []
    broken = {"b"}
    workflow = chain(bodies, broken)
    first = await workflow.run("go", id="r-1", store=store)
    assert first.status == "failed"
    assert bodies == ["a", "b"]

    broken.clear()
    second = await workflow.resume("r-1", store=store)

    assert bodies == ["a", "b", "b", "c"]
    assert second.ok
    assert second[C].x == 3
    assert {name: step.ending for name, step in second.steps.items()} == {"a": "stored", "b": "done", "c": "done"}


async def test_a_double_click_is_one_run(store: Store) -> None:
    """The same id with the same request: the second call gets the first one's result."""
    bodies: list[str] = []
    workflow = chain(bodies)

    first = await workflow.run("go", id="r-1", store=store)
    second = await workflow.run("go", id="r-1", store=store)

    assert bodies == ["a", "b", "c"]
    assert second.ok
    assert second[C] == first[C]
    assert {step.ending for step in second.steps.values()} == {"stored"}


async def test_a_double_click_works_without_any_store() -> None:
    """Runs that have a name find each other in the memory of the workflow."""
    bodies: list[str] = []
    workflow = chain(bodies)

    await workflow.run("go", id="r-1")
    await workflow.run("go", id="r-1")
    await workflow.resume("r-1")

    assert bodies == ["a", "b", "c"]


async def test_the_same_id_for_another_request_is_an_error(store: Store) -> None:
    workflow = chain([])
    await workflow.run("go", id="r-1", store=store)

    with pytest.raises(StepIdReused, match="'r-1' was started with another request"):
        await workflow.run("stop", id="r-1", store=store)


@pytest.mark.parametrize("requests", [("go", "go"), ("go", "stop")], ids=["same", "other"])
async def test_two_clicks_at_once_are_one_run_or_an_error(store: Store, requests: tuple[str, str]) -> None:
    """Neither is answered with the other's request, and the log has each result once."""
    workflow = chain([])

    runs = await asyncio.gather(
        *(workflow.run(request, id="r-1", store=store) for request in requests), return_exceptions=True
    )

    ok = [run for run in runs if not isinstance(run, BaseException)]
    refused = [run for run in runs if isinstance(run, StepIdReused)]
    assert len(ok) + len(refused) == 2
    assert len(refused) == (0 if requests[0] == requests[1] else 1)
    for run in ok:
        assert run.ok, run.problem
        assert run.all(C) == [C(x=3)]


async def test_resuming_what_never_was_is_an_error_that_says_where_to_look(store: Store) -> None:
    with pytest.raises(UnknownRun, match="has no run 'r-9'") as caught:
        await chain([]).resume("r-9", store=store)
    assert "store" in caught.value.hint


async def test_a_finished_run_is_not_changed_by_looking_at_it_again(store: Store) -> None:
    """Resuming it adds no entry to the log."""
    workflow = chain([])
    first = await workflow.run("go", id="r-1", store=store)
    before = (await store.sessions(first.owner))[0].revision

    await workflow.resume("r-1", store=store)

    assert (await store.sessions(first.owner))[0].revision == before


async def test_a_store_url_is_opened_and_closed_by_each_run(tmp_path: Path) -> None:
    """And the outputs can still be read afterwards."""
    bodies: list[str] = []
    workflow = chain(bodies)
    url = f"sqlite:///{tmp_path}/state.db"

    run = await workflow.run("go", id="r-1", store=url)
    again = await workflow.resume("r-1", store=url)

    assert run[C].x == again[C].x == 3
    assert run.loss.steps == again.loss.steps == 3
    assert bodies == ["a", "b", "c"]


OTHER_PROCESS = """
import asyncio, sys
from statepact import Contract, open_session

class A(Contract):
    x: int
class B(Contract):
    x: int
class C(Contract):
    x: int

async def main():
    async with open_session("r-1", store=f"sqlite:///{sys.argv[1]}", run="r-1") as session:
        values = [await session.get(kind) for kind in (A, B, C)]
        loss = await session.measure()
        print([value.x for value in values], loss.delivered, loss.workflow)

asyncio.run(main())
"""


async def test_a_second_process_reads_everything(tmp_path: Path) -> None:
    """Values, contracts' fields and loss, with no object of the first process."""
    path = tmp_path / "state.db"
    async with SqliteStore(path) as store:
        await chain([]).run("go", id="r-1", store=store)

    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", OTHER_PROCESS, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert ended.stderr == ""
    assert ended.stdout.strip() == "[1, 2, 3] 2 chain"


async def test_a_second_log_reads_while_the_first_is_open(store: Store) -> None:
    """Another session object sees each commit as soon as it is made."""
    async with open_session("s-1", store=store, run="r-1") as writer, open_session("s-1", store=store) as reader:
        assert await reader.get(A, run="r-1") is None
        async with writer.step("a") as step:
            await step.commit(A(x=1))
        assert await reader.get(A, run="r-1") == A(x=1)
        async with reader.step("b") as step:
            await step.commit(B(x=2))
        async with writer.step("c") as step:
            await step.commit(C(x=3))

        assert await reader.get(C, run="r-1") == C(x=3)
        assert await writer.get(B, run=reader.run) == B(x=2)


# -- sessions --------------------------------------------------------------------------------------


def recalling() -> Workflow:
    workflow = Workflow("recall")

    @workflow.step
    async def look_back(ctx: Context, request: Request) -> A:
        return A(x=len(await ctx.earlier(A)))

    return workflow


async def test_a_run_of_a_session_sees_the_runs_before_it(store: Store) -> None:
    """Oldest first, only of its session, never its own."""
    workflow = recalling()

    counts = [(await workflow.run("go", session="s-1", store=store))[A].x for _ in range(4)]
    other = await workflow.run("go", session="s-2", store=store)

    assert counts == [0, 1, 2, 3]
    assert other[A].x == 0


async def test_earlier_values_are_in_order() -> None:
    workflow = Workflow("recall")

    @workflow.step
    async def look_back(ctx: Context, request: Request) -> B:
        return B(x=int("".join(str(value.x) for value in await ctx.earlier(A)) or "0"))

    writer = Workflow("write")

    @writer.step
    async def write(request: Request) -> A:
        return A(x=int(request.text or 0))

    store = MemoryStore()
    for number in (3, 1, 2):
        await writer.run(str(number), session="s-1", store=store)

    assert (await workflow.run("go", session="s-1", store=store))[B].x == 312


async def test_a_session_without_a_store_lives_as_long_as_its_workflow() -> None:
    workflow = recalling()

    assert [(await workflow.run("go", session="s-1"))[A].x for _ in range(3)] == [0, 1, 2]
    assert (await recalling().run("go", session="s-1"))[A].x == 0


async def test_a_resumed_run_sees_what_was_earlier_than_itself(store: Store) -> None:
    """Runs that came after it began are not part of its past."""
    broken = [True]
    workflow = Workflow("recall")

    @workflow.step
    async def look_back(ctx: Context, request: Request) -> A:
        if broken:
            raise ConnectionError
        return A(x=len(await ctx.earlier(A)))

    await recalling().run("go", session="s-1", store=store)
    await workflow.run("go", session="s-1", id="r-1", store=store)
    await recalling().run("go", session="s-1", store=store)
    broken.clear()
    run = await workflow.resume("r-1", session="s-1", store=store)

    assert run[A].x == 1


async def test_pinned_facts_of_one_run_do_not_oblige_the_next(store: Store) -> None:
    """The next run of a session starts without obligations."""
    from statepact import Pinned

    class Wish(Contract):
        demand: Pinned[str]

    first = Workflow("first")

    @first.step
    async def wish() -> Wish:
        return Wish(demand="a new lid")

    second = Workflow("second")

    @second.step
    async def answer(ctx: Context) -> A:
        return await ctx.ask(A, "How many?")

    await first.run("go", session="s-1", store=store)
    model = AnswersModel([{"x": 1}])
    run = await second.run("go", session="s-1", store=store, ask=model)

    assert "a new lid" not in model.prompts[0].text
    assert run.loss.obligations == ()
