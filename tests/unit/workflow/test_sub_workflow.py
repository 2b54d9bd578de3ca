"""A workflow as a step of another one: own cells, inherited surroundings."""

from __future__ import annotations

import asyncio

import pytest

from statepact import Context, Contract, Limit, Pinned, Request, Store, Workflow
from statepact.errors import SetupError, StepFailed
from statepact.models import Prompt
from statepact.testing import FakeClock


class Complaint(Contract):
    order: Pinned[str]
    no_phone: Limit[str] = "do not phone"


class Task(Contract):
    order: str


class Refund(Contract):
    order: str
    amount: str


class Note(Contract):
    text: str


class Reply(Contract):
    text: str


def refunds(bodies: list[str] | None = None, *, broken: bool = False) -> Workflow:
    workflow = Workflow("refunds", takes=Task)

    @workflow.step
    async def look_up(task: Task) -> Note:
        if bodies is not None:
            bodies.append("look_up")
        return Note(text=f"{task.order} was paid with a card")

    @workflow.step
    async def pay(task: Task, note: Note) -> Refund:
        if bodies is not None:
            bodies.append("pay")
        if broken:
            raise ConnectionError("the bank does not answer")
        return Refund(order=task.order, amount="59.90")

    return workflow


def after_sales(inner: Workflow) -> Workflow:
    workflow = Workflow("after-sales")

    @workflow.step
    async def understand(request: Request) -> tuple[Complaint, Task]:
        return Complaint(order="KX-1"), Task(order="KX-1")

    @workflow.step
    async def look_up(request: Request) -> Note:
        return Note(text="the outer note")

    workflow.step(inner)

    @workflow.step
    async def answer(refund: Refund, note: Note) -> Reply:
        return Reply(text=f"{refund.order}: {refund.amount}. {note.text}")

    return workflow


async def test_part_has_cells_of_its_own(store: Store) -> None:
    """Steps and contracts of the same name, inside and outside, are two."""
    run = await after_sales(refunds()).run("Refund KX-1.", session="s-1", id="r-1", store=store)

    assert run[Reply].text == "KX-1: 59.90. the outer note"
    assert [note.text for note in run.all(Note)] == ["the outer note"]
    assert run.steps["refunds"].ending == "done"


async def test_part_is_continued_where_it_stopped(store: Store) -> None:
    """What the part has committed is not done again when the whole is resumed."""
    bodies: list[str] = []
    first = await after_sales(refunds(bodies, broken=True)).run("x", session="s-1", id="r-1", store=store)
    assert isinstance(first.problem, StepFailed)
    assert "pay" in first.problem.message

    resumed = await after_sales(refunds(bodies)).resume("r-1", session="s-1", store=store)
    assert resumed.ok
    assert bodies == ["look_up", "pay", "pay"]


async def test_part_shows_what_the_whole_is_about(store: Store) -> None:
    """A model that is asked inside sees the request, the pinned facts and the limits of the outside, each once."""
    prompts: list[str] = []

    async def model(prompt: Prompt) -> str:
        prompts.append(prompt.text)
        return '{"text": "done"}'

    inner = Workflow("write", takes=Task)

    @inner.step
    async def write(ctx: Context, task: Task) -> Reply:
        return await ctx.ask(Reply, "Write to the customer.")

    outer = Workflow("outer")

    @outer.step
    async def understand(request: Request) -> tuple[Complaint, Task]:
        return Complaint(order="KX-1", no_phone="never phone, write only"), Task(order="KX-1 and KX-2")

    outer.step(inner)

    run = await outer.run("The blade broke.", ask=model, store=store)

    assert run.ok, run.problem
    (prompt,) = prompts
    for once in ("The blade broke.", "never phone, write only", "KX-1 and KX-2"):
        assert prompt.count(once) == 1, once
    assert run.usage.output_tokens > 0


async def test_limits_reach_a_grandchild(store: Store) -> None:
    """However deep the delegation, what the user forbade is there, once. FC-17."""
    prompts: list[str] = []

    async def model(prompt: Prompt) -> str:
        prompts.append(prompt.text)
        return '{"text": "done"}'

    grandchild = Workflow("grandchild", takes=Task)

    @grandchild.step
    async def write(ctx: Context, task: Task) -> Reply:
        return await ctx.ask(Reply, "Write.")

    child = Workflow("child", takes=Task)
    child.step(grandchild)

    parent = Workflow("parent")

    @parent.step
    async def understand(request: Request) -> tuple[Complaint, Task]:
        return Complaint(order="KX-1", no_phone="never phone, write only"), Task(order="KX-1")

    parent.step(child)

    run = await parent.run("x", ask=model, store=store)
    assert run.ok, run.problem
    assert [prompt.count("never phone, write only") for prompt in prompts] == [1]


async def test_owner_and_session_are_inherited(store: Store) -> None:
    """A part belongs to whom the whole belongs; its run is named after its step."""
    seen: list[tuple[str, str, str]] = []
    inner = Workflow("inner")

    @inner.step
    async def look(ctx: Context, request: Request) -> Reply:
        seen.append((ctx.owner, ctx.session, ctx.run))
        return Reply(text=ctx.request)

    outer = Workflow("outer")
    outer.step(inner, name="part")

    run = await outer.run("the same words", owner="acme", session="s-1", id="r-1", store=store, clock=FakeClock())
    assert seen == [("acme", "s-1", "r-1//part")]
    assert run[Reply].text == "the same words"


def test_workflow_that_is_a_step_of_itself_is_refused() -> None:
    """Directly or through another one."""
    one, two = Workflow("one"), Workflow("two")
    one.step(two)
    two.step(one)

    with pytest.raises(SetupError, match="step of itself"):
        one.check()


async def test_parts_run_beside_each_other(store: Store) -> None:
    """Two parts that wait for each other's start do not deadlock."""
    met = asyncio.Event()
    here: list[str] = []

    def part(name: str, kind: type[Contract]) -> Workflow:
        inner = Workflow(name)

        async def meet(request: Request) -> Contract:
            here.append(name)
            if len(here) == 2:
                met.set()
            await met.wait()
            return kind(text=name)

        meet.__annotations__["return"] = kind
        inner.step(meet)
        return inner

    outer = Workflow("outer", results=[Note, Reply])
    outer.step(part("left", Note))
    outer.step(part("right", Reply))

    async with asyncio.timeout(10):
        run = await outer.run("x", session="s-1", store=store)
    assert (run[Note].text, run[Reply].text) == ("left", "right")


async def test_effect_inside_a_part_is_settled_from_outside(store: Store) -> None:
    """A person names it as the error does: the part, then the step."""
    paid: list[str] = []
    inner = Workflow("refunds", takes=Task)

    @inner.step(effect=True)
    async def pay(task: Task) -> Refund:
        paid.append(task.order)
        raise asyncio.CancelledError

    outer = Workflow("outer")

    @outer.step
    async def understand(request: Request) -> Task:
        return Task(order="KX-1")

    outer.step(inner)

    with pytest.raises(asyncio.CancelledError):
        await outer.run("x", session="s-1", id="r-1", store=store)
    run = await outer.resume("r-1", session="s-1", store=store)
    assert run.problem is not None
    assert "settled={'refunds/pay': its result}" in run.problem.hint

    receipt = Refund(order="KX-1", amount="59.90")
    settled = await outer.resume("r-1", session="s-1", store=store, settled={"refunds/pay": receipt})
    assert settled[Refund] == receipt
    assert paid == ["KX-1"]
