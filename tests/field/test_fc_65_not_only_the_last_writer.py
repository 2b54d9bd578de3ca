"""FC-65: only the fields of the last writer are stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from statepact import Contract, Store, Workflow, open_session
from statepact.errors import CorruptState
from statepact.ledger import SessionKey, Snapshot, session_key
from statepact.stores._base import NewEntry
from statepact.stores._open_log import OpenLog

Reopen = Callable[[], Awaitable[Store]]


class Messages(Contract):
    items: list[str]


class Category(Contract):
    name: str


class Count(Contract):
    total: int


async def test_fc_65_after_each_step_a_new_process_reads_everything_so_far(stores: Reopen) -> None:
    """A writes messages, B a category, C a count, D nothing: nobody's fields go when another writes."""
    values: list[tuple[str, Contract | None]] = [
        ("a", Messages(items=["m1"])),
        ("b", Category(name="refund")),
        ("c", Count(total=2)),
        ("d", None),
    ]
    written: list[Contract] = []
    for name, value in values:
        async with open_session("s-1", store=await stores(), run="r-1") as session, session.step(name) as step:
            await step.commit(*([value] if value is not None else []))
        if value is not None:
            written.append(value)

        async with open_session("s-1", store=await stores(), run="r-1") as session:
            for kind in (Messages, Category, Count):
                expected = next((one for one in written if type(one) is kind), None)
                assert await session.get(kind) == expected, (name, kind)


async def test_fc_65_an_earlier_snapshot_has_what_was_there_and_no_more(stores: Reopen) -> None:
    """Restoring snapshot 2 gives messages and category, not the count that came later."""
    async with open_session("s-1", store=await stores(), run="r-1") as session:
        async with session.step("a") as step:
            await step.commit(Messages(items=["m1"]))
        async with session.step("b") as step:
            await step.commit(Category(name="refund"))
        second = session._scope.log.log.revision
        async with session.step("c") as step:
            await step.commit(Count(total=2))

    log = await OpenLog.open(await stores(), session_key(session.owner, "s-1"))
    early, late = Snapshot(log.log, "r-1", second), Snapshot(log.log, "r-1")

    assert [len(early.cells(name)) for name in ("Messages", "Category", "Count")] == [1, 1, 0]
    assert [len(late.cells(name)) for name in ("Messages", "Category", "Count")] == [1, 1, 1]


async def test_fc_65_a_session_of_500_steps_is_whole(stores: Reopen) -> None:
    """A long chain of single writes: a new process has the first, the last and all in between."""
    async with open_session("s-1", store=await stores(), run="r-1") as session:
        async with session.step("first") as step:
            await step.commit(Category(name="refund"))
        for number in range(500):
            async with session.step("count", branch=f"n{number}") as step:
                await step.commit(Count(total=number))

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        assert await session.get(Category) == Category(name="refund")
        assert [count.total for count in await session.all(Count)] == list(range(500))


class Forgetful:
    """A store that has lost one entry of each session: what a broken backup looks like."""

    def __init__(self, store: Store, *, header: int = 0, payload: int = 0) -> None:
        self._store, self._header, self._payload = store, header, payload
        self.promise = "none"

    async def append(self, key: SessionKey, entries: list[NewEntry], *, after: int, hold: object = None) -> None:
        await self._store.append(key, entries, after=after)

    async def hold(self, key: SessionKey, hold: object) -> None:
        pass

    async def headers(self, key: SessionKey, *, after: int = 0) -> object:
        return [one for one in await self._store.headers(key, after=after) if one.revision != self._header]

    async def payloads(self, key: SessionKey, revisions: object) -> object:
        found = await self._store.payloads(key, revisions)  # type: ignore[arg-type]
        return {revision: data for revision, data in found.items() if revision != self._payload}

    async def blocks(self, key: SessionKey, addresses: object) -> object:
        return await self._store.blocks(key, addresses)  # type: ignore[arg-type]

    async def sessions(self, owner: str) -> object:
        return await self._store.sessions(owner)

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Forgetful:
        return self

    async def __aexit__(self, *error: object) -> None: ...


@pytest.mark.parametrize("lost", [{"header": 3}, {"payload": 3}], ids=["header", "value"])
async def test_fc_65_a_missing_entry_is_reported_and_not_skipped(stores: Reopen, lost: dict[str, int]) -> None:
    """One delta of the middle is gone: an error that names the place, never a shorter state."""
    async with open_session("s-1", store=await stores(), run="r-1") as session:
        for number in range(5):
            async with session.step("count", branch=f"n{number}") as step:
                await step.commit(Count(total=number))

    with pytest.raises(CorruptState, match="revision 3"):
        async with open_session("s-1", store=Forgetful(await stores(), **lost), run="r-1") as session:  # type: ignore[arg-type]
            await session.all(Count)


async def test_fc_65_a_workflow_resumed_elsewhere_has_all_outputs(stores: Reopen) -> None:
    """Each output of each step, after the run was continued by a process that ran none of them."""
    workflow = Workflow("chain", results=[Messages, Category, Count])

    @workflow.step
    async def a() -> Messages:
        return Messages(items=["m1"])

    @workflow.step
    async def b(messages: Messages) -> Category:
        return Category(name="refund")

    @workflow.step
    async def c(category: Category) -> Count:
        return Count(total=2)

    await workflow.run("go", id="r-1", store=await stores())
    run = await workflow.resume("r-1", store=await stores())

    assert {step.ending for step in run.steps.values()} == {"stored"}
    assert (run[Messages], run[Category], run[Count]) == (
        Messages(items=["m1"]),
        Category(name="refund"),
        Count(total=2),
    )
