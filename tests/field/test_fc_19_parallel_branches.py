"""FC-19: parallel branches write the same key."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Annotated

import pytest

from statepact import Context, Contract, Merge, Shared, Store, Workflow, open_session
from statepact.errors import ConflictingValues
from statepact.models import Prompt

Reopen = Callable[[], Awaitable[Store]]


class Flight(Contract):
    no: str
    dep: str


class Hotel(Contract):
    name: str
    nights: int


class Budget(Contract):
    left: int


class Itinerary(Contract):
    flight: Flight
    hotel: Hotel
    budgets: list[int]


FLIGHT = Flight(no="LX 318", dep="2026-12-09T07:05+01:00")
HOTEL = Hotel(name="Alma", nights=2)


def chance_of(seed: int) -> Callable[[], Awaitable[None]]:
    chance = random.Random(seed)

    async def pause() -> None:
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)

    return pause


def travel(pause: Callable[[], Awaitable[None]]) -> Workflow:
    workflow = Workflow("travel")

    @workflow.step
    async def book_flight() -> tuple[Flight, Budget]:
        await pause()
        return FLIGHT, Budget(left=410)

    @workflow.step
    async def book_hotel() -> tuple[Hotel, Budget]:
        await pause()
        return HOTEL, Budget(left=385)

    @workflow.step
    async def plan(flight: Flight, hotel: Hotel, budgets: list[Budget]) -> Itinerary:
        await pause()
        return Itinerary(flight=flight, hotel=hotel, budgets=[budget.left for budget in budgets])

    return workflow


async def test_fc_19_no_run_of_200_loses_a_part(store: Store) -> None:
    """Whatever branch is first, both parts land, and both writers' values of the shared one are there."""
    orders = set()

    for seed in range(200):
        run = await travel(chance_of(seed)).run("Lisbon", store=store)

        assert run.ok, (seed, run.problem)
        assert run[Itinerary].flight == FLIGHT
        assert run[Itinerary].hotel == HOTEL
        assert sorted(run[Itinerary].budgets) == [385, 410]
        assert [budget.left for budget in run.all(Budget)] == run[Itinerary].budgets
        assert run.loss.is_complete
        orders.add(tuple(run[Itinerary].budgets))

    # The test means something only if both orders have happened.
    assert orders == {(385, 410), (410, 385)}


async def test_fc_19_runs_of_one_session_side_by_side_lose_nothing(store: Store) -> None:
    """20 runs at once in one session: the log has every part of every run."""
    runs = await asyncio.gather(
        *(travel(chance_of(seed)).run("Lisbon", session="trips", store=store) for seed in range(20))
    )

    for run in runs:
        assert run.ok, run.problem
        assert (run[Flight], run[Hotel]) == (FLIGHT, HOTEL)
        assert sorted(run[Itinerary].budgets) == [385, 410]


def disagreeing() -> Workflow:
    workflow = Workflow("travel")

    @workflow.step
    async def book_flight() -> Budget:
        return Budget(left=410)

    @workflow.step
    async def book_hotel() -> Budget:
        return Budget(left=385)

    @workflow.step
    async def plan(budget: Budget) -> Itinerary:
        pytest.fail("must not run on one of two different values")

    return workflow


async def test_fc_19_a_reader_of_one_value_gets_a_conflict_with_both_writers(store: Store) -> None:
    """No branch wins silently: the reader stops, the error names contract, field and writers."""
    run = await disagreeing().run("Lisbon", store=store)

    assert run.status == "failed"
    assert isinstance(run.problem, ConflictingValues)
    assert set(run.problem.writers) == {"book_flight", "book_hotel"}
    assert run.problem.fields == ("left",)
    assert "410" not in str(run.problem)
    # Both values stay readable: nothing was overwritten.
    assert sorted(budget.left for budget in run.all(Budget)) == [385, 410]


