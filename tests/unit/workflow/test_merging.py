"""Readers of one value that several steps wrote: the rules of fields, and what nobody has set."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest

from statepact import Contract, Merge, Store, Workflow, open_session
from statepact.errors import ConflictingValues, ContractViolation, SetupError, StepFailed


class Note(Contract):
    title: str = "none"
    pages: int = 0


class Found(Contract):
    items: Annotated[list[Any], Merge.union] = []
    by_key: Annotated[dict[str, Any], Merge.union] = {}
    log: Annotated[list[str], Merge.append] = []
    most: Annotated[int, Merge.maximum] = 0
    least: Annotated[Decimal | None, Merge.minimum] = None
    newest: Annotated[str | None, Merge.last] = None
    total: Annotated[int, Merge.add] = 0
    kinds: Annotated[set[str], Merge.union] = set()
    note: Note = Note()
    plain: str = ""


class Read(Contract):
    found: Found
    given: list[str]


async def merged(store: Store, *values: Found) -> Found:
    async with open_session("s-1", store=store) as session:
        for number, value in enumerate(values):
            async with session.step("write", branch=f"b{number}") as step:
                await step.commit(value)
        async with session.step("read", reads=[Found]) as step:
            await step.commit()
            return step[Found]


async def test_each_rule_makes_one_value_in_the_order_of_the_log(store: Store) -> None:
    """Union keeps what came first, also of values without a hash, and 1 is not True."""
    found = await merged(
        store,
        Found(
            items=[{"a": 1}, 1], by_key={"a": 1}, log=["x"], most=3, least=Decimal("2.50"), newest="old", total=2,
            kinds={"a"}, note=Note(title="t"),
        ),
        Found(
            items=[True, {"a": 1}, 1], by_key={"b": [2]}, log=["x", "y"], most=2, least=Decimal("2.5"), newest=None,
            total=2, kinds={"b"}, note=Note(pages=3), plain="p",
        ),
    )  # fmt: skip

    assert found == Found(
        items=[{"a": 1}, 1, True],
        by_key={"a": 1, "b": [2]},
        log=["x", "x", "y"],
        most=3,
        least=Decimal("2.50"),
        newest=None,
        total=4,
        kinds={"a", "b"},
        note=Note(title="t", pages=3),
        plain="p",
    )
    assert str(found.least) == "2.50"
    assert found.items[2] is True


async def test_what_nobody_has_set_stays_nobodys_word(store: Store) -> None:
    """A default does not conflict with a value, and after merging it is still not set."""
    found = await merged(store, Found(plain="p"), Found(total=2), Found(plain="p"))

    assert (found.plain, found.total) == ("p", 2)
    assert found.model_fields_set == {"plain", "total"}


async def test_an_explicit_null_is_a_word(store: Store) -> None:
    """Null from one writer and a value from another differ, although the default is null, too."""

    class Card(Contract):
        phone: str | None = None

    async with open_session("s-1", store=store) as session:
        for number, card in enumerate((Card(phone="555"), Card(phone=None), Card())):
            async with session.step("write", branch=f"b{number}") as step:
                await step.commit(card)
        with pytest.raises(ConflictingValues) as caught:
            async with session.step("read", reads=[Card]):
                pytest.fail("must not run")

        assert caught.value.writers == ("write/b0", "write/b1")
        assert [conflict.fact for conflict in (await session.measure()).conflicts] == ["Card.phone"]


async def test_a_value_read_back_has_the_fields_that_were_set(store: Store) -> None:
    """Of the contract itself and of contracts in it; also in another process, and for a large value."""
    value = Found(note=Note(pages=2), plain="x" * 5_000)
    async with open_session("s-1", run="r-1", store=store) as session, session.step("write") as step:
        await step.commit(value)

    async with open_session("s-1", run="r-1", store=store) as session:
        again = await session.get(Found)

    assert again == value
    assert again is not None
    assert again.model_fields_set == {"note", "plain"}
    assert again.note.model_fields_set == {"pages"}


async def test_keys_with_different_values_are_a_conflict_that_names_the_key(store: Store) -> None:
    """Union of dicts merges keys; it never chooses between two values."""
    with pytest.raises(ConflictingValues) as caught:
        await merged(store, Found(by_key={"a": 1, "b": 1}), Found(by_key={"a": 2, "b": 1}))

    assert caught.value.fields == ("by_key.a",)


async def test_a_rule_of_ones_own_that_fails_names_field_and_writers_value_free(store: Store) -> None:
    """It is a problem of the reading step, with the error as its cause."""

    def refuse(earlier: str, later: str) -> str:
        raise ValueError(earlier + later)

    class Opinion(Contract):
        text: Annotated[str, Merge(refuse)]

    workflow = Workflow("w")

    @workflow.step
    async def one() -> Opinion:
        return Opinion(text="secret")

    @workflow.step
    async def two() -> Opinion:
        return Opinion(text="secret")

    @workflow.step
    async def read(opinion: Opinion) -> Note:
        pytest.fail("must not run")

    run = await workflow.run("?", store=store)

    assert isinstance(run.problem, StepFailed)
    assert "'text'" in str(run.problem)
    assert "secret" not in str(run.problem)
    assert isinstance(run.problem.__cause__, ValueError)


async def test_a_rule_that_makes_what_the_contract_does_not_take_breaks_it(store: Store) -> None:
    """What rules make is checked like every output."""

    class Score(Contract):
        value: Annotated[int, Merge(lambda earlier, later: f"{earlier}{later}")]

    async with open_session("s-1", store=store) as session:
        for number in range(2):
            async with session.step("write", branch=f"b{number}") as step:
                await step.commit(Score(value=number))
        with pytest.raises(ContractViolation, match="value: Input should be a valid integer"):
            async with session.step("read", reads=[Score]):
                pytest.fail("must not run")


async def test_a_rule_that_changes_its_argument_changes_nobody_elses_value(store: Store) -> None:
    """A function of the user gets copies."""

    def push(earlier: list[int], later: list[int]) -> list[int]:
        earlier.extend(later)
        return earlier

    class Numbers(Contract):
        all: Annotated[list[int], Merge(push)]

    async with open_session("s-1", store=store) as session:
        for number in range(3):
            async with session.step("write", branch=f"b{number}") as step:
                await step.commit(Numbers(all=[number]))
        for name in ("read", "read again"):
            async with session.step(name, reads=[Numbers]) as step:
                step[Numbers].all.append(9)
                assert step[Numbers].all == [0, 1, 2]
                await step.commit()
        assert [numbers.all for numbers in await session.all(Numbers)] == [[0], [1], [2]]


def test_a_field_has_one_rule_at_most() -> None:
    """Two rules would make the result depend on which one somebody looked at."""

    class Twice(Contract):
        n: Annotated[int, Merge.add, Merge.maximum]

    workflow = Workflow("w")

    @workflow.step
    async def write() -> Twice:
        return Twice(n=1)

    with pytest.raises(SetupError, match="2 merge rules"):
        workflow.check()


async def test_texts_that_may_mean_no_value_are_reported_and_kept(store: Store) -> None:
    """What says null or N/A is kept and named; an empty text of an output is meant, a default nobody's word."""
    workflow = Workflow("w")

    @workflow.step
    async def write() -> Found:
        return Found(log=["null", "fine", ""], newest="N/A")

    run = await workflow.run("?", store=store)

    assert run[Found].log == ["null", "fine", ""]
    assert set(run.loss.suspicious) == {"Found.newest", "Found.log.0"}
    assert "suspicious" in str(run.loss)
