"""FC-11: declared inputs ignored, only the previous step is passed on."""

from __future__ import annotations

import pytest

from statepact import Context, Contract, Pinned, Store, Workflow, open_session
from statepact.errors import MissingInput, SetupError, Unreachable
from statepact.models import AnswersModel


class First(Contract):
    bird: str


class Second(Contract):
    animal: str


class Other(Contract):
    animal: str


class Answer(Contract):
    text: str


def zoo(*, fail: bool = False) -> Workflow:
    workflow = Workflow("zoo", results=[Answer, Other])

    @workflow.step
    async def t1() -> First:
        if fail:
            raise RuntimeError("no bird today")
        return First(bird="heron-17")

    @workflow.step
    async def t2(first: First) -> Second:
        return Second(animal="otter-42")

    @workflow.step
    async def tx(second: Second) -> Other:
        return Other(animal="mole-99")

    @workflow.step
    async def t3(ctx: Context, first: First, second: Second) -> Answer:
        return await ctx.ask(Answer, "Name the animals.")

    return workflow


async def test_fc_11_a_step_gets_exactly_what_it_declared(store: Store) -> None:
    """All declared outputs stand in its context, the one in between that it did not declare does not."""
    model = AnswersModel([{"text": "heron-17 and otter-42"}])

    run = await zoo().run("which animals?", ask=model, store=store)

    assert run.ok
    (prompt,) = model.prompts
    assert "heron-17" in prompt.text
    assert "otter-42" in prompt.text
    assert "mole-99" not in prompt.text
    assert run.loss.is_complete


async def test_fc_11_a_step_without_its_input_is_blocked_and_names_the_writer(store: Store) -> None:
    """No guess on a shorter context: what needs t1's output does not run, and says who did not deliver."""
    model = AnswersModel([])

    run = await zoo(fail=True).run("which animals?", ask=model, store=store)

    assert run.status == "failed"
    assert model.prompts == []
    assert run.steps["t3"].ending == "blocked"
    blocked = run.steps["t3"].problem
    assert isinstance(blocked, MissingInput)
    assert "'t1'" in str(blocked)
    assert "First" in str(blocked)
    assert run.problem is run.steps["t1"].problem
    with pytest.raises(MissingInput):
        run[Answer]


async def test_fc_11_what_lies_far_back_arrives_too(store: Store) -> None:
    """Distance does not matter: after ten steps that pass nothing on, the first output is still there."""
    workflow = Workflow("far", results=[Answer])

    @workflow.step
    async def t1() -> First:
        return First(bird="heron-17")

    def relay(number: int, before: type[Contract]) -> type[Contract]:
        class Relay(Contract, name=f"Relay{number}"):
            n: int

        @workflow.step(name=f"relay{number}")
        async def pass_on(value: before) -> Relay:
            return Relay(n=number)

        return Relay

    last: type[Contract] = First
    for number in range(10):
        last = relay(number, last)

    @workflow.step
    async def answer(ctx: Context, first: First, before: last) -> Answer:
        return await ctx.ask(Answer, "Name the animal.")

    model = AnswersModel([{"text": "heron-17"}])

    run = await workflow.run("which?", ask=model, store=store)

    assert run.ok
    assert "heron-17" in model.prompts[0].text
    assert '"n":0' not in model.prompts[0].text


async def test_fc_11_a_script_reads_what_it_declared_and_nothing_else(store: Store) -> None:
    """The same without a workflow: reads= is the list, a missing value and an undeclared one are errors."""
    async with open_session("zoo", store=store) as session:
        with pytest.raises(MissingInput, match="First"):
            async with session.step("t3", reads=[First]) as step:
                pytest.fail("the body must not run")
        async with session.step("t1") as step:
            await step.commit(First(bird="heron-17"))
        async with session.step("tx") as step:
            await step.commit(Other(animal="mole-99"))
        async with session.step("t3", reads=[First]) as step:
            prompt = await step.prompt("Name the animal.")
            assert step[First].bird == "heron-17"
            with pytest.raises(SetupError, match="does not read Other"):
                step[Other]
            await step.commit(Answer(text="heron-17"))

    assert "heron-17" in prompt.text
    assert "mole-99" not in prompt.text


def test_fc_11_a_declared_input_that_nobody_writes_is_an_error_before_any_run() -> None:
    """The same mistake at definition time: the message has both names."""
    workflow = Workflow("zoo")

    @workflow.step
    async def t3(first: First) -> Answer:
        return Answer(text="")

    with pytest.raises(Unreachable, match=r"'t3' reads First, which no step returns"):
        workflow.check()


async def test_fc_11_only_pinned_facts_travel_undeclared(store: Store) -> None:
    """A pinned field of an undeclared output arrives; the fields beside it do not."""

    class Wish(Contract):
        demand: Pinned[str]
        mood: str

    workflow = Workflow("shop", results=[Answer])

    @workflow.step
    async def understand() -> Wish:
        return Wish(demand="a new lid", mood="furious")

    @workflow.step
    async def look_up(wish: Wish) -> First:
        return First(bird="heron-17")

    @workflow.step
    async def answer(ctx: Context, first: First) -> Answer:
        return await ctx.ask(Answer, "Answer.")

    model = AnswersModel([{"text": "You get a new lid."}])
    run = await workflow.run("hello", ask=model, store=store)

    assert "a new lid" in model.prompts[0].text
    assert "furious" not in model.prompts[0].text
    assert run.loss.is_complete
