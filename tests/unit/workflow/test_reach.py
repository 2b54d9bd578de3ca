"""What can reach whom is known before anything runs."""

from __future__ import annotations

import warnings
from typing import Annotated

import pytest

from statepact import Answers, Context, Contract, Pinned, UnclaimedFacts, Workflow
from statepact.errors import SetupError, Unreachable


class Complaint(Contract):
    product: str
    demand: str


class Order(Contract):
    order_id: str


class Reply(Contract):
    text: str


def shop(*, owes: bool = False, reads_complaint: bool = False) -> Workflow:
    workflow = Workflow("shop")
    covers = [(Complaint, "demand")] if owes else []

    @workflow.step
    async def understand() -> Complaint:
        return Complaint(product="grinder", demand="refund")

    @workflow.step
    async def look_up(complaint: Complaint) -> Order:
        return Order(order_id="KX-1")

    if reads_complaint:

        @workflow.step(covers=covers)
        async def answer(order: Order, complaint: Complaint) -> Reply:
            return Reply(text="")
    else:

        @workflow.step(name="answer", covers=covers)
        async def answer_short(order: Order) -> Reply:
            return Reply(text="")

    return workflow


async def test_a_fact_that_is_owed_but_cannot_arrive_is_an_error_with_the_names() -> None:
    """The sentence of design.md §4: which fact, owed by whom, what it declares, and that it is not pinned."""
    with pytest.raises(Unreachable) as caught:
        await shop(owes=True).run("hello")

    assert (
        "Complaint.demand is owed by 'answer' but cannot reach it: it declares only Order, and the field is not pinned"
        in str(caught.value)
    )
    assert "Pinned" in caught.value.hint


def test_declaring_the_contract_or_pinning_the_field_makes_it_reachable() -> None:
    shop(owes=True, reads_complaint=True).check()

    class Wish(Contract):
        demand: Pinned[str]

    workflow = Workflow("shop")

    @workflow.step
    async def understand() -> Wish:
        return Wish(demand="refund")

    @workflow.step
    async def look_up(wish: Wish) -> Order:
        return Order(order_id="KX-1")

    @workflow.step(covers=[(Wish, "demand")])
    async def answer(order: Order) -> Reply:
        return Reply(text="")

    workflow.check()


def test_a_pinned_fact_that_nothing_waits_for_may_not_be_there_yet() -> None:
    """Pinned is not enough if the step may start before the writer has ended."""

    class Wish(Contract):
        demand: Pinned[str]

    workflow = Workflow("shop")

    @workflow.step
    async def understand() -> Wish:
        return Wish(demand="refund")

    @workflow.step(covers=[(Wish, "demand")])
    async def answer() -> Reply:
        return Reply(text="")

    with pytest.raises(Unreachable, match=r"Wish.demand is owed by 'answer' but may not be there yet.*'understand'"):
        workflow.check()


def test_a_link_is_owed_like_anything_named_in_covers() -> None:
    class Decision(Contract):
        order_id: Annotated[str, Answers(Order, "order_id")]

    workflow = Workflow("shop")

    @workflow.step
    async def look_up() -> Order:
        return Order(order_id="KX-1")

    @workflow.step
    async def between(order: Order) -> Complaint:
        return Complaint(product="", demand="")

    @workflow.step
    async def decide(complaint: Complaint) -> Decision:
        return Decision(order_id="KX-1")

    with pytest.raises(Unreachable, match=r"Order.order_id is owed by 'decide' but cannot reach it"):
        workflow.check()


def test_a_link_to_what_nobody_writes_is_an_error() -> None:
    class Decision(Contract):
        order_id: Annotated[str, Answers(Order, "order_id")]

    workflow = Workflow("shop")

    @workflow.step
    async def decide() -> Decision:
        return Decision(order_id="KX-1")

    with pytest.raises(Unreachable, match=r"Order.order_id is owed by 'decide', but no step returns Order 1.0"):
        workflow.check()


def test_covers_of_a_field_that_does_not_exist_is_an_error_at_the_step() -> None:
    async def answer(complaint: Complaint) -> Reply:
        return Reply(text="")

    with pytest.raises(SetupError, match=r"step 'answer' covers Complaint.wish, which does not exist"):
        Workflow("shop").step(covers=[(Complaint, "wish")])(answer)


def test_all_unreachable_reads_are_reported_at_once() -> None:
    workflow = Workflow("shop")

    @workflow.step
    async def answer(complaint: Complaint, order: Order) -> Reply:
        return Reply(text="")

    with pytest.raises(Unreachable) as caught:
        workflow.check()

    assert "'answer' reads Complaint, which no step returns" in str(caught.value)
    assert "'answer' reads Order, which no step returns" in str(caught.value)
    assert "known here: Reply, Request" in caught.value.hint


def test_a_promised_result_that_no_step_returns_is_an_error() -> None:
    workflow = Workflow("shop", results=[Order])

    @workflow.step
    async def answer() -> Reply:
        return Reply(text="")

    with pytest.raises(Unreachable, match="promises Order, which no step returns"):
        workflow.check()


def test_facts_that_nobody_will_read_are_a_warning_with_their_names() -> None:
    """Born, declared by no later step, not pinned: unclaimed."""

    class Side(Contract):
        note: str
        kept: Pinned[str]

    workflow = Workflow("shop")

    @workflow.step
    async def aside() -> Side:
        return Side(note="", kept="")

    @workflow.step
    async def answer() -> Reply:
        return Reply(text="")

    with pytest.warns(UnclaimedFacts, match=r"'shop' no later step declares Side\.note, and") as caught:
        graph = workflow.check()

    assert [fact.label for fact in graph.unclaimed] == ["Side.note"]
    assert "Side.kept" not in str(caught[0].message)


def test_results_and_the_last_output_are_not_unclaimed() -> None:
    workflow = Workflow("shop", results=[Reply, Order])

    @workflow.step
    async def look_up() -> Order:
        return Order(order_id="KX-1")

    @workflow.step
    async def answer() -> Reply:
        return Reply(text="")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        workflow.check()


def test_a_workflow_is_checked_once_and_again_after_a_new_step() -> None:
    workflow = Workflow("shop")

    @workflow.step
    async def look_up() -> Order:
        return Order(order_id="KX-1")

    first = workflow.check()
    assert workflow.check() is first

    @workflow.step
    async def answer(order: Order) -> Reply:
        return Reply(text="")

    assert [step.name for step in workflow.check().steps] == ["look_up", "answer"]


def test_steps_may_be_defined_in_any_order() -> None:
    workflow = Workflow("shop")

    @workflow.step
    async def answer(order: Order) -> Reply:
        return Reply(text="")

    @workflow.step
    async def look_up() -> Order:
        return Order(order_id="KX-1")

    graph = workflow.check()

    assert [step.name for step in graph.steps] == ["look_up", "answer"]
    assert graph.results == (Reply,)


async def test_nothing_runs_when_the_wiring_is_wrong() -> None:
    """The error comes before the first step and before the first byte."""
    ran: list[str] = []
    workflow = Workflow("shop")

    @workflow.step
    async def look_up() -> Order:
        ran.append("look_up")
        return Order(order_id="KX-1")

    @workflow.step
    async def answer(ctx: Context, complaint: Complaint) -> Reply:
        return Reply(text="")

    with pytest.raises(Unreachable):
        await workflow.run("hello")

    assert ran == []
