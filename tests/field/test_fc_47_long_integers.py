"""FC-47: 64-bit ids rounded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from statepact import Context, Contract, Pinned, Sensitive, Store, Workflow, open_session
from statepact.errors import ContractViolation
from statepact.models import AnswersModel, ScriptedModel

Reopen = Callable[[], Awaitable[Store]]


class Ids(Contract):
    order: Pinned[int]
    ts_ns: int
    max: int


class Copy(Contract):
    order: int
    ts_ns: int
    max: int


class Text(Contract):
    text: str


IDS = Ids(order=2512292042121000001, ts_ns=1764489600123456789, max=9007199254740993)
EDGES = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**40 + 1, -(10**30) - 7]


async def test_fc_47_every_digit_survives_a_workflow(stores: Reopen) -> None:
    """Commit, next step's argument, prompt, model text, result, another process: all digits the same."""
    workflow = Workflow("ids")

    @workflow.step
    async def ids() -> Ids:
        return IDS

    @workflow.step
    async def copy(ctx: Context, ids: Ids) -> Copy:
        assert ids == IDS
        return await ctx.ask(Copy, "Copy the ids.")

    run = await workflow.run("go", id="r-1", ask=ScriptedModel(), store=await stores())
    other = await workflow.resume("r-1", store=await stores())

    for seen in (run, other):
        assert seen[Ids] == IDS
        assert seen[Copy] == Copy(order=IDS.order, ts_ns=IDS.ts_ns, max=IDS.max)
    assert run.loss.is_complete
    assert [row.value for row in run.loss.ledger.rows][:3] == [str(IDS.order), str(IDS.ts_ns), str(IDS.max)]


@pytest.mark.parametrize("number", EDGES)
async def test_fc_47_integers_of_any_size_come_back_equal(stores: Reopen, number: int) -> None:
    """Around 2^53, 2^63, 2^64 and far beyond."""
    async with open_session("s-1", store=await stores(), run="r-1") as session, session.step("ids") as step:
        await step.commit(Ids(order=number, ts_ns=-number, max=0))

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        value = await session.get(Ids)

    assert value == Ids(order=number, ts_ns=-number, max=0)
    assert value is not None
    assert type(value.order) is int


@pytest.mark.parametrize("number", [2512292042121000001, 2**63 - 1, 2**64 + 1])
async def test_fc_47_the_ledger_shows_all_digits(store: Store, number: int) -> None:
    """An id that is repeated digit by digit is proven, and stands in the ledger whole."""
    async with open_session("s-1", store=store) as session:
        async with session.step("ids") as step:
            await step.commit(Ids(order=number, ts_ns=0, max=0))
        async with session.step("answer", reads=[Ids]) as step:
            assert str(number) in (await step.prompt("Copy it.")).text
            await step.commit(Text(text=str(number)))
        loss = await session.measure()

    assert [item.standing for item in loss.obligations] == ["proven"]
    assert loss.ledger.rows[0].value == str(number)


@pytest.mark.parametrize("number", EDGES)
async def test_fc_47_the_prompt_shows_all_digits(store: Store, number: int) -> None:
    """A model that should repeat the id must see it whole, declared or only pinned."""
    async with open_session("s-1", store=store) as session:
        async with session.step("ids") as step:
            await step.commit(Ids(order=number, ts_ns=0, max=0))
        async with session.step("declared", reads=[Ids]) as step:
            assert f'"order":{number},' in (await step.prompt("Copy it.")).text
            await step.commit(Text(text=""))
        async with session.step("pinned") as step:
            prompt = await step.prompt("Copy it.")
            assert f'"order":{number}}}' in prompt.text
            step.sent(prompt.text)
            await step.commit(Text(text=""))
        loss = await session.measure()

    assert [d.state for d in loss.deliveries if d.reader == "pinned"] == ["delivered"]


async def test_fc_47_a_request_with_a_long_id_is_the_same_request_again(store: Store) -> None:
    """Comparing two requests and hiding a secret of one leaves the digits alone."""

    class Ask(Contract):
        card: Sensitive[str]
        order: int
        letter: str

    workflow = Workflow("ids", takes=Ask)

    @workflow.step
    async def one(ctx: Context) -> Text:
        return Text(text=ctx.request)

    ask = Ask(card="4111", order=2**64 + 1, letter="x" * 20_000)
    first = await workflow.run(ask, id="r-1", store=store)
    again = await workflow.run(ask, id="r-1", store=store)

    assert f'"order":{2**64 + 1}' in first[Text].text
    assert again.steps["one"].ending == "stored"


async def test_fc_47_text_becomes_an_exact_integer_or_an_error(store: Store) -> None:
    """A model may write digits as text: all of them count; half of them in a float is refused."""

    class One(Contract):
        order: int

    workflow = Workflow("ids")

    @workflow.step
    async def one(ctx: Context) -> One:
        return await ctx.ask(One, "Which order?", again=0)

    exact = await workflow.run("?", ask=AnswersModel(['{"order": "2512292042121000001"}']), store=store)
    assert exact[One].order == 2512292042121000001

    plain = await workflow.run("?", ask=AnswersModel(['{"order": 2512292042121000001}']), store=store)
    assert plain[One].order == 2512292042121000001

    rounded = await workflow.run("?", ask=AnswersModel(['{"order": 2.512292042121e+18}']), store=store)
    if rounded.ok:  # whole as a float: the digits that the model wrote, not fewer
        assert rounded[One].order == 2512292042121000000
    else:
        assert isinstance(rounded.problem, ContractViolation)


async def test_fc_47_a_float_is_no_integer_for_a_step(store: Store) -> None:
    """Machine input is strict: a double in place of an id is the step's mistake and says so."""
    workflow = Workflow("ids")

    @workflow.step
    async def ids() -> Ids:
        return {"order": float(IDS.order), "ts_ns": 1, "max": "9007199254740993"}  # type: ignore[return-value]

    run = await workflow.run("?", store=store)

    assert isinstance(run.problem, ContractViolation)
    assert {violation.path for violation in run.problem.violations} == {"order", "max"}


async def test_fc_47_sensitive_and_nested_integers_are_exact_too(stores: Reopen) -> None:
    """In lists, dictionaries and behind a mark."""

    class Deep(Contract):
        cards: Sensitive[list[int]]
        by_name: dict[str, dict[str, int]]

    value = Deep(cards=[2**63 + 1, 2**53 + 1], by_name={"a": {"b": 2512292042121000001}})
    async with open_session("s-1", store=await stores(), run="r-1") as session, session.step("deep") as step:
        await step.commit(value)

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        assert await session.get(Deep) == value
