"""FC-15: a result that is missing in state on the cached path, or visible one step too late."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from statepact import Context, Contract, Request, Run, Store, Workflow, open_session
from statepact.errors import ModelError
from statepact.models import AnswersModel

Reopen = Callable[[], Awaitable[Store]]


class Stock(Contract):
    sku: str
    stock: int
    sheet: str = ""


class Offer(Contract):
    text: str


KNOWN = Stock(sku="KX-210", stock=4)


def shop(bodies: list[str], *, value: Stock = KNOWN, fail: list[bool] | None = None) -> Workflow:
    """A team whose first step answers from a cache, without asking a model."""
    workflow = Workflow("shop")

    @workflow.step
    async def stock() -> Stock:
        bodies.append("stock")
        return value

    @workflow.step
    async def offer(ctx: Context, stock: Stock) -> Offer:
        bodies.append("offer")
        if fail and fail.pop():
            raise ModelError("down")
        assert stock == value
        return await ctx.ask(Offer, "Make an offer.")

    return workflow


async def test_fc_15_a_step_that_asks_no_model_is_in_state_like_any_other(store: Store) -> None:
    """The short way is no other way: the output is committed, shown to the next reader, in the result."""
    model = AnswersModel([{"text": "4 left"}])

    run = await shop([]).run("any KX-210?", ask=model, store=store)

    assert run[Stock] == KNOWN
    assert '"stock":4' in model.prompts[0].text
    assert run.loss.delivered == 2


async def test_fc_15_the_stored_result_of_a_resumed_run_is_read_like_a_fresh_one(stores: Reopen) -> None:
    """On the cached path (a step's stored result) the next step and the user see the same value."""
    bodies: list[str] = []
    first = await shop(bodies, fail=[True]).run("any?", id="r-1", ask=AnswersModel([]), store=await stores())
    assert first.steps["offer"].ending == "failed"
    assert first[Stock] == KNOWN

    model = AnswersModel([{"text": "4 left"}])
    second = await shop(bodies).resume("r-1", ask=model, store=await stores())

    assert bodies == ["stock", "offer", "offer"]
    assert second.steps["stock"].ending == "stored"
    assert second[Stock] == KNOWN
    assert '"stock":4' in model.prompts[0].text
    assert second[Offer].text == "4 left"


async def test_fc_15_a_large_result_is_there_on_both_ways(stores: Reopen) -> None:
    """200 KB in one value: whole for the next step, for the user, and after a resume elsewhere."""
    large = Stock(sku="KX-210", stock=4, sheet="库存表 " * 40_000)
    bodies: list[str] = []
    model = AnswersModel([{"text": "4 left"}])

    first = await shop(bodies, value=large).run("any?", id="r-1", ask=model, store=await stores())
    again = await shop(bodies, value=large).run("any?", id="r-1", ask=AnswersModel([]), store=await stores())

    assert first[Stock] == again[Stock] == large
    assert large.sheet in model.prompts[0].text
    assert first.loss.is_complete
    assert again.loss.is_complete
    assert bodies == ["stock", "offer"]


async def test_fc_15_many_large_results_are_all_there(store: Store) -> None:
    """More than a process keeps in memory: nothing is an empty value because it was let go of."""
    workflow = Workflow("warehouse")
    for number in range(30):

        @workflow.step(name=f"count_{number}")
        async def count(request: Request, ctx: Context) -> Stock:
            number = int(ctx.step.removeprefix("count_"))
            return Stock(sku=f"KX-{number}", stock=number, sheet=f"{number:04}" * 60_000)

    @workflow.step
    async def offer(ctx: Context, counts: list[Stock]) -> Offer:
        return await ctx.ask(Offer, f"{sum(count.stock for count in counts)} in all.")

    model = AnswersModel([{"text": "435"}])
    run = await workflow.run("count", ask=model, store=store)

    assert run.ok, run.problem
    assert sorted(stock.stock for stock in run.all(Stock)) == list(range(30))
    assert all(f'"sku":"KX-{number}"' in model.prompts[0].text for number in range(30))
    assert "435 in all" in model.prompts[0].text
    assert run.loss.is_complete


async def test_fc_15_a_value_is_not_let_go_of_between_reading_and_asking(store: Store) -> None:
    """Branches that commit megabytes while a step waits do not empty what that step is about to show."""

    class Blob(Contract):
        data: str

    class Done(Contract):
        ok: bool

    workflow = Workflow("slow", results=[Offer, Done])
    others_done = asyncio.Event()

    @workflow.step
    async def stock() -> Stock:
        return Stock(sku="KX-210", stock=4, sheet="x" * 2_000_000)

    @workflow.step
    async def offer(ctx: Context, stock: Stock) -> Offer:
        await others_done.wait()
        return await ctx.ask(Offer, "Make an offer.")

    for number in range(8):

        @workflow.step(name=f"blob_{number}")
        async def blob(stock: Stock, ctx: Context) -> Blob:
            return Blob(data=ctx.step * 200_000)

    @workflow.step
    async def gate(blobs: list[Blob]) -> Done:
        others_done.set()
        return Done(ok=True)

    model = AnswersModel([{"text": "4 left"}])
    run = await workflow.run("any?", ask=model, store=store)

    assert run.ok, run.problem
    assert '"sku":"KX-210"' in model.prompts[0].text
    assert {d.state for d in run.loss.deliveries if d.reader == "offer"} == {"delivered"}


async def test_fc_15_an_open_step_of_a_script_still_has_its_value_after_others_committed(store: Store) -> None:
    """The same in a script: a value read at the start is there at the end."""
    async with open_session("s-1", store=store) as session:
        async with session.step("stock") as step:
            await step.commit(Stock(sku="KX-210", stock=4, sheet="x" * 2_000_000))
        async with session.step("offer", reads=[Stock]) as slow:
            for number in range(8):
                async with session.step("blob", branch=f"b{number}") as step:
                    await step.commit(Offer(text=f"{number}" * 1_000_000))
            assert slow[Stock].stock == 4
            await slow.commit(Offer(text="4 left"))


async def test_fc_15_no_interleaving_shows_a_default(store: Store) -> None:
    """500 runs of one session, their steps interleaved by chance: every reader sees the value."""
    chance = random.Random(15)
    seen: list[int] = []
    workflow = Workflow("shop", store=store)

    @workflow.step
    async def stock() -> Stock:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        return KNOWN

    @workflow.step
    async def offer(stock: Stock) -> Offer:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        seen.append(stock.stock)
        return Offer(text=str(stock.stock))

    async def batch(size: int) -> list[Run]:
        return await asyncio.gather(*(workflow.run("any?") for _ in range(size)))

    runs = [run for _ in range(20) for run in await batch(25)]

    assert seen == [4] * 500
    assert [run[Offer].text for run in runs] == ["4"] * 500
    assert all(run[Stock] == KNOWN for run in runs)
