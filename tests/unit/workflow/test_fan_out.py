"""A step that runs once for each value of a committed list, and readers that gather."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest

from statepact import Context, Contract, Each, Gathered, Request, Store, Workflow
from statepact.errors import SetupError


class Plan(Contract):
    items: list[str]
    note: str = ""


class Part(Contract):
    text: str


class Whole(Contract):
    text: str


def split_and_join(items: list[str]) -> Workflow:
    workflow = Workflow("split")

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(items=items)

    @workflow.step
    async def work(item: Annotated[str, Each(Plan, "items")]) -> Part:
        return Part(text=item.upper())

    @workflow.step
    async def join(parts: list[Part]) -> Whole:
        return Whole(text=" ".join(sorted(part.text for part in parts)))

    return workflow


async def test_each_value_is_a_branch_of_its_own(store: Store) -> None:
    """Equal values too: branches are told apart by their place in the list."""
    run = await split_and_join(["a", "b", "a"]).run("x", store=store)

    assert run[Whole].text == "A A B"
    assert list(run.steps["work"].branches) == ["0", "1", "2"]
    assert run.ok


async def test_branches_run_at_the_same_time(store: Store) -> None:
    """None of them waits for another one."""
    workflow = Workflow("meet")
    here: list[str] = []
    met = asyncio.Event()

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(items=["a", "b", "c"])

    @workflow.step
    async def work(item: Annotated[str, Each(Plan, "items")]) -> Part:
        here.append(item)
        if len(here) == 3:
            met.set()
        await met.wait()
        return Part(text=item)

    async with asyncio.timeout(10):
        assert (await workflow.run("x", store=store)).ok


async def test_empty_list_is_nothing_to_do(store: Store) -> None:
    """No branch, no value, no failure; a reader of all gets an empty list."""
    run = await split_and_join([]).run("x", store=store)

    assert run[Whole].text == ""
    assert run.steps["work"].branches == {}


async def test_set_is_the_same_after_a_restart(store: Store) -> None:
    """The list is committed before the first branch starts, so a planner that changes its mind changes nothing."""
    workflow = split_and_join(["a", "b"])
    first = await workflow.run("x", session="s-1", id="r-1", store=store)
    again = await split_and_join(["c"]).run("x", session="s-1", id="r-1", store=store)

    assert again[Whole] == first[Whole]
    assert {branch.ending for branch in again.steps["work"].branches.values()} == {"stored"}


async def test_step_may_read_the_list_and_the_context_too(store: Store) -> None:
    """What it runs over does not keep a step from reading the whole."""
    workflow = Workflow("both")

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(items=["a", "b"], note="hurry")

    @workflow.step
    async def work(ctx: Context, plan: Plan, item: Annotated[str, Each(Plan, "items")]) -> Part:
        return Part(text=f"{item} of {len(plan.items)}, {plan.note}, {ctx.request}")

    run = await workflow.run("x", store=store)
    assert sorted(part.text for part in run.all(Part)) == ["a of 2, hurry, x", "b of 2, hurry, x"]


async def test_nested_contracts_are_run_over(store: Store) -> None:
    """The values of the list may be contracts themselves."""

    class Task(Contract):
        title: str

    class Tasks(Contract):
        tasks: list[Task]

    workflow = Workflow("tasks")

    @workflow.step
    async def plan(request: Request) -> Tasks:
        return Tasks(tasks=[Task(title="one"), Task(title="two")])

    @workflow.step
    async def work(task: Annotated[Task, Each(Tasks, "tasks")]) -> Part:
        return Part(text=task.title)

    assert sorted(part.text for part in (await workflow.run("x", store=store)).all(Part)) == ["one", "two"]


async def test_branches_have_fallbacks_and_retries_of_their_own(store: Store) -> None:
    """What fails in one branch degrades this one."""
    workflow = Workflow("degrades")

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(items=["good", "bad"])

    @workflow.step(fallback=lambda item: Part(text=f"no {item}"))
    async def work(item: Annotated[str, Each(Plan, "items")]) -> Part:
        if item == "bad":
            raise ConnectionError
        return Part(text=item)

    run = await workflow.run("x", store=store)
    assert sorted(part.text for part in run.all(Part)) == ["good", "no bad"]
    assert run.degraded == ("work",)


@pytest.mark.parametrize("mark", [Each(Plan, "note"), Each(Plan, "nothing"), Each(str, "items")])  # type: ignore[arg-type]
def test_what_is_no_list_cannot_be_run_over(mark: Any) -> None:
    """A field that does not exist, is no list, or is of no contract: an error when the workflow is checked."""
    workflow = Workflow("wrong")

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(items=[])

    @workflow.step
    async def work(item: Annotated[str, mark]) -> Part:
        return Part(text=item)

    with pytest.raises(SetupError, match="runs over"):
        workflow.check()


async def test_gathered_says_how_many_of_how_many(store: Store) -> None:
    """With nothing missing it is as good as the list."""
    workflow = Workflow("gathers")

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(items=["a", "b"])

    @workflow.step
    async def work(item: Annotated[str, Each(Plan, "items")]) -> Part:
        return Part(text=item)

    @workflow.step
    async def join(parts: Gathered[Part]) -> Whole:
        return Whole(text=f"{parts}: {''.join(sorted(part.text for part in parts))}, {len(parts)}")

    run = await workflow.run("x", store=store)
    assert run[Whole].text == "2 of 2: ab, 2"
    assert run.partial == {}
    assert run.steps["join"].gathered == {"Part": (2, 2)}
