"""FC-25: a join forgets or doubles inputs across a restore."""

from __future__ import annotations

import asyncio

from _backends import Reopen

from statepact import Contract, Request, Store, Workflow
from statepact.ledger import SessionKey
from statepact.stores._open_log import OpenLog


class Part(Contract):
    text: str


class Joined(Contract):
    parts: list[str]


class Machine:
    """A workflow of two parts and a join, and what stops it: the part that does not come yet."""

    def __init__(self, *, without: str = "") -> None:
        self.bodies: list[str] = []
        self.workflow = Workflow("join")

        async def part(name: str) -> Part:
            self.bodies.append(name)
            if name == without:
                raise ConnectionError("not yet")
            return Part(text=name)

        @self.workflow.step
        async def a(request: Request) -> Part:
            return await part("A")

        @self.workflow.step
        async def b(request: Request) -> Part:
            return await part("B")

        @self.workflow.step
        async def join(parts: list[Part]) -> Joined:
            self.bodies.append("join")
            return Joined(parts=sorted(one.text for one in parts))


async def run(machine: Machine, store: Store, *, id: str = "r-1") -> list[str] | None:
    done = await machine.workflow.run("x", session="s-1", id=id, store=store)
    found = done.get(Joined)
    return found.parts if found else None


async def test_join_fires_once_with_both_after_a_restore(stores: Reopen) -> None:
    """A arrives, another process opens the state, B arrives: one firing, with A and B."""
    assert await run(Machine(without="B"), await stores()) is None

    fresh = Machine()
    assert await run(fresh, await stores()) == ["A", "B"]
    assert fresh.bodies == ["B", "join"]

    again = Machine()
    assert await run(again, await stores()) == ["A", "B"]
    assert again.bodies == []


async def test_repeated_part_does_not_fire_the_join_early(stores: Reopen) -> None:
    """A is done twice, by a process that died before it learned of its commit: A counts once."""
    first, second = await stores(), await stores()
    await run(Machine(without="B"), first)

    early = Machine(without="B")
    assert await run(early, second) is None
    assert "join" not in early.bodies
    log = await OpenLog.open(second, SessionKey("local", "s-1"))
    assert [cell.step for cell in log.log.runs["r-1"].by_contract["Part"]] == ["a"]


async def test_same_snapshot_restored_twice_gives_the_same(stores: Reopen) -> None:
    """Two processes continue from the same state at the same time: one join, both see it."""
    await run(Machine(without="B"), await stores())

    left, right = Machine(), Machine()
    async with asyncio.timeout(20):
        results = await asyncio.gather(run(left, await stores()), run(right, await stores()))

    assert results == [["A", "B"], ["A", "B"]]
    assert sorted(left.bodies + right.bodies) == ["B", "join"]


async def test_many_restores_of_one_moment_are_equal(stores: Reopen) -> None:
    """What a join waits for is what the log says, however often it is opened."""
    await run(Machine(without="B"), await stores())
    waiting = []
    for _ in range(5):
        log = await OpenLog.open(await stores(), SessionKey("local", "s-1"))
        waiting.append([(cell.step, cell.revision) for cell in log.log.runs["r-1"].by_contract["Part"]])

    assert waiting == [waiting[0]] * 5
