"""The rule that stands in for a model, and the model that gives the answers it was given."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from statepact.errors import ModelError
from statepact.models import AnswersModel, Message, Model, Prompt, ScriptedModel


class Complaint(BaseModel):
    product: str
    demand: Literal["refund", "exchange", "换货"]
    amount: int
    broken: bool
    parts: list[str]
    seen_at: str | None
    note: str = "none"


async def fill(text: str, shape: type[BaseModel] = Complaint, *, before: str = "") -> dict[str, Any]:
    messages = [Message(role="system", content=before)] if before else []
    prompt = Prompt(messages=(*messages, Message(role="user", content=text)), schema=shape.model_json_schema())
    found: dict[str, Any] = json.loads((await ScriptedModel().reply(prompt)).text)
    return found


async def test_what_stands_in_the_prompt_is_repeated() -> None:
    """Each field of the schema gets the value that stands behind its name."""
    line = 'Complaint: {"product":"咖啡机 \\"A\\"","demand": "exchange","amount" : 3,"broken":true,"parts":["blade"]}'
    assert await fill(line) == {
        "product": '咖啡机 "A"',
        "demand": "exchange",
        "amount": 3,
        "broken": True,
        "parts": ["blade"],
        "seen_at": None,
    }


async def test_what_does_not_stand_there_stays_empty() -> None:
    """Nothing is guessed: a missing choice is not one of the allowed values, so its contract breaks."""
    assert await fill("Hello.") == {
        "product": "",
        "demand": "",
        "amount": 0,
        "broken": False,
        "parts": [],
        "seen_at": None,
    }


async def test_the_last_value_counts() -> None:
    """A later line corrects an earlier one, whichever message it stands in."""
    assert (await fill('{"product":"grinder"}', before='{"product":"mixer"}'))["product"] == "grinder"


async def test_a_value_of_another_type_is_not_taken() -> None:
    """Such as a piece of a schema, a cut line, or NaN, under the same name."""
    text = 'x {"amount": 7} y "amount": {"type": "integer"} z "amount": NaN "amount": true "amount": "8" "amount": [1'
    assert (await fill(text))["amount"] == 7


async def test_json_inside_a_string_is_not_a_field() -> None:
    """Its quotes are escaped; it is data of somebody's text."""
    assert (await fill('note: "{\\"product\\": \\"mixer\\"}"'))["product"] == ""


async def test_deep_nesting_is_passed_over() -> None:
    """A text that would exhaust the decoder is not a value."""
    assert (await fill('{"parts": ["blade"]} "parts": ' + "[" * 200_000))["parts"] == ["blade"]


@pytest.mark.parametrize(
    ("text", "demand"),
    [
        ("I want a Refund!", "refund"),
        ("我要换货。", "换货"),
        ("refunds are slow", ""),
        ("refund or exchange?", ""),
    ],
)
async def test_a_choice_is_read_from_the_request_if_it_is_the_only_one(text: str, demand: str) -> None:
    """As a whole word, in the last user message; two allowed values leave it open."""
    assert (await fill(text))["demand"] == demand


async def test_objects_and_single_choices_are_filled_field_by_field() -> None:
    """A nested contract is one JSON value or its own fields; one allowed value leaves no choice."""

    class Address(BaseModel):
        city: str
        zip: str = Field(default="", max_length=9)

    class Order(BaseModel):
        kind: Literal["order"]
        address: Address
        items: list[Address]

    assert await fill('{"city": "苏州"}', Order) == {"kind": "order", "address": {"city": "苏州"}, "items": []}
    whole = '{"address": {"city": "Bonn", "zip": "53111"}, "items": [{"city": "Ulm"}]}'
    assert (await fill(whole, Order))["address"] == {"city": "Bonn", "zip": "53111"}


async def test_a_shape_that_contains_itself_ends() -> None:
    """An optional branch is left out; it does not recurse for ever."""

    class Tree(BaseModel):
        label: str
        left: Tree | None = None

    Tree.model_rebuild(_types_namespace={"Tree": Tree})
    assert await fill('{"label": "x"}', Tree) == {"label": "x"}


async def test_without_a_schema_it_repeats_the_request() -> None:
    """The last user message, with estimated usage; the same prompt has the same answer."""
    prompt = Prompt(messages=(Message(role="user", content="a"), Message(role="user", content="你好")))
    model = ScriptedModel()
    reply = await model.reply(prompt)
    assert reply == await model.reply(prompt)
    assert (reply.text, reply.sent, reply.stop_reason) == ("你好", "a\n你好", "stop")
    assert reply.usage.estimated
    assert isinstance(model, Model)


async def test_answers_are_given_in_order_and_prompts_are_kept() -> None:
    """Text, object, stop reason, error; then it says that a call came too many."""
    model = AnswersModel(["hi", {"id": "单-1"}, ("{", "length"), ({"a": 1}, "refusal"), ValueError("theirs")])
    prompt = Prompt(messages=(Message(role="user", content="x"),))

    replies = [await model.reply(prompt) for _ in range(4)]
    assert [(reply.text, reply.stop_reason) for reply in replies] == [
        ("hi", "stop"),
        ('{"id": "单-1"}', "stop"),
        ("{", "length"),
        ('{"a": 1}', "refusal"),
    ]
    with pytest.raises(ValueError, match="theirs"):
        await model.reply(prompt)
    with pytest.raises(ModelError, match="call 6 of answers has no answer: 5 were given"):
        await model.reply(prompt)
    assert model.prompts == [prompt] * 6
