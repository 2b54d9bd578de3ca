"""FC-49: types flattened by the checkpoint."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from statepact import Contract, Store, Workflow, open_session
from statepact.errors import NotExact, SetupError, StatepactError

Reopen = Callable[[], Awaitable[Store]]


class Status(StrEnum):
    READY = "query_ready"
    DONE = "done"


class Level(IntEnum):
    LOW = 1


class Inner(Contract):
    status: Status


class Middle(Contract):
    inner: Inner


class Everything(Contract):
    middle: Middle
    recent: deque[int]
    by_key: defaultdict[str, list[int]]
    prices: set[Decimal]
    pair: tuple[int, str]
    ratio: Fraction
    level: Level
    at: dt.datetime
    day: dt.date
    wait: dt.timedelta
    raw: bytes
    id: UUID
    tags: frozenset[str]


VALUE = Everything(
    middle=Middle(inner=Inner(status=Status.READY)),
    recent=deque([1, 2, 3], maxlen=3),
    by_key=defaultdict(list, {"a": [1]}),
    prices={Decimal("19.90"), Decimal("19.9000")},
    pair=(1, "x"),
    ratio=Fraction(1, 3),
    level=Level.LOW,
    at=dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    day=dt.date(2026, 12, 4),
    wait=dt.timedelta(microseconds=1),
    raw=b"\x00\xff",
    id=UUID(int=7),
    tags=frozenset({"贵", "b"}),
)


async def test_fc_49_every_type_comes_back_as_itself(stores: Reopen) -> None:
    """Equal in value and type, two models deep, in another process."""
    async with open_session("s-1", store=await stores(), run="r-1") as session, session.step("all") as step:
        await step.commit(VALUE)

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        read = await session.get(Everything)

    assert read == VALUE
    assert read is not None
    assert read.middle.inner.status is Status.READY
    assert read.level is Level.LOW
    assert {str(price) for price in read.prices} == {str(price) for price in VALUE.prices}
    assert type(read.pair) is tuple
    assert read.at.tzinfo == ZoneInfo("Europe/Berlin")
    assert read.at.fold == 1


async def test_fc_49_bounds_and_factories_work_after_reading(stores: Reopen) -> None:
    """A bounded deque drops its oldest, a defaultdict makes its missing key."""
    async with open_session("s-1", store=await stores(), run="r-1") as session, session.step("all") as step:
        await step.commit(VALUE)

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        read = await session.get(Everything)

    assert read is not None
    read.recent.append(4)
    assert list(read.recent) == [2, 3, 4]
    read.by_key["new"].append(1)
    assert read.by_key["new"] == [1]


async def test_fc_49_the_next_step_gets_the_same_types(store: Store) -> None:
    """As an argument of a workflow step, not only from a session."""
    workflow = Workflow("types")

    class Seen(Contract):
        same: bool

    @workflow.step
    async def make() -> Everything:
        return VALUE

    @workflow.step
    async def look(value: Everything) -> Seen:
        return Seen(same=value == VALUE and type(value.recent) is deque and value.recent.maxlen == 3)

    run = await workflow.run("go", store=store)

    assert run[Seen].same


async def test_fc_49_no_reader_can_change_what_another_sees(store: Store) -> None:
    """A list inside a frozen contract can be changed; what is committed cannot."""

    class Done(Contract):
        n: int

    class Done2(Contract):
        n: int

    workflow = Workflow("types", results=[Everything, Done2])
    seen: list[list[int]] = []

    @workflow.step
    async def make() -> Everything:
        return VALUE

    @workflow.step
    async def first(value: Everything) -> Done:
        value.recent.append(99)
        value.by_key["a"].clear()
        return Done(n=1)

    @workflow.step
    async def second(value: Everything, done: Done) -> Done2:
        seen.append(list(value.recent))
        seen.append(value.by_key["a"])
        return Done2(n=1)

    run = await workflow.run("go", store=store)

    assert run.ok, run.problem
    assert seen == [[1, 2, 3], [1]]
    assert run[Everything] == VALUE


class Money:
    """A class that no store can know."""


class Loose(Contract):
    model_config = {"arbitrary_types_allowed": True}

    nested: dict[str, list[Any]]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Loose(nested={"a": [1, Money()]}), "nested.a.1"),
        (Loose(nested={"a": [lambda: 1]}), "nested.a.0"),
    ],
    ids=["class", "function"],
)
async def test_fc_49_what_has_no_exact_form_is_refused_at_write_with_its_path(
    stores: Reopen, value: Contract, path: str
) -> None:
    """Loud and early: nothing is committed, the path is named."""
    async with open_session("s-1", store=await stores(), run="r-1") as session:
        with pytest.raises(NotExact) as caught:
            async with session.step("loose") as step:
                await step.commit(value)
        assert caught.value.path.endswith(path)

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        assert await session.get(Loose) is None


async def test_fc_49_a_subclass_in_a_field_is_not_cut_down_to_its_base(store: Store) -> None:
    """Fields of a subclass come back, or the write is refused; they are never dropped in silence."""

    class Special(Inner):
        extra: str

    # A contract refuses it when it is made; one that was smuggled past that is refused at write.
    with pytest.raises(ValidationError, match=r"inner\.extra"):
        Middle(inner=Special(status=Status.DONE, extra="keep me"))
    smuggled = Middle.model_construct(inner=Special(status=Status.DONE, extra="keep me"))
    async with open_session("s-1", store=store, run="r-1") as session:
        with pytest.raises(StatepactError, match="inner"):
            async with session.step("sub") as step:
                await step.commit(smuggled)

        assert await session.get(Middle) is None


async def test_fc_49_a_field_type_without_an_exact_form_is_an_error_before_it_loses_anything(store: Store) -> None:
    """A class pydantic would accept as it is but nobody could read again."""

    class Holder(Contract):
        model_config = {"arbitrary_types_allowed": True}

        money: Money

    async with open_session("s-1", store=store) as session:
        with pytest.raises((NotExact, SetupError), match="money"):
            async with session.step("hold") as step:
                await step.commit(Holder(money=Money()))
