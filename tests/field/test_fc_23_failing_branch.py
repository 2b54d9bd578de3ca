"""FC-23: one failing branch throws away what its siblings have finished."""

from __future__ import annotations

import asyncio
from typing import Annotated

from statepact import Contract, Each, Gathered, Request, Store, Workflow
from statepact.errors import MissingInput, StepFailed, StepTimeout

SOON = 10.0


class Plan(Contract):
    places: list[str]


class Offer(Contract):
    place: str
    price: int


class Choice(Contract):
    place: str
    of: str


PLACES = ["quick", "soon", "broken", "late", "hangs"]


class World:
    """What the branches meet: two are quick, one is broken, one is late, one hangs; until it is mended."""

    def __init__(self) -> None:
        self.mended = False
        self.asked: list[str] = []
        self.broke = asyncio.Event()

    async def price(self, place: str) -> int:
        self.asked.append(place)
        if place == "broken" and not self.mended:
            self.broke.set()
            raise ConnectionError("no route")
        if place == "late" and not self.mended:
            await self.broke.wait()  # it ends after its sibling has failed
        if place == "hangs" and not self.mended:
            await asyncio.Event().wait()
        return len(place)


def fan_out(world: World) -> Workflow:
    """One step for each place, and one that chooses from what came."""
    workflow = Workflow("trip")

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(places=PLACES)

    @workflow.step(timeout=0.2)
    async def search(place: Annotated[str, Each(Plan, "places")]) -> Offer:
        return Offer(place=place, price=await world.price(place))

    @workflow.step
    async def choose(offers: Gathered[Offer]) -> Choice:
        return Choice(place=min(offers, key=lambda offer: offer.price).place, of=str(offers))

    return workflow


async def test_finished_siblings_are_kept_and_only_the_failed_run_again(store: Store) -> None:
    """Three of five come; two fail, each with its reason; resuming starts exactly those two."""
    world = World()
    workflow = fan_out(world)

    async with asyncio.timeout(SOON):
        run = await workflow.run("Where to?", session="s-1", id="r-1", store=store)

    assert sorted(offer.place for offer in run.all(Offer)) == ["late", "quick", "soon"]
    branches = run.steps["search"].branches
    assert {name: branch.ending for name, branch in branches.items()} == {
        "0": "done",
        "1": "done",
        "2": "failed",
        "3": "done",
        "4": "failed",
    }
    assert isinstance(branches["2"].problem, StepFailed)
    assert isinstance(branches["4"].problem, StepTimeout)
    assert run[Choice] == Choice(place="soon", of="3 of 5")
    assert run.partial == {"choose": "3 of 5 Offer"}
    assert run.status == "failed"

    world.mended, world.asked = True, []
    async with asyncio.timeout(SOON):
        resumed = await workflow.resume("r-1", session="s-1", store=store)

    assert sorted(world.asked) == ["broken", "hangs"]
    assert len(resumed.all(Offer)) == 5
    assert resumed.ok
    assert resumed[Choice] == run[Choice]
    assert resumed.partial == {"choose": "3 of 5 Offer"}


async def test_reader_of_all_waits_for_the_failed_ones(store: Store) -> None:
    """Who asks for the list wants all of it: it is blocked, named, and runs once the rest is there."""
    world = World()
    workflow = Workflow("trip")

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(places=PLACES)

    @workflow.step(timeout=0.2)
    async def search(place: Annotated[str, Each(Plan, "places")]) -> Offer:
        return Offer(place=place, price=await world.price(place))

    @workflow.step
    async def choose(offers: list[Offer]) -> Choice:
        return Choice(place=offers[0].place, of=str(len(offers)))

    run = await workflow.run("Where to?", session="s-1", id="r-1", store=store)
    assert isinstance(run.steps["choose"].problem, MissingInput)

    world.mended = True
    resumed = await workflow.resume("r-1", session="s-1", store=store)
    assert resumed[Choice].of == "5"
    assert resumed.partial == {}


async def test_nothing_that_came_is_not_enough(store: Store) -> None:
    """If every branch fails there is nothing to choose from, and the step does not guess."""
    workflow = Workflow("trip")

    @workflow.step
    async def plan(request: Request) -> Plan:
        return Plan(places=["a", "b"])

    @workflow.step
    async def search(place: Annotated[str, Each(Plan, "places")]) -> Offer:
        raise ConnectionError

    @workflow.step
    async def choose(offers: Gathered[Offer]) -> Choice:
        raise AssertionError("must not run")

    run = await workflow.run("Where to?", store=store)
    assert run.steps["choose"].ending == "blocked"


async def test_gathering_from_steps_that_are_written_down(store: Store) -> None:
    """A set of steps is gathered like a set of branches; one of them fails."""
    workflow = Workflow("trip")

    @workflow.step
    async def left(request: Request) -> Offer:
        return Offer(place="left", price=1)

    @workflow.step
    async def right(request: Request) -> Offer:
        raise ConnectionError

    @workflow.step
    async def choose(offers: Gathered[Offer]) -> Choice:
        return Choice(place=offers.values[0].place, of=f"{offers}, without {', '.join(offers.missing)}")

    run = await workflow.run("Where to?", store=store)
    assert run[Choice] == Choice(place="left", of="1 of 2, without right")
    assert run.partial == {"choose": "1 of 2 Offer"}
