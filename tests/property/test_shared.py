"""Shared values: the log of changes is a dict that everybody agrees on, and nobody's blind write is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from statepact import Contract, MemoryStore, Merge, open_session
from statepact.contracts._merge import Merge as Rule
from statepact.errors import SharedConflict
from statepact.ledger import session_key
from statepact.ledger._merging import Conflict, merged
from statepact.stores._open_log import OpenLog
from statepact.workflow._session import AsyncSession, SessionOpener

T = TypeVar("T")


class Board(Contract):
    plain: int | None = None
    other: int | None = None
    count: Annotated[int, Merge.add] = 0
    log: Annotated[list[int], Merge.append] = []
    seen: Annotated[list[int], Merge.union] = []
    most: Annotated[int | None, Merge.maximum] = None


NUMBERS = st.integers(-3, 3)
LISTS = st.lists(NUMBERS, max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "plain": st.none() | NUMBERS,
    "other": st.none() | NUMBERS,
    "count": NUMBERS,
    "log": LISTS,
    "seen": LISTS,
    "most": st.none() | NUMBERS,
}
MERGED: dict[str, Rule] = {"count": Merge.add, "log": Merge.append, "seen": Merge.union, "most": Merge.maximum}


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str, Any]:
    how = draw(st.sampled_from(("set", "merge", "delete")))
    name = draw(st.sampled_from(sorted(MERGED if how == "merge" else VALUES)))
    return how, name, None if how == "delete" else draw(VALUES[name])


def apply(model: dict[str, Any], change: tuple[str, str, Any]) -> None:
    """The same change on a dict: what the fold has to be equal to."""
    how, name, value = change
    if how == "delete":
        model.pop(name, None)
    elif how == "set":
        model[name] = value
    else:
        model[name] = MERGED[name].both(model.get(name, getattr(Board(), name)), value)


def state_of(board: Board | None) -> dict[str, Any]:
    return {} if board is None else board.model_dump(exclude_unset=True)


@given(st.lists(st.lists(changes(), min_size=1, max_size=4), max_size=12), st.data())
@settings(max_examples=60)
def test_the_fold_of_any_changes_is_what_a_dict_would_hold(
    steps: list[list[tuple[str, str, Any]]], data: st.DataObject
) -> None:
    """After every step, at every revision, read on or folded anew, in whatever order it is asked for."""

    async def run() -> None:
        store = MemoryStore()
        model: dict[str, Any] = {}
        states: dict[int, dict[str, Any]] = {}
        async with open_session("s-1", store=store) as session:
            for number, some in enumerate(steps):
                async with session.step("change", branch=f"b{number}") as step:
                    board = await step.shared(Board)
                    for change in some:
                        how, name, value = change
                        if how == "delete":
                            board.delete(name)
                        else:
                            getattr(board, how)(**{name: value})
                        apply(model, change)
                        assert board._now() == model
                    await step.commit()
                assert state_of(await session.shared(Board)) == model
                states[session._scope.log.log.revision] = dict(model)
            anew = await OpenLog.open(store, session_key(session.owner, "s-1"))
            for revision in data.draw(st.permutations(sorted(states))):
                assert dict((await anew.shared(Board, at=revision)).values) == states[revision]
                assert state_of(await session.shared(Board, at=revision)) == states[revision]

    asyncio.run(run())


@st.composite
def boards(draw: st.DrawFn) -> Board:
    return Board(**{name: draw(VALUES[name]) for name in draw(st.sets(st.sampled_from(sorted(VALUES))))})


@given(st.lists(boards(), min_size=1, max_size=5))
def test_what_branches_make_depends_on_their_order_in_the_log_alone(values: list[Board]) -> None:
    """Twice the same; who set nothing changes nothing; a conflict only where set values differ without a rule."""

    def outcome(of: list[Board]) -> tuple[Any, Any]:
        try:
            board = merged(Board, of, side="")
            return board, frozenset(board.model_fields_set)
        except Conflict as conflict:
            return None, frozenset(conflict.fields)

    board, fields = outcome(values)
    assert outcome(values) == (board, fields)
    assert outcome([*values, Board()]) == (board, fields)
    differing = {
        name
        for name in VALUES.keys() - MERGED.keys()
        if len({getattr(value, name) for value in values if name in value.model_fields_set}) > 1
    }
    assert (board is None) == bool(differing)
    if board is None:
        assert fields == differing
    else:
        assert fields == frozenset().union(*(value.model_fields_set for value in values))
        for name, one in MERGED.items():
            said = [getattr(value, name) for value in values if name in value.model_fields_set]
            for later in said[1:]:
                said[0] = one.both(said[0], later)
            assert not said or getattr(board, name) == said[0]


class Writers(RuleBasedStateMachine):
    """Three workers with sessions of their own, each with steps open while the others commit."""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = MemoryStore()
        self.stack = AsyncExitStack()
        self.sessions: list[AsyncSession] = [self.do(self.opened(n)) for n in range(3)]
        self.open: dict[int, tuple[Any, Any, list[tuple[str, str, Any]], set[str], dict[str, Any]]] = {}
        self.model: dict[str, Any] = {}
        self.steps = 0
        self.changed: list[set[str]] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def opened(self, number: int) -> AsyncSession:
        opener: SessionOpener = open_session("s-1", run=f"r-{number}", store=self.store)
        return await self.stack.enter_async_context(opener)

    @rule(worker=st.integers(0, 2))
    def start(self, worker: int) -> None:
        if worker in self.open:
            return
        self.steps += 1
        opener = self.sessions[worker].step("change", branch=f"b{self.steps}")
        step = self.do(opener.__aenter__())
        board = self.do(step.shared(Board))
        self.open[worker] = (step, board, [], set(), {"since": len(self.changed)})

    @rule(worker=st.integers(0, 2), change=changes())
    def change(self, worker: int, change: tuple[str, str, Any]) -> None:
        if worker not in self.open:
            return
        _, board, done, _, _ = self.open[worker]
        how, name, value = change
        if how == "delete":
            board.delete(name)
        else:
            getattr(board, how)(**{name: value})
        done.append(change)

    @rule(worker=st.integers(0, 2), name=st.sampled_from(sorted(VALUES)))
    def read(self, worker: int, name: str) -> None:
        if worker not in self.open:
            return
        _, board, done, read, _ = self.open[worker]
        board.read(name)
        last = [how for how, field, _ in done if field == name and how != "merge"]
        if not last:
            read.add(name)

    @rule(worker=st.integers(0, 2))
    def commit(self, worker: int) -> None:
        """It gets through exactly if nobody has changed what it read, and then all of it counts."""
        if worker not in self.open:
            return
        step, _, done, read, when = self.open.pop(worker)
        overtaken = any(read & names for names in self.changed[when["since"] :])
        if overtaken:
            with pytest.raises(SharedConflict) as caught:
                self.do(step.commit())
            assert set(caught.value.fields) <= read
            return
        self.do(step.commit())
        for change in done:
            apply(self.model, change)
        self.changed.append({name for _, name, _ in done})

    @invariant()
    def everybody_agrees(self) -> None:
        if hasattr(self, "sessions"):
            for session in self.sessions:
                assert state_of(self.do(session.shared(Board))) == self.model

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.do(self.stack.aclose())
            self.loop.close()


TestWriters = Writers.TestCase
TestWriters.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