async def test_fc_19_a_conflict_is_a_lifecycle_loss_with_its_place(store: Store) -> None:
    """The meter shows it once, also after another try."""
    workflow = disagreeing()

    first = await workflow.run("Lisbon", store=store, id="r-1")
    again = await workflow.run("Lisbon", store=store, id="r-1")

    for run in (first, again):
        (loss,) = run.loss.losses
        assert (loss.fact, loss.form, loss.step) == ("Budget.left", "lifecycle", "plan")
        assert "book_flight" in loss.cause
        assert "book_hotel" in loss.cause


async def test_fc_19_branches_that_agree_are_no_conflict(store: Store) -> None:
    """The same value from two writers is one answer."""
    workflow = Workflow("travel")

    @workflow.step
    async def book_flight() -> Budget:
        return Budget(left=400)

    @workflow.step
    async def book_hotel() -> Budget:
        return Budget(left=400)

    @workflow.step
    async def plan(budget: Budget) -> Hotel:
        return Hotel(name="Alma", nights=budget.left)

    run = await workflow.run("Lisbon", store=store)

    assert run[Hotel].nights == 400


async def test_fc_19_ten_branches_and_a_join(store: Store) -> None:
    """A wider fan-out, 30 seeds: the join sees ten values, each once, in the order of their commits."""
    for seed in range(30):
        run = await wide(chance_of(seed)).run("go", store=store)

        assert sorted(run[Itinerary].budgets) == list(range(10))
        assert run[Itinerary].budgets == [budget.left for budget in run.all(Budget)]


def wide(pause: Callable[[], Awaitable[None]]) -> Workflow:
    workflow = Workflow("wide")

    def add(number: int) -> None:
        @workflow.step(name=f"branch_{number}")
        async def branch() -> Budget:
            await pause()
            return Budget(left=number)

    for number in range(10):
        add(number)

    @workflow.step
    async def join(budgets: list[Budget]) -> Itinerary:
        return Itinerary(flight=FLIGHT, hotel=HOTEL, budgets=[budget.left for budget in budgets])

    return workflow


class Trip(Contract):
    flight: Flight | None = None
    hotel: Hotel | None = None
    notes: Annotated[list[str], Merge.append] = []


class Plan(Contract):
    itinerary: Trip
    budget_left: int


class FrugalPlan(Contract):
    itinerary: Trip
    budget_left: Annotated[int, Merge.minimum]


class Ticket(Contract):
    flight: str
    hotel: str
    notes: list[str]
    budget_left: int


def one_map(plan: type[Plan] | type[FrugalPlan], pause: Callable[[], Awaitable[None]]) -> Workflow:
    """Both branches write one contract, each its part of the nested one, and both the budget."""
    workflow = Workflow("travel", results=[Ticket])

    @workflow.step
    async def book_flight() -> plan:  # type: ignore[valid-type]
        await pause()
        return plan(itinerary=Trip(flight=FLIGHT, notes=["window"]), budget_left=410)

    @workflow.step
    async def book_hotel() -> plan:  # type: ignore[valid-type]
        await pause()
        return plan(itinerary=Trip(hotel=HOTEL, notes=["late"]), budget_left=385)

    @workflow.step
    async def pay(whole: plan) -> Ticket:  # type: ignore[valid-type]
        trip = whole.itinerary
        assert trip.flight is not None
        assert trip.hotel is not None
        return Ticket(flight=trip.flight.no, hotel=trip.hotel.name, notes=trip.notes, budget_left=whole.budget_left)

    return workflow


async def test_fc_19_disjoint_parts_of_one_map_merge_in_200_of_200_runs(store: Store) -> None:
    """Each branch sets its part of a nested contract; the rule of the field decides where both did."""
    orders = set()

    for seed in range(200):
        run = await one_map(FrugalPlan, chance_of(seed)).run("Lisbon", store=store)

        assert run.ok, (seed, run.problem)
        ticket = run[Ticket]
        assert (ticket.flight, ticket.hotel, ticket.budget_left) == ("LX 318", "Alma", 385)
        assert ticket.notes == [note for plan in run.all(FrugalPlan) for note in plan.itinerary.notes]
        assert run.loss.is_complete
        orders.add(tuple(ticket.notes))

    assert orders == {("window", "late"), ("late", "window")}


