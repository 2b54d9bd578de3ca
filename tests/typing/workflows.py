"""What type checkers see of a user's code. Checked by mypy and pyright, never executed.

A line that must be wrong carries `type: ignore`, which both read; both report one that is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, assert_type

from statepact import (
    Answers,
    Context,
    Contract,
    Each,
    Gathered,
    Id,
    IdOf,
    Limit,
    LossReport,
    MemoryStore,
    Merge,
    Pinned,
    Recalled,
    Run,
    Sensitive,
    Shared,
    SqliteStore,
    StatepactError,
    Store,
    Workflow,
    open_session,
    open_store,
)
from statepact.models import AnswersModel, Model, Prompt, Reply, ScriptedModel


class Complaint(Contract, version="1.0"):
    product: str
    problem: Pinned[str]
    amount: Limit[int]
    card: Sensitive[str | None] = None
    several: list[Pinned[int]] = []


class Order(Contract, version="1.1", name="ORDER"):
    order_id: Id[str]
    product: Annotated[str, Answers(Complaint, "product")]
    parcels: list[Id[int]] = []
    invoice: Annotated[str | None, IdOf("invoice")] = None


class Final(Contract):
    text: str


# -- contracts: the marks disappear ----------------------------------------------------------------

complaint = Complaint(product="a", problem="b", amount=1)
assert_type(complaint.problem, str)
assert_type(complaint.amount, int)
assert_type(complaint.card, str | None)
assert_type(complaint.several, list[int])
assert_type(complaint.model_copy(), Complaint)
assert_type(Order(order_id="a", product="b").product, str)

Complaint(product="a", problem=1, amount=1)  # type: ignore[arg-type]
Complaint(product="a", problem="b")  # type: ignore[call-arg]
Complaint(product="a", problem="b", amount=1, x=1)  # type: ignore[call-arg]
_ = complaint.nothing  # type: ignore[attr-defined]

# -- steps: a decorated function keeps its own type ------------------------------------------------

workflow = Workflow("after-sales", takes=Complaint, results=[Final], budget=1_000)


@workflow.step
async def look_up(complaint: Complaint) -> Order:
    return Order(order_id="KX-1", product=complaint.product)


@workflow.step(timeout=1.5, retries=2, fallback=Final(text="sorry"), covers=[(Complaint, "product")], name="reply")
async def answer(ctx: Context, complaint: Complaint, order: Order | None) -> Final:
    final = await ctx.ask(Final, "Answer.")
    assert_type(final, Final)
    assert_type(await ctx.earlier(Order), list[Order])
    assert_type(await ctx.prompt("Answer."), Prompt)
    return final


@workflow.step
def count(orders: list[Order]) -> tuple[Final, Complaint]:
    return Final(text=str(len(orders))), complaint


@workflow.step
def ask_sync(ctx: Context) -> Final:
    final = ctx.ask_sync(Final, "Answer.")
    assert_type(final, Final)
    return final


look_up_type: Callable[[Complaint], Coroutine[Any, Any, Order]] = look_up
answer_type: Callable[[Context, Complaint, Order | None], Coroutine[Any, Any, Final]] = answer
count_type: Callable[[list[Order]], tuple[Final, Complaint]] = count


async def call_them() -> None:
    assert_type(await look_up(complaint), Order)
    assert_type(count([]), tuple[Final, Complaint])
    await look_up(1)  # type: ignore[arg-type]
    await answer(complaint)  # type: ignore[call-arg, arg-type]


# -- runs: the result is typed by the contract that is asked for -----------------------------------


async def run_it(store: Store) -> None:
    run = await workflow.run(complaint, ask=ScriptedModel(), store=store, id="r-1", session="s-1", strict=True)
    assert_type(run, Run)
    assert_type(run[Final], Final)
    assert_type(run[Final].text, str)
    assert_type(run.get(Order), Order | None)
    assert_type(run.all(Order), list[Order])
    assert_type(run.loss, LossReport)
    assert_type(run.problem, StatepactError | None)
    assert_type(run.ok, bool)
    assert_type(await workflow.resume("r-1"), Run)
    assert_type(workflow.run_sync(complaint), Run)
    _ = run[str]  # type: ignore[type-var]
    _ = run["Final"]  # type: ignore[index]
    _ = run.get(Order).order_id  # type: ignore[union-attr]
    await workflow.run(7)  # type: ignore[arg-type]


# -- models: an object or a function ---------------------------------------------------------------


async def text_model(prompt: Prompt) -> str:
    return prompt.text


async def reply_model(prompt: Prompt) -> Reply:
    return Reply(text="", sent=prompt.text)


def no_model(prompt: Prompt) -> int:
    return 1


async def ask_them() -> None:
    await workflow.run(complaint, ask=text_model)
    await workflow.run(complaint, ask=reply_model)
    await workflow.run(complaint, ask=AnswersModel([{"text": "a"}, ("{", "length"), ValueError()]))
    await workflow.run(complaint, ask=no_model)  # type: ignore[arg-type]
    await workflow.run(complaint, ask="gpt")  # type: ignore[arg-type]
    model: Model = ScriptedModel()
    await workflow.run(complaint, ask=model)


# -- sessions: sync and async ----------------------------------------------------------------------


def script() -> None:
    with open_session("s-1", owner="ua", store="memory:", run="r-1", request="hello") as session:
        with session.step("look_up", reads=[Complaint, Order | None, list[Final]]) as step:
            assert_type(step[Complaint], Complaint)
            assert_type(step.get(Order), Order | None)
            assert_type(step.all(Final), list[Final])
            assert_type(step.is_stored, bool)
            assert_type(step.prompt("Answer."), Prompt)
            step.sent("text")
            step.sent([{"role": "user", "content": "text"}])
            step.commit(Final(text=""))
            step.commit("text")  # type: ignore[arg-type]

        @session.step("decorated")
        def decorated(complaint: Complaint) -> Order:
            return Order(order_id="a", product="b")

        assert_type(session.get(Order), Order | None)
        assert_type(session.all(Order, run="r-0"), list[Order])
        assert_type(session.loss, LossReport)


async def async_script() -> None:
    async with open_session("s-1", store=MemoryStore()) as session:
        async with session.step("look_up", reads=[Complaint]) as step:
            assert_type(step[Complaint], Complaint)
            assert_type(await step.prompt("Answer."), Prompt)
            await step.commit(Final(text=""))
        assert_type(await session.get(Order), Order | None)
        assert_type(await session.measure(), LossReport)


# -- stores ----------------------------------------------------------------------------------------

a: Store = MemoryStore()
b: Store = SqliteStore("state.db")
assert_type(open_store("sqlite:///state.db"), Store)


# -- fan-out: marks disappear, what is gathered has a type -----------------------------------------


class Plan(Contract):
    places: list[str]


async def search(place: Annotated[str, Each(Plan, "places")]) -> Final:
    assert_type(place, str)
    return Final(text=place)


async def choose(found: Gathered[Final]) -> Final:
    assert_type(found.values, tuple[Final, ...])
    for one in found:
        assert_type(one, Final)
    return found.values[0]


# -- merge rules: the mark disappears --------------------------------------------------------------


def mean(earlier: float, later: float) -> float:
    return (earlier + later) / 2


class Basket(Contract):
    coupon: str | None = None
    items: Annotated[list[str], Merge.append] = []
    visits: Annotated[int, Merge.add] = 0
    score: Annotated[float, Merge(mean)] = 0.0


assert_type(Basket().items, list[str])
assert_type(Basket(visits=1).visits, int)
assert_type(Basket(score=0.5).score, float)
Basket(items=[1])  # type: ignore[list-item]
Merge("append")  # type: ignore[arg-type]

# -- shared values: typed by the contract ----------------------------------------------------------


@workflow.step
async def check_out(ctx: Context, basket: Shared[Basket]) -> Final:
    assert_type(basket, Shared[Basket])
    assert_type(basket.value, Basket)
    assert_type(basket.fields.coupon, str | None)
    assert_type(basket.fields.items, list[str])
    assert_type(basket.has("coupon"), bool)
    assert_type(basket.revision, int)
    basket.set(coupon=None)
    basket.merge(visits=1)
    basket.delete("coupon")
    basket.replace(Basket())
    basket.replace(complaint)  # type: ignore[arg-type]
    _ = basket.fields.nothing  # type: ignore[attr-defined]
    _ = basket.nothing  # type: ignore[attr-defined]
    return Final(text=basket.fields.coupon)  # type: ignore[arg-type]


async def share(run: Run) -> None:
    assert_type(run.shared(Basket), Basket | None)
    assert_type(run.shared(Basket, at=3), Basket | None)
    async with open_session("s-1") as session, session.step("pay") as step:
        assert_type(await step.shared(Basket), Shared[Basket])
        assert_type(await session.shared(Basket), Basket | None)
    with open_session("s-1") as plain:
        with plain.step("pay") as plain_step:
            assert_type(plain_step.shared(Basket), Shared[Basket])
            plain_step.shared(int)  # type: ignore[type-var]
        assert_type(plain.shared(Basket, at=3), Basket | None)


async def recalls(ctx: Context) -> Order | None:
    """What a recall gives has the type that was asked for; an id is a text."""
    recalled: Recalled[Order] = await ctx.recall(Order)
    if recalled.one is not None:
        number: str = recalled.one.value.order_id
        assert_type(recalled.one.value, Order)
        assert number
    return recalled.one.value if recalled.one else None
