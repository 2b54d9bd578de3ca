"""FC-79: a key of a dict in a sensitive field is a value, and so is what an error's chain holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from click.testing import CliRunner
from pydantic import Field, field_validator

from statepact import Context, Contract, Sensitive, Shared, Store, Workflow, watch
from statepact.cli._app import app
from statepact.contracts import Merge, validate, validate_json
from statepact.errors import ConflictingValues, ContractViolation, NotExact, StatepactError
from statepact.ledger import KeyRing
from statepact.ledger._codec import decode, encode, encode_clean
from statepact.ledger._partial import checked_fields, encode_fields
from statepact.loss._html import loss_page
from statepact.models import AnswersModel
from statepact.stores import SqliteStore

KEY, VALUE = "canary-key-7731", "canary-value-9914"


class Wallet(Contract):
    order: str
    limits: Sensitive[dict[str, Any]] = {}


class Counted(Contract):
    order: str
    limits: Sensitive[dict[str, int]] = {}


class Aliased(Contract):
    limits: Sensitive[dict[str, int]] = Field(validation_alias="the.limits")


class Basket(Contract):
    limits: Annotated[Sensitive[dict[str, str]], Merge.union] = {}


class Ruled(Contract):
    limits: Annotated[Sensitive[dict[str, str]], Merge(lambda one, other: one[KEY + VALUE])] = {}


class Done(Contract):
    text: str


def chain(error: BaseException | None, seen: tuple[BaseException, ...] = ()) -> Iterator[BaseException]:
    """An error with everything that led to it, also what a traceback leaves out."""
    if error is not None and error not in seen:
        yield error
        yield from chain(error.__cause__, (*seen, error))
        yield from chain(error.__context__, (*seen, error))


def assert_silent(*texts: str | bytes | BaseException | None) -> None:
    """No text has a canary, and no error of a chain says one."""
    for text in texts:
        if isinstance(text, BaseException):
            for one in chain(text):
                assert_silent(str(one), repr(one))
                assert_silent("".join(traceback.format_exception_only(one)))
                if isinstance(one, StatepactError):
                    assert_silent(json.dumps(one.as_dict(), default=repr))
        elif text is not None:
            data = text if isinstance(text, bytes) else text.encode()
            assert KEY.encode() not in data
            assert VALUE.encode() not in data


@pytest.fixture(params=["with keys", "without keys"])
def keys(request: pytest.FixtureRequest) -> KeyRing | None:
    """Errors and reports are the same with and without keys; what is stored is sealed only with them."""
    return KeyRing({"k": os.urandom(32)}) if request.param == "with keys" else None


# -- errors ------------------------------------------------------------------------------------------


def test_fc_79_a_value_that_cannot_be_written_is_found_by_its_field() -> None:
    """The path of `NotExact` ends at the sensitive field, of whole values and of changes."""
    bad = {KEY: object()}

    with pytest.raises(NotExact) as whole:
        encode(Wallet(order="o", limits=bad))
    with pytest.raises(NotExact) as part:
        encode_fields(Wallet, {"limits": bad})

    for caught in (whole, part):
        assert caught.value.path == "limits"
        assert_silent(caught.value)


def test_fc_79_a_text_that_was_cleaned_is_found_by_its_field() -> None:
    """Several keys of one sensitive field are one path; other fields have theirs in full."""
    value = Wallet(order="a\x00", limits={KEY: "b\x00", f"{KEY}2": "c\x00"})

    assert set(encode_clean(value).cleaned) == {"order", "limits"}
    assert encode_fields(Wallet, {"limits": {KEY: "b\x00"}}).cleaned == ("limits",)


@pytest.mark.parametrize("way", ["python", "json", "change", "stored"])
def test_fc_79_a_violation_has_no_value_in_its_whole_chain(way: str) -> None:
    """Pydantic's error quotes what it was given, so it is not even the context of ours."""
    bad = {"order": [VALUE], "limits": {KEY: VALUE}}
    ways = {
        "python": lambda: validate(Counted, bad),
        "json": lambda: validate_json(Counted, json.dumps(bad)),
        "change": lambda: checked_fields(Counted, bad, side="a change"),
        "stored": lambda: decode(Counted, json.dumps(bad).encode()),
    }

    with pytest.raises(ContractViolation) as caught:
        ways[way]()

    assert {one.path for one in caught.value.violations} == {"order", "limits"}
    assert_silent(caught.value)


def test_fc_79_an_alias_hides_what_its_field_hides() -> None:
    """Pydantic names the alias in its path, and that may hold a dot."""
    with pytest.raises(ContractViolation) as caught:
        validate(Aliased, {"the.limits": {KEY: VALUE}})

    assert [one.path for one in caught.value.violations] == ["the.limits"]
    assert_silent(caught.value)


def test_fc_79_a_validator_that_refuses_its_own_value_quotes_nothing() -> None:
    """The round trip of a value through its validators fails with a path and no chain."""

    class Once(Contract):
        limits: Sensitive[dict[str, str]]

        @field_validator("limits")
        @classmethod
        def doubled(cls, value: dict[str, str]) -> dict[str, str]:
            if len(value) > 1:
                raise ValueError(str(value))
            return {**value, "more": ""}

    with pytest.raises(NotExact) as caught:
        encode(Once(limits={KEY: VALUE}))

    assert caught.value.path == "limits"
    assert_silent(caught.value)


