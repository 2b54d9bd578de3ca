"""A value that failed to come is not a value that is absent."""

from __future__ import annotations

from statepact import Contract, MemoryStore, Request, Workflow


class Hotel(Contract):
    name: str


class Plan(Contract):
    text: str


async def test_a_reader_waits_for_the_writer_that_failed_and_resume_completes_it() -> None:
    """If it went on without the hotel, the hotel could never be added to this run."""
    down = [True]
    trip = Workflow("trip", store=MemoryStore())

    @trip.step
    async def book(request: Request) -> Hotel | None:
        if down[0]:
            raise ConnectionError
        return Hotel(name="Alma")

    @trip.step
    async def plan(hotel: Hotel | None) -> Plan:
        return Plan(text=hotel.name if hotel else "no hotel")

    first = await trip.run("two nights", session="s-1", id="r-1")
    assert first.steps["plan"].ending == "blocked"
    down[0] = False

    again = await trip.resume("r-1", session="s-1")

    assert again.ok
    assert again[Plan].text == "Alma"
