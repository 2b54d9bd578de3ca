"""FC-65: only the fields of the last writer are stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import pytest

from statepact import Contract, Merge, Store, Workflow, open_session
from statepact.errors import CorruptState
from statepact.ledger import SessionKey, Snapshot, session_key
from statepact.ledger._shared import shared_value
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


class Ticket(Contract):
    messages: Annotated[list[str], Merge.append] = []
    category: str | None = None
    count: Annotated[int, Merge.add] = 0


async def shared_ticket(stores: Reopen, *, at: int | None = None) -> dict[str, object]:
    """What a new process reads."""
    log = await OpenLog.open(await stores(), session_key("local", "s-1"))
    ticket = shared_value(await log.shared(Ticket, at=at))
    return {} if ticket is None else ticket.model_dump(exclude_unset=True)


async def test_fc_65_deltas_of_one_shared_value_are_put_together_again(stores: Reopen) -> None:
    """A writes messages, B a category, C count += 2, D nothing: after each a new process has all so far."""
    revisions = []
    for name, how, fields, expected in (
        ("a", "merge", {"messages": ["m1"]}, {"messages": ["m1"]}),
        ("b", "set", {"category": "refund"}, {"messages": ["m1"], "category": "refund"}),
        ("c", "merge", {"count": 2}, {"messages": ["m1"], "category": "refund", "count": 2}),
        ("d", "set", {}, {"messages": ["m1"], "category": "refund", "count": 2}),
    ):
        async with open_session("s-1", store=await stores(), run=f"r-{name}") as session, session.step(name) as step:
            getattr(await step.shared(Ticket), how)(**fields)
            await step.commit()
            revisions.append(session._scope.log.log.revision)
        assert await shared_ticket(stores) == expected, name

    assert await shared_ticket(stores, at=revisions[1]) == {"messages": ["m1"], "category": "refund"}
    async with open_session("s-1", store=await stores()) as session:
        second = await session.shared(Ticket, at=revisions[1])
        assert second is not None
        assert second.model_fields_set == {"messages", "category"}
        assert await session.shared(Ticket, at=0) is None


class Counting:
    """A store that counts how often values are read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0

    async def payloads(self, key: SessionKey, revisions: object) -> object:
        self.reads += 1
        return await self._store.payloads(key, revisions)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


async def test_fc_65_a_chain_of_500_deltas_is_folded_with_one_read(stores: Reopen) -> None:
    """The first, the last and all in between count, and each is read once, however often somebody asks."""
    async with open_session("s-1", store=await stores(), run="r-1") as session:
        for number in range(500):
            async with session.step("step", branch=f"n{number}") as step:
                ticket = await step.shared(Ticket)
                ticket.merge(count=2, messages=[f"m{number}"])
                if number == 3:
                    ticket.set(category="refund")
                await step.commit()

    store = Counting(await stores())
    log = await OpenLog.open(store, session_key("local", "s-1"))  # type: ignore[arg-type]
    folded = await log.shared(Ticket)
    await log.shared(Ticket)

    assert folded.values == {
        "count": 1000,
        "messages": [f"m{number}" for number in range(500)],
        "category": "refund",
    }
    assert store.reads == 1


@pytest.mark.parametrize("lost", [{"header": 3}, {"payload": 3}], ids=["header", "value"])
async def test_fc_65_a_missing_delta_is_reported_and_not_skipped(stores: Reopen, lost: dict[str, int]) -> None:
    """A fold without one of the changes would be another value that looks whole."""
    async with open_session("s-1", store=await stores(), run="r-1") as session:
        for number in range(5):
            async with session.step("count", branch=f"n{number}") as step:
                (await step.shared(Ticket)).merge(count=2)
                await step.commit()

    async def read() -> None:
        log = await OpenLog.open(Forgetful(await stores(), **lost), session_key("local", "s-1"))  # type: ignore[arg-type]
        await log.shared(Ticket)

    with pytest.raises(CorruptState, match="revision 3"):
        await read()