@pytest.mark.parametrize("declared", [True, False])
async def test_fc_79_a_step_that_builds_a_bad_value_quotes_nothing(store: Store, declared: bool) -> None:
    """Also where the value is of a contract that the step does not return; the place is kept."""
    workflow = Workflow("builds")

    if declared:

        @workflow.step
        async def build() -> Wallet:
            return Wallet(order=3, limits={KEY: VALUE})  # type: ignore[arg-type]
    else:

        @workflow.step
        async def build_other() -> Done:
            return Done(text=str(Aliased(**{"the.limits": {KEY: VALUE}})))  # type: ignore[arg-type]

    run = await workflow.run("go", store=store)

    assert isinstance(run.problem, ContractViolation)
    assert run.problem.violations[0].path == ("order" if declared else "the.limits")
    assert run.problem.__traceback__ is not None
    assert_silent(run.problem, repr(run), str(run.loss))


async def test_fc_79_a_merge_rule_that_fails_is_not_quoted(store: Store) -> None:
    """Its error says what it was given: for a sensitive field it is no cause."""
    run = await both(Ruled, "a", "b").run("go", store=store)

    assert run.problem is not None
    assert "KeyError" in str(run.problem)
    assert_silent(run.problem)


# -- what is stored and reported ---------------------------------------------------------------------


def both(contract: type[Any], one: str, other: str) -> Workflow:
    """Two steps write under one contract and a third reads what both make."""
    workflow = Workflow("both", results=[Done])

    @workflow.step
    async def first() -> contract:  # type: ignore[valid-type]
        return contract(limits={KEY: one})

    @workflow.step
    async def second() -> contract:  # type: ignore[valid-type]
        return contract(limits={KEY: other})

    async def last(given: Any) -> Done:
        return Done(text="")

    last.__annotations__["given"] = contract
    workflow.step(last)
    return workflow


def everything_in(tmp_path: Path) -> Iterator[bytes]:
    for path in tmp_path.glob("state.db*"):
        yield path.read_bytes()


async def test_fc_79_keys_in_conflict_are_not_named(tmp_path: Path, keys: KeyRing | None) -> None:
    """Neither by the error, nor by the attempt that is stored, nor by any form of the report."""
    store = SqliteStore(tmp_path / "state.db")
    run = await both(Basket, "a", "b").run("go", store=store, keys=keys, session="s-1")

    assert isinstance(run.problem, ConflictingValues)
    assert run.problem.fields == ("limits",)
    assert [one.fact for one in run.loss.conflicts] == ["Basket.limits"]
    assert_silent(run.problem, repr(run), str(run.loss), json.dumps(run.loss.as_dict()), loss_page(run.loss))
    if keys is not None:
        assert_silent(*everything_in(tmp_path))
    await store.aclose()


async def test_fc_79_a_change_of_a_shared_value_in_conflict_names_no_key(store: Store) -> None:
    """The same for a dict that a session shares."""
    workflow = Workflow("shares")

    @workflow.step
    async def change(basket: Shared[Basket]) -> Done:
        basket.merge(limits={KEY: "a"})
        basket.merge(limits={KEY: "b"})
        return Done(text="")

    run = await workflow.run("go", store=store)

    assert isinstance(run.problem, ConflictingValues)
    assert run.problem.fields == ("limits",)
    assert_silent(run.problem, str(run.loss))


async def test_fc_79_records_of_an_entry_name_no_key(tmp_path: Path, keys: KeyRing | None) -> None:
    """What was cleaned and what looks like no value stand in the clear beside sealed values: by field."""
    store = SqliteStore(tmp_path / "state.db")
    workflow = Workflow("notes", results=[Wallet])

    @workflow.step
    async def pay(basket: Shared[Basket]) -> Wallet:
        basket.set(limits={f"{KEY}-shared": "null", f"{KEY}-nul": "x\x00"})
        return Wallet(order="N/A", limits={KEY: "null", "deep": [{KEY: "N/A"}, VALUE], "nul": {KEY: "\x00"}})

    run = await workflow.run("go", store=store, keys=keys, session="s-1")

    assert run.ok, run.problem
    # Into what is sealed nobody looks for such texts.
    sealed = {"Wallet.limits", "Basket.limits"} if keys is None else set()
    assert set(run.loss.suspicious) == {"Wallet.order", *sealed}
    assert_silent(repr(run), str(run.loss), json.dumps(run.loss.as_dict()), loss_page(run.loss))
    async with contextlib.aclosing(watch("s-1", store=store, keys=keys)) as entries:
        async for entry in entries:
            assert_silent(json.dumps(dict(entry.extra), default=repr))
            if entry.extra.get("cleaned"):
                assert set(entry.extra["cleaned"]) == {"Wallet.limits", "Basket.limits"}
                break
    if keys is not None:
        assert_silent(*everything_in(tmp_path))
    await store.aclose()
    if keys is not None:
        assert_silent(*everything_in(tmp_path))
    for more in ([], ["--json"], ["--html", str(tmp_path / "page.html")]):
        command = ["show", "s-1", "--store", f"sqlite:///{tmp_path / 'state.db'}", *more]
        shown = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert shown.exit_code == 0, shown.output
        assert_silent(shown.output)
    assert_silent((tmp_path / "page.html").read_bytes())


async def test_fc_79_a_key_is_not_offered_as_the_nearest_identifier(store: Store) -> None:
    """An identifier that is one digit off a key, or a number, in a sensitive field of the request."""
    workflow = Workflow("asks", takes=Wallet)

    @workflow.step
    async def answer(ctx: Context) -> Done:
        return await ctx.ask(Done, "Answer.")

    request = Wallet(order="o", limits={"KX-4111222": 1, "number": 4111111111111111})
    model = AnswersModel([{"text": "About KX-4111223 and 4111111111111112."}])
    run = await workflow.run(request, ask=model, store=store)

    assert run.ok, run.problem
    assert run.loss.changed_ids
    for text in (str(run.loss), json.dumps(run.loss.as_dict()), loss_page(run.loss)):
        assert "KX-4111222" not in text
        assert "4111111111111111" not in text
