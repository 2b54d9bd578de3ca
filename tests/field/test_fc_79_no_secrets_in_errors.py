"""FC-79: validation errors and debug lines print secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from statepact import Context, Contract, Sensitive, Store, Workflow, open_session, open_store
from statepact.errors import ContractViolation, ModelError, SetupError, StatepactError
from statepact.models import AnswersModel

CARD, KEY, PASSWORD = "4111111111111111", "sk-test-aaaa", "hunter2-canary"
CANARIES = (CARD, KEY, PASSWORD)
PAYLOAD = {"order": "KX-1", "card": CARD, "api_key": KEY, "qty": "two"}


class Payment(Contract):
    order: str
    card: Sensitive[str]
    api_key: Sensitive[str]
    qty: int


class Done(Contract):
    text: str


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    for record in caplog.records:
        assert not any(canary in record.getMessage() + repr(record.__dict__) for canary in CANARIES)


def shown(error: BaseException) -> str:
    """Everything of our errors that may end in a log line or an HTTP answer."""
    texts = [str(error), repr(error)]
    if isinstance(error, StatepactError):
        texts += [json.dumps(error.as_dict(), default=repr), error.message, error.hint]
    return "\n".join(texts)


def assert_clean(*texts: str) -> None:
    for text in texts:
        for canary in CANARIES:
            assert canary not in text


def paying(output: Any) -> Workflow:
    workflow = Workflow("pay", results=[Payment])

    @workflow.step
    async def pay() -> Payment:
        if isinstance(output, Exception):
            raise output
        return output

    return workflow


async def test_fc_79_a_violation_names_the_field_and_the_type(store: Store) -> None:
    """qty is wrong: its path, what was expected, what type was found, and no value of any field."""
    run = await paying(PAYLOAD).run("pay", store=store)

    problem = run.problem
    assert isinstance(problem, ContractViolation)
    assert [(v.path, v.found) for v in problem.violations] == [("qty", "str")]
    assert "integer" in problem.violations[0].expected
    assert_clean(shown(problem), repr(run), str(run.loss), json.dumps(run.loss.as_dict()), repr(run.steps))
    assert "two" not in shown(problem)


@pytest.mark.parametrize(
    "payload",
    [
        {**PAYLOAD, "qty": KEY},
        {**PAYLOAD, "qty": {CARD: KEY}},
        {**PAYLOAD, "qty": [PASSWORD] * 50},
        {"order": CARD},
        {**PAYLOAD, "qty": 1, "card": {"number": CARD}},
        CARD,
        [PAYLOAD],
        {**PAYLOAD, "qty": 1, "order": PASSWORD.encode()},
    ],
    ids=["text", "dict", "list", "missing", "nested", "whole", "in a list", "bytes"],
)
async def test_fc_79_no_wrong_payload_shows_itself(store: Store, payload: Any) -> None:
    """Whatever was returned in place of the contract, the error tells types only."""
    run = await paying(payload).run("pay", store=store)

    assert isinstance(run.problem, ContractViolation)
    assert_clean(shown(run.problem), repr(run), str(run.loss))


async def test_fc_79_values_under_keys_and_tags_stay_out_too(store: Store) -> None:
    """A dictionary key of a sensitive field and the tag of a union are values like any other."""

    class Card(BaseModel):
        kind: Literal["card"]

    class Bank(BaseModel):
        kind: Literal["bank"]

    class Wallet(Contract):
        limits: Sensitive[dict[str, int]]
        way: Annotated[Card | Bank, Field(discriminator="kind")]

    workflow = Workflow("pay", results=[Wallet])

    @workflow.step
    async def pay() -> Wallet:
        return {"limits": {CARD: "many"}, "way": {"kind": KEY}}  # type: ignore[return-value]

    run = await workflow.run("pay", store=store)

    assert isinstance(run.problem, ContractViolation)
    assert {v.path.partition(".")[0] for v in run.problem.violations} == {"limits", "way"}
    assert_clean(shown(run.problem), str(run.loss))


async def test_fc_79_messages_of_users_validators_are_not_repeated(store: Store) -> None:
    """They often hold the value; the path is enough to find them."""

    class Checked(Contract):
        card: Sensitive[str]

        @field_validator("card")
        @classmethod
        def luhn(cls, value: str) -> str:
            raise ValueError(f"{value} is no card number")

    workflow = Workflow("pay", results=[Checked])

    @workflow.step
    async def returns_a_dict() -> Checked:
        return {"card": CARD}  # type: ignore[return-value]

    @workflow.step
    async def builds_it() -> Checked:
        return Checked(card=CARD)

    run = await workflow.run("pay", store=store)

    for outcome in run.steps.values():
        assert isinstance(outcome.problem, ContractViolation)
        assert outcome.problem.violations[0].path == "card"
        assert_clean(shown(outcome.problem))


async def test_fc_79_an_exception_of_a_step_is_named_by_type_and_place(store: Store) -> None:
    """Its text belongs to the user and is on `__cause__`, not in what is shown and stored."""
    error = ConnectionError(f"mysql://user:{PASSWORD}@db:6379 refused {KEY}")

    run = await paying(error).run("pay", store=store)

    assert run.problem is not None
    assert "ConnectionError" in str(run.problem)
    assert run.problem.__cause__ is error
    assert_clean(shown(run.problem), repr(run), str(run.loss), json.dumps(run.loss.as_dict()))


async def test_fc_79_a_failing_model_client_is_not_quoted(store: Store) -> None:
    """An SDK's error often holds the key or the URL."""
    workflow = Workflow("pay")

    @workflow.step
    async def answer(ctx: Context) -> Done:
        return await ctx.ask(Done, "Answer.")

    async def client(prompt: object) -> str:
        raise RuntimeError(f"401 for {KEY} at https://user:{PASSWORD}@api.example")

    run = await workflow.run("hi", ask=client, store=store)

    assert isinstance(run.problem, ModelError)
    assert_clean(shown(run.problem), repr(run))


