"""Shared values of a session: who changes what, who runs again, and what is recorded."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import Field, model_validator

from statepact import Context, Contract, Merge, Pinned, Sensitive, Shared, Store, Workflow, open_session
from statepact.errors import (
    ConflictingValues,
    ContractViolation,
    EffectUnknown,
    SetupError,
    SharedConflict,
    StateError,
)
from statepact.models import Prompt


class Basket(Contract):
    coupon: str | None = None
    items: Annotated[list[str], Merge.append] = []
    visits: Annotated[int, Merge.add] = 10
    owner: str = Field(default="nobody", max_length=20)
    tags: Annotated[dict[str, int], Merge.union] = {}
    best: Annotated[int | None, Merge(lambda one, other: max(one or 0, other or 0))] = None


class Done(Contract):
    text: str = "ok"


class Seen(Contract):
    text: str


async def test_steps_that_only_write_are_put_behind_each_other_and_run_once(store: Store) -> None:
    """Twenty steps at once merge and set without reading: nothing is lost and nobody runs twice."""
    workflow = Workflow("w", results=[Done])
    calls: list[int] = []

    def add(number: int) -> None:
        @workflow.step(name=f"s{number}")
        async def step(basket: Shared[Basket]) -> Done:
            calls.append(number)
            await asyncio.sleep(0)
            basket.merge(visits=1, items=[f"i{number}"])
            basket.set(coupon=f"c{number}")
            return Done()

    for number in range(20):
        add(number)
    run = await workflow.run("go", store=store)

    assert run.ok, run.problem
    assert len(calls) == 20
    basket = run.shared(Basket)
    assert basket is not None
    assert basket.visits == 30  # into the default, which is what readers see
    assert sorted(basket.items) == sorted(f"i{number}" for number in range(20))
    assert basket.coupon == f"c{basket.items[-1][1:]}"


async def test_a_step_whose_reading_was_overtaken_runs_again_on_the_new_value(store: Store) -> None:
    """Read, add one, set: ten steps at once count to ten, as if they had come one after another."""
    workflow = Workflow("w", results=[Done])
    calls: list[int] = []

    def add(number: int) -> None:
        @workflow.step(name=f"s{number}")
        async def step(basket: Shared[Basket]) -> Done:
            calls.append(number)
            visits = basket.fields.visits
            await asyncio.sleep(0)
            basket.set(visits=visits + 1)
            return Done()

    for number in range(10):
        add(number)
    run = await workflow.run("go", store=store)

    assert run.ok, run.problem
    basket = run.shared(Basket)
    assert basket is not None
    assert basket.visits == 20
    assert 10 < len(calls) <= 20  # each again at most once: those who run again take turns


async def test_another_field_changing_makes_nobody_run_again(store: Store) -> None:
    """Only what was read counts, by field."""
    calls: list[str] = []
    started, changed = asyncio.Event(), asyncio.Event()
    workflow = Workflow("w", results=[Done])

    @workflow.step
    async def reads(basket: Shared[Basket]) -> Done:
        calls.append("reads")
        coupon = basket.fields.coupon
        started.set()
        await changed.wait()
        basket.set(owner=f"for {coupon}")
        return Done()

    @workflow.step
    async def changes(basket: Shared[Basket]) -> Seen:
        await started.wait()
        basket.merge(visits=1)
        return Seen(text="changed")

    @workflow.step
    async def after(seen: Seen) -> None:
        changed.set()

    run = await workflow.run("go", store=store)

    assert run.ok, run.problem
    assert run.shared(Basket) == Basket(visits=11, owner="for None")
    assert calls == ["reads"]


async def test_a_conflict_that_does_not_end_names_the_winner(store: Store) -> None:
    """Somebody changes the field each time: after ten more attempts the step fails with who and where."""
    workflow = Workflow("w", results=[Done])
    calls: list[int] = []

    @workflow.step
    async def unlucky(basket: Shared[Basket]) -> Done:
        calls.append(1)
        coupon = basket.fields.coupon
        branch = f"b{len(calls)}"
        async with (
            open_session("s-1", run="other", store=store) as session,
            session.step("winner", branch=branch) as step,
        ):
            (await step.shared(Basket)).set(coupon=f"c{len(calls)}")
            await step.commit()
        basket.set(coupon=f"not {coupon}")
        return Done()

    run = await workflow.run("go", store=store, session="s-1")

    assert isinstance(run.problem, SharedConflict)
    assert len(calls) == 11
    assert run.problem.fields == ("coupon",)
    assert run.problem.winner == "winner/b11"
    assert run.problem.run == "other"
    assert "c11" not in str(run.problem)


async def test_a_step_with_an_effect_does_not_run_again_but_waits_for_a_person(store: Store) -> None:
    """Its effect has happened on the old value: no second one, and resuming says that this is unknown."""
    workflow = Workflow("w", results=[Done])
    paid: list[str] = []

    @workflow.step(effect=True)
    async def pay(basket: Shared[Basket]) -> Done:
        paid.append(str(basket.fields.coupon))
        async with open_session("s-1", run="other", store=store) as session, session.step("winner") as step:
            (await step.shared(Basket)).set(coupon="C2")
            await step.commit()
        return Done()

    run = await workflow.run("go", store=store, session="s-1", id="r-1")
    again = await workflow.resume("r-1", store=store, session="s-1")

    assert isinstance(run.problem, SharedConflict)
    assert isinstance(again.problem, EffectUnknown)
    assert paid == ["None"]


async def test_changes_are_kept_with_the_output_or_not_at_all(store: Store) -> None:
    """A body that fails, and an output that breaks its contract, leave the value as it was."""
    workflow = Workflow("w", results=[Done])

    @workflow.step
    async def fails(basket: Shared[Basket]) -> Done:
        basket.set(coupon="X1")
        raise ValueError

    @workflow.step
    async def breaks(basket: Shared[Basket]) -> Done:
        basket.set(coupon="X2")
        return Done.model_construct(text=7)

    @workflow.step(retries=1, fallback=Done(text="sorry"))
    async def falls_back(basket: Shared[Basket]) -> Done:
        basket.merge(visits=1)
        raise ValueError

    run = await workflow.run("go", store=store)

    assert run.shared(Basket) is None


async def test_a_step_sees_its_own_changes_and_reading_them_is_no_reading_of_others(store: Store) -> None:
    """Set, merge, delete in any order; what a step has set itself cannot be overtaken."""
    async with open_session("s-1", store=store) as session:
        async with session.step("one") as step:
            basket = await step.shared(Basket)
            basket.set(coupon="X1", visits=1)
            basket.merge(visits=2, items=["a"])
            basket.merge(items=["b"])
            assert (basket.fields.coupon, basket.fields.visits, basket.fields.items) == ("X1", 3, ["a", "b"])
            assert basket.has("coupon")
            basket.delete("coupon", "visits")
            assert not basket.has("coupon")
            assert basket.read("coupon") is None
            basket.merge(visits=1)
            assert basket.value.model_fields_set == {"visits", "items"}
            await step.commit()
        assert await session.shared(Basket) == Basket(visits=11, items=["a", "b"])

        async with session.step("two") as step:
            basket = await step.shared(Basket)
            basket.fields.items.append("mine")
            basket.value.items.append("mine")
            assert basket.fields.items == ["a", "b"]
            basket.replace(Basket(owner="ua"))
            await step.commit()
        whole = await session.shared(Basket)
        assert whole is not None
        assert whole.model_dump(exclude_unset=True) == {"owner": "ua"}


async def test_what_cannot_be_a_change_is_refused_where_it_is_made(store: Store) -> None:
    """All problems at once, types and never values; unknown names; a merge without a rule."""
    async with open_session("s-1", store=store) as session:
        async with session.step("one") as step:
            basket = await step.shared(Basket)
            with pytest.raises(ContractViolation) as caught:
                basket.set(coupon=7, owner="secret" * 9, cupon="X1")
            assert {one.path for one in caught.value.violations} == {"coupon", "owner", "cupon"}
            assert "secret" not in str(caught.value)
            with pytest.raises(SetupError, match="no merge rule"):
                basket.merge(coupon="X1")
            with pytest.raises(SetupError, match="no field 'cupon'"):
                basket.delete("cupon")
            with pytest.raises(SetupError, match="no field 'cupon'"):
                _ = basket.fields.cupon  # type: ignore[attr-defined]
            await step.commit()
            with pytest.raises(StateError, match="after step 'one' had committed"):
                basket.set(coupon="X1")
        assert await session.shared(Basket) is None


async def test_rules_that_may_say_no_say_it_to_the_writer(store: Store) -> None:
    """Keys that differ, and functions of the user, are looked at before the commit: no reader can fail on them."""
    async with open_session("s-1", store=store) as session:
        async with session.step("one") as step:
            basket = await step.shared(Basket)
            basket.merge(tags={"a": 1}, best=3)
            await step.commit()
        async with session.step("two") as step:
            basket = await step.shared(Basket)
            basket.merge(tags={"b": 2}, best=2)
            with pytest.raises(ConflictingValues) as caught:
                basket.merge(tags={"a": 2})
            assert caught.value.fields == ("tags.a",)
            assert caught.value.writers == ("one", "two")
            await step.commit()
        assert await session.shared(Basket) == Basket(tags={"a": 1, "b": 2}, best=3)


async def test_a_contract_that_looks_at_several_fields_is_checked_as_a_whole(store: Store) -> None:
    """Each change alone is fine; together they would not be: the second one does not get through blind."""

    class Range(Contract):
        low: int = 0
        high: int = 10

        @model_validator(mode="after")
        def ordered(self) -> Range:
            if self.low > self.high:
                raise ValueError
            return self

    async with open_session("s-1", store=store) as session:
        async with session.step("one") as one, session.step("two") as two:
            (await one.shared(Range)).set(low=8)
            (await two.shared(Range)).set(high=5)
            await one.commit()
            with pytest.raises(SharedConflict):
                await two.commit()
            with pytest.raises(SharedConflict):
                await two.commit()
            async with session.step("three") as three:
                (await three.shared(Range)).set(high=5)
                with pytest.raises(ContractViolation):
                    await three.commit()
                (await three.shared(Range)).set(low=1)
                await three.commit()
            two._entry = one._entry  # it has been dealt with
        assert await session.shared(Range) == Range(low=1, high=5)


async def test_a_model_is_shown_one_line_and_that_counts_as_reading_and_as_delivery(store: Store) -> None:
    """The baton has the value as it stands; facts of an earlier run of the session are delivered, too."""
    async with open_session("s-1", run="before", store=store) as session, session.step("fill") as step:
        basket = await step.shared(Basket)
        basket.set(coupon="KX-5512", owner="ua")
        await step.commit()

    prompts: list[str] = []

    async def model(prompt: Prompt) -> str:
        prompts.append(prompt.text)
        if len(prompts) == 1:
            async with open_session("s-1", run="between", store=store) as session, session.step("win") as step:
                (await step.shared(Basket)).delete("owner")
                await step.commit()
        return '{"text": "coupon KX-5512"}'

    workflow = Workflow("w", results=[Seen])

    @workflow.step
    async def answer(ctx: Context, basket: Shared[Basket]) -> Seen:
        return await ctx.ask(Seen, "Answer.")

    run = await workflow.run("go", store=store, session="s-1", ask=model)

    assert run.ok, run.problem
    lines = [[line for line in text.splitlines() if line.startswith("Basket")] for text in prompts]
    assert lines == [
        ['Basket (shared): {"coupon":"KX-5512","owner":"ua"}'],
        ['Basket (shared): {"coupon":"KX-5512"}'],
    ]
    assert [(one.fact, one.writer, one.reader, one.state) for one in run.loss.deliveries] == [
        ("Basket.coupon", "fill", "answer", "delivered")
    ]
    assert run.loss.is_complete, str(run.loss)


async def test_a_shared_line_that_the_client_cuts_is_a_loss(store: Store) -> None:
    """Delivery is measured on what was sent, field by field, as for every other input."""
    workflow = Workflow("w", results=[Seen])

    @workflow.step
    async def fill(basket: Shared[Basket]) -> Done:
        basket.set(coupon="KX-5512", owner="ua")
        return Done()

    @workflow.step
    async def answer(ctx: Context, done: Done, basket: Shared[Basket]) -> Seen:
        prompt = await ctx.prompt("Answer.")
        ctx.sent(prompt.text.replace('"owner":"ua"', ""))
        return Seen(text="ok")

    run = await workflow.run("go", store=store)

    assert [loss.fact for loss in run.loss.losses] == ["Basket.owner"]


async def test_sensitive_fields_are_shown_to_holders_and_masked_in_reports(store: Store) -> None:
    """Who declares the shared value sees it; the ledger does not."""

    class Card(Contract):
        number: Sensitive[str] = ""

    workflow = Workflow("w", results=[Done])

    @workflow.step
    async def fill(card: Shared[Card]) -> Done:
        card.set(number="4111")
        return Done()

    run = await workflow.run("go", store=store)

    assert [row.value for row in run.loss.ledger.rows if row.fact == "Card.number"] == ["•••"]
    assert "4111" not in str(run.loss.as_dict())


def test_signatures_that_share_nothing_or_too_much_are_refused() -> None:
    """Shared of no contract, the same one twice, and pinned facts, which belong to a run."""

    class Promise(Contract):
        text: Pinned[str]

    def check(body: Any) -> None:
        workflow = Workflow("w")
        workflow.step(body)
        workflow.check()

    async def no_contract(a: Shared[int]) -> Done:  # type: ignore[type-var]
        return Done()

    async def twice(a: Shared[Basket], b: Shared[Basket]) -> Done:
        return Done()

    async def pinned(a: Shared[Promise]) -> Done:
        return Done()

    for body, match in ((no_contract, "shares no contract"), (twice, "twice"), (pinned, "pinned")):
        with pytest.raises(SetupError, match=match):
            check(body)


def test_scripts_without_a_loop_share_values_too() -> None:
    """The synchronous face: `step.shared`, and a decorated function that runs again by itself."""
    with open_session("s-1") as session:
        with session.step("one") as step:
            step.shared(Basket).set(coupon="X1")
            step.commit()
        calls: list[str | None] = []

        @session.step("two")
        def two(basket: Shared[Basket]) -> Done:
            calls.append(basket.fields.coupon)
            if len(calls) == 1:
                with session.step("winner") as step:
                    step.shared(Basket).set(coupon="X2")
                    step.commit()
            basket.set(owner=f"of {basket.fields.coupon}")
            return Done()

        assert two() == Done()  # type: ignore[call-arg]
        assert calls == ["X1", "X2"]
        assert session.shared(Basket) == Basket(coupon="X2", owner="of X2")
        assert session.shared(Basket, at=2) == Basket(coupon="X1")
        with session.step("three") as step:
            basket = step.shared(Basket)
            assert basket.value.coupon == "X2"
            with session.step("four") as other:
                other.shared(Basket).set(coupon="X3")
                other.commit()
            with pytest.raises(SharedConflict, match="'four'"):
                step.commit(Done())
            step._entry = other._entry


class Gate:
    """A store whose appends wait until somebody lets them through."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.waits = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def append(self, *arguments: Any, **options: Any) -> None:
        self.waits.set()
        await self.open.wait()
        await self._store.append(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_commits_that_wait_together_are_checked_against_each_other(store: Store) -> None:
    """Both have read what the other changes, and go to the store at the same moment: one of them wins."""
    gate = Gate(store)
    async with open_session("s-1", store=gate) as session:  # type: ignore[arg-type]
        opened = [session.step(name) for name in ("first", "one", "two")]
        first, one, two = [await opener.__aenter__() for opener in opened]
        for step in (one, two):
            basket = await step.shared(Basket)
            basket.set(visits=basket.fields.visits + 1)
        gate.open.clear()
        gate.waits.clear()
        commits = [asyncio.create_task(first.commit(Done()))]
        await gate.waits.wait()
        commits += [asyncio.create_task(step.commit()) for step in (one, two)]
        await asyncio.sleep(0)
        gate.open.set()
        results = await asyncio.gather(*commits, return_exceptions=True)

        assert [type(result) for result in results] == [type(None), type(None), SharedConflict]
        assert await session.shared(Basket) == Basket(visits=11)
