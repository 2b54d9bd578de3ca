"""The strict form of real contracts' schemas."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from statepact.models._schema import strict_form


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Refund(Closed):
    kind: Literal["refund"] = "refund"
    amount: Decimal


class Exchange(Closed):
    kind: Literal["exchange"] = "exchange"
    size: int = Field(ge=1, le=9)


class Answer(Closed):
    action: Annotated[Refund | Exchange, Field(discriminator="kind", description="What is done.")]
    first: Refund = Field(description="The first.")
    note: str | None = None
    codes: list[str] = Field(max_length=3)


class Tree(Closed):
    label: str
    parts: list[Tree]


def test_choices_references_and_defaults_have_a_strict_form() -> None:
    """Unions become `anyOf`, described references a choice of one, defaults are left out."""
    form = strict_form(Answer.model_json_schema())

    assert form is not None
    assert form["required"] == ["action", "first", "note", "codes"]
    assert form["properties"]["action"]["anyOf"] == [{"$ref": "#/$defs/Refund"}, {"$ref": "#/$defs/Exchange"}]
    assert form["properties"]["first"]["anyOf"] == [{"$ref": "#/$defs/Refund"}]
    assert form["properties"]["first"]["description"] == "The first."
    assert form["properties"]["codes"]["maxItems"] == 3
    assert form["$defs"]["Exchange"]["required"] == ["kind", "size"]
    assert "default" not in str(form)
    assert "oneOf" not in str(form)


def test_fields_with_a_default_can_stay_optional() -> None:
    """For an API that does not ask for all fields."""
    form = strict_form(Answer.model_json_schema(), every_field=False)
    assert form is not None
    assert form["required"] == ["action", "first", "codes"]


def test_a_pattern_with_look_around_is_told_in_words() -> None:
    """Decoders refuse it; a plain pattern stays."""
    fields = {name: {"type": "string", "pattern": pattern} for name, pattern in (("a", "^(?!x)."), ("b", "^[A-Z]+$"))}
    form = strict_form({"type": "object", "properties": fields})
    assert form is not None
    assert form["properties"]["a"] == {"type": "string", "description": "(pattern: ^(?!x).)"}
    assert form["properties"]["b"] == fields["b"]


def test_a_model_that_contains_itself_has_an_object_at_the_root() -> None:
    """Pydantic puts a reference there, which strict decoding refuses."""
    form = strict_form(Tree.model_json_schema())
    assert form is not None
    assert form["type"] == "object"
    assert form["properties"]["parts"]["items"] == {"$ref": "#/$defs/Tree"}


@pytest.mark.parametrize("kind", [dict[str, int], Any, tuple[int, str], object])
def test_free_keys_any_values_and_tuples_have_none(kind: Any) -> None:
    """They are sent as they are, and not called strict."""

    class Free(Closed):
        field: kind

    assert strict_form(Free.model_json_schema()) is None


def test_the_schema_that_was_given_is_not_changed() -> None:
    """Schemas of contracts are made once and shared."""
    schema = Answer.model_json_schema()
    strict_form(schema)
    assert schema == Answer.model_json_schema()