async def test_fc_79_a_bad_answer_of_a_model_is_asked_again_without_being_logged(store: Store) -> None:
    """The second question names paths; the error after it too."""
    workflow = Workflow("pay")

    @workflow.step
    async def answer(ctx: Context) -> Payment:
        return await ctx.ask(Payment, "Pay.")

    model = AnswersModel([PAYLOAD, f"I cannot: {KEY}"])
    run = await workflow.run("hi", ask=model, store=store)

    again = model.prompts[1].messages[-1].content
    assert "qty" in again
    assert_clean(again, shown(run.problem), repr(run), repr(model))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [f"postgres://user:{PASSWORD}@db:port/x", f"redis://:{PASSWORD}@h/0?mode=other", f"sqlite://u:{PASSWORD}@h/x"],
)
def test_fc_79_a_store_url_that_cannot_be_opened_is_not_repeated(url: str) -> None:
    """The password in it would be in every start-up log."""
    with pytest.raises(SetupError) as caught:
        open_store(url)

    assert_clean(shown(caught.value))


async def test_fc_79_sensitive_facts_are_masked_in_every_report(store: Store) -> None:
    """Ledger, text, JSON, and what an undeclared reader is shown."""
    workflow = Workflow("pay")

    class Checked(Contract):
        ok: bool

    @workflow.step
    async def pay() -> Payment:
        return Payment(order="KX-1", card=CARD, api_key=KEY, qty=2)

    @workflow.step
    async def check(payment: Payment) -> Checked:
        return Checked(ok=payment.card == CARD)

    @workflow.step
    async def answer(ctx: Context, checked: Checked) -> Done:
        return await ctx.ask(Done, "Answer.")

    # One digit off: the nearest known identifier is a secret and must not be offered.
    model = AnswersModel([{"text": "Charged 4111111111111112."}])
    run = await workflow.run("pay", ask=model, store=store)

    assert run[Checked].ok
    assert_clean(str(run.loss), json.dumps(run.loss.as_dict()), repr(run), model.prompts[0].text)
    masked = {row.fact: row.value for row in run.loss.ledger.rows}
    assert masked["Payment.card"] == masked["Payment.api_key"] == "•••"
    assert masked["Payment.order"] == "KX-1"


async def test_fc_79_sensitive_facts_of_the_request_go_to_declared_readers_only(store: Store) -> None:
    """A request contract is shown to every step; its secrets are not."""
    workflow = Workflow("pay", takes=Payment)

    class Checked(Contract):
        ok: bool

    @workflow.step
    async def check(ctx: Context, payment: Payment) -> Checked:
        assert CARD in ctx.request
        return Checked(ok=payment.card == CARD)

    @workflow.step
    async def answer(ctx: Context, checked: Checked) -> Done:
        assert_clean(ctx.request)
        return await ctx.ask(Done, "Answer.")

    model = AnswersModel([{"text": "ok"}])
    run = await workflow.run(Payment(order="KX-1", card=CARD, api_key=KEY, qty=2), ask=model, store=store)

    assert run.ok, run.problem
    assert '"order":"KX-1"' in model.prompts[0].text
    assert_clean(model.prompts[0].text, str(run.loss), json.dumps(run.loss.as_dict()))


async def test_fc_79_a_script_that_fails_stores_no_value(store: Store) -> None:
    """An attempt is recorded by its code; the exception's text goes nowhere."""
    async with open_session("s-1", store=store) as session:
        with pytest.raises(ValueError, match=KEY):
            async with session.step("pay"):
                raise ValueError(f"bad key {KEY}")
        loss = await session.measure()

    from statepact.ledger import session_key

    key = session_key(session.owner, "s-1")
    headers = await store.headers(key)
    stored = [header.header for header in headers]
    stored += (await store.payloads(key, [header.revision for header in headers])).values()
    assert not any(KEY.encode() in data for data in stored)
    assert_clean(str(loss))
