"""The first reader of a value gets the checked object, the next ones a decoded one; nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest

from statepact import Contract, open_session


class Order(Contract):
    names: list[str]
    options: dict[str, bool] = {}


class Loose(Contract):
    value: Any


async def _read(output: Contract, times: int) -> list[Any]:
    """Commit an output and return what so many steps read."""
    kind, seen = type(output), []
    async with open_session("s") as session:
        async with session.step("write") as step:
            await step.commit(output)
        for number in range(times):
            async with session.step(f"read{number}", reads=[kind]) as step:
                seen.append(step[kind])
                await step.commit()
    return seen


async def test_each_reader_has_an_object_of_its_own() -> None:
    written = Order(names=["a"])
    seen = await _read(written, 3)
    written.names.append("writer")
    for number, order in enumerate(seen):
        assert order.names == ["a"]
        order.names.append(f"reader {number}")


async def test_asking_twice_in_one_step_gives_two_objects() -> None:
    async with open_session("s") as session:
        async with session.step("write") as step:
            await step.commit(Order(names=["a"]))
        async with session.step("read", reads=[Order]) as step:
            step[Order].names.append("b")
            assert step[Order].names == ["a"]
            await step.commit()


async def test_what_the_check_passes_on_is_not_shared_with_the_writer() -> None:
    inside = ["a"]
    written = Loose(value=inside)
    seen = await _read(written, 1)
    inside.append("writer")
    assert seen[0].value == ["a"]


@pytest.mark.parametrize("broken", ["\ud83d", "\x00"])
async def test_the_first_reader_sees_what_was_stored(broken: str) -> None:
    """A text that had to be cleaned is read cleaned, by the first reader too."""
    first, second = await _read(Order(names=[f"x{broken}"]), 2)
    assert first == second == Order(names=["x\N{REPLACEMENT CHARACTER}"])
