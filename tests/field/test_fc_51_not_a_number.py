"""FC-51: NaN and infinity. The rule: refused at write with the path, unless the field allows them; never null."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from statepact import Context, Contract, Store, Workflow, open_session
from statepact.errors import ContractViolation
from statepact.models import AnswersModel

Reopen = Callable[[], Awaitable[Store]]


class Score(Contract):
    score: float
    none: float | None = None


class AnyScore(Contract):
    score: Annotated[float, Field(allow_inf_nan=True)]
    none: float | None = None


class Open(Contract):
    data: dict[str, Any]


ODD = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("value", ODD, ids=str)
def test_fc_51_a_contract_refuses_what_is_not_finite(value: float) -> None:
    """By default: an error that names the field, not the value."""
    with pytest.raises(ValidationError) as caught:
        Score(score=value)

    assert caught.value.errors()[0]["loc"] == ("score",)


@pytest.mark.parametrize("value", ODD, ids=str)
async def test_fc_51_a_step_that_returns_one_fails_with_the_path(store: Store, value: float) -> None:
    """Also around the constructor: what was smuggled in is found at the commit, and nothing is stored."""
    workflow = Workflow("scores")

    @workflow.step
    async def score() -> Score:
        return Score.model_construct(score=value, none=None)

    run = await workflow.run("go", store=store)

    assert isinstance(run.problem, ContractViolation)
    assert run.problem.violations[0].path == "score"
    assert run.get(Score) is None


@pytest.mark.parametrize("value", [*ODD, -0.0, 5e-324], ids=str)
async def test_fc_51_a_field_that_allows_them_gets_them_back(stores: Reopen, value: float) -> None:
    """In a tagged form, in another process; not-a-number is not missing."""
    async with open_session("s-1", store=await stores(), run="r-1") as session, session.step("score") as step:
        await step.commit(AnyScore(score=value))

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        read = await session.get(AnyScore)

    assert read is not None
    assert repr(read.score) == repr(value)
    assert read.none is None


@pytest.mark.parametrize("value", ODD, ids=str)
async def test_fc_51_open_data_is_restored_and_never_null(stores: Reopen, value: float) -> None:
    """The same rule for values without a declared type."""
    async with open_session("s-1", store=await stores(), run="r-1") as session, session.step("open") as step:
        await step.commit(Open(data={"score": value, "none": None}))

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        read = await session.get(Open)

    assert read is not None
    assert repr(read.data) == repr({"none": None, "score": value})


async def test_fc_51_stored_bytes_are_strict_json(store: Store) -> None:
    """No bare NaN in any stored document: a strict reader of another language can read it."""
    from statepact.ledger import session_key

    async with open_session("s-1", store=store) as session, session.step("score") as step:
        await step.commit(AnyScore(score=math.nan))

    key = session_key(session.owner, "s-1")
    headers = await store.headers(key)
    payloads = await store.payloads(key, [header.revision for header in headers])
    for payload in payloads.values():
        assert b":NaN" not in payload
        assert b"Infinity}" not in payload


@pytest.mark.parametrize("text", ['{"score": NaN}', '{"score": Infinity}', '{"score": -Infinity}', '{"score": 1e999}'])
async def test_fc_51_a_model_that_writes_one_breaks_the_contract(store: Store, text: str) -> None:
    """It is asked once more, and then it is an error; it is never read as null or as a number."""
    workflow = Workflow("scores")

    @workflow.step
    async def score(ctx: Context) -> Score:
        return await ctx.ask(Score, "Score it.")

    run = await workflow.run("go", ask=AnswersModel([text, text]), store=store)
    assert isinstance(run.problem, ContractViolation)

    run = await workflow.run("go", ask=AnswersModel([text, {"score": 0.5}]), store=store)
    assert run[Score] == Score(score=0.5)