async def test_fc_19_without_a_rule_the_conflict_has_both_values_and_writers(store: Store) -> None:
    """Only the field that differs is in conflict; values stand in the report and not in the error."""
    run = await one_map(Plan, chance_of(1)).run("Lisbon", store=store)

    assert isinstance(run.problem, ConflictingValues)
    assert run.problem.fields == ("budget_left",)
    assert set(run.problem.writers) == {"book_flight", "book_hotel"}
    assert "410" not in str(run.problem)
    (conflict,) = run.loss.conflicts
    assert (conflict.fact, conflict.reader) == ("Plan.budget_left", "pay")
    assert dict(conflict.values) == {"book_flight": "410", "book_hotel": "385"}
    assert "410" not in str(run.loss)


async def test_fc_19_a_model_sees_one_line_of_what_the_branches_make(store: Store) -> None:
    """The merged value is shown once, with all its writers, and counts as delivered from each."""
    workflow = Workflow("travel")

    @workflow.step
    async def book_flight() -> FrugalPlan:
        return FrugalPlan(itinerary=Trip(flight=FLIGHT), budget_left=410)

    @workflow.step
    async def book_hotel() -> FrugalPlan:
        return FrugalPlan(itinerary=Trip(hotel=HOTEL), budget_left=385)

    @workflow.step
    async def pay(ctx: Context, plan: FrugalPlan) -> Hotel:
        return await ctx.ask(Hotel, "Name the hotel.")

    prompts: list[str] = []

    async def model(prompt: Prompt) -> str:
        prompts.append(prompt.text)
        return HOTEL.model_dump_json()

    run = await workflow.run("Lisbon", store=store, ask=model)

    (line,) = [line for line in prompts[0].splitlines() if line.startswith("FrugalPlan")]
    assert "LX 318" in line
    assert "Alma" in line
    assert "410" not in line
    assert "book_flight" in line
    assert "book_hotel" in line
    assert run.loss.is_complete
    assert {(one.fact, one.writer) for one in run.loss.deliveries} >= {
        ("FrugalPlan.itinerary", "book_flight"),
        ("FrugalPlan.itinerary", "book_hotel"),
    }


class Board(Contract):
    flight: Flight | None = None
    hotel: Hotel | None = None
    budget_left: int = 1_000
    spent: Annotated[list[int], Merge.append] = []


async def test_fc_19_writers_of_one_shared_map_lose_no_part_in_200_interleavings(stores: Reopen) -> None:
    """Two workers with logs of their own: parts land whoever is first, and a sum is never half."""
    store, other = await stores(), await stores()
    winners = set()

    async def book(seed: int, at: Store, name: str, cost: int, **part: object) -> None:
        pause = chance_of(seed)
        async with open_session(f"trip-{seed // 2}", run=name, store=at) as session:

            @session.step(name)
            async def write(board: Shared[Board]) -> Budget:
                await pause()
                left = board.fields.budget_left - cost
                await pause()
                board.set(budget_left=left, **part)
                board.merge(spent=[cost])
                return Budget(left=left)

            await write()  # type: ignore[call-arg]

    for seed in range(200):
        await asyncio.gather(
            book(2 * seed, store, "flight", 590, flight=FLIGHT), book(2 * seed + 1, other, "hotel", 25, hotel=HOTEL)
        )
        async with open_session(f"trip-{seed}", store=store) as session:
            board = await session.shared(Board)
        assert board is not None
        assert (board.flight, board.hotel, board.budget_left) == (FLIGHT, HOTEL, 385), seed
        assert sorted(board.spent) == [25, 590]
        winners.add(tuple(board.spent))

    assert winners == {(590, 25), (25, 590)}
