"""Validation that reports every problem at once, and no value."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from statepact import Contract, Sensitive
from statepact.contracts import check_version, is_contract, validate, validate_json
from statepact.contracts._check import violation
from statepact.errors import ContractViolation, VersionMismatch


class Item(Contract):
    price: int


class Order(Contract):
    order_id: str
    status: Literal["paid", "shipped", "signed"]
    items: list[Item] = []
    by_name: dict[str, Item] = {}


def broken(value: Any, contract: type[Contract] = Order) -> ContractViolation:
    with pytest.raises(ContractViolation) as caught:
        validate(contract, value, side="step 'look_up' returned an output that")
    return caught.value


def test_every_problem_is_reported_at_once() -> None:
    error = broken({"status": "lost", "items": [{"price": 1}, {"price": "two"}, {}], "by_name": {"a": 7}, "color": 1})

    assert [(v.path, v.kind, v.found) for v in error.violations] == [
        ("order_id", "missing", ""),
        ("status", "literal_error", "str"),
        ("items.1.price", "int_type", "str"),
        ("items.2.price", "missing", ""),
        ("by_name.a", "model_type", "int"),
        ("color", "extra_forbidden", ""),
    ]
    assert error.missing_fields == ("order_id", "items.2.price")


def test_the_message_is_what_style_md_shows() -> None:
    """Who broke which contract, each problem on a line, what to do, the code."""
    error = broken({})

    assert str(error) == (
        "step 'look_up' returned an output that breaks contract Order 1.0\n"
        "  order_id: Field required\n"
        "  status: Field required\n"
        "  → supply these fields, or give them a default in the contract  [ERR_STATE_CONTRACT_VIOLATION]"
    )


def test_the_error_as_a_dictionary_has_everything_in_parts() -> None:
    plain = broken({"order_id": 1, "status": "paid"}).as_dict()

    assert plain["code"] == "ERR_STATE_CONTRACT_VIOLATION"
    assert plain["contract"] == "Order 1.0"
    assert plain["missing_fields"] == []
    assert plain["violations"] == [
        {"path": "order_id", "expected": "Input should be a valid string", "found": "int", "kind": "string_type"}
    ]


def test_a_likely_typo_is_named_beside_the_missing_field() -> None:
    error = broken({"ordr_id": "KX-1", "status": "paid"})

    assert [str(v) for v in error.violations] == [
        "order_id: Field required (is 'ordr_id' a typo of it?)",
        "ordr_id: this field is not in the contract",
    ]


@pytest.mark.parametrize("key", ["x" * 5_000, "order_id" * 100])
def test_a_key_as_long_as_the_writer_liked_is_cut(key: str) -> None:
    error = broken({"order_id": "KX-1", "status": "paid", key: 1})

    assert len(error.violations[0].path) == 61
    assert len(str(error)) < 500


def test_messages_of_a_user_s_rules_are_not_shown() -> None:
    """They may hold the value; field and model rules, ValueError and AssertionError."""

    class Strict(Contract):
        a: str
        b: str

        @field_validator("a")
        @classmethod
        def no_a(cls, value: str) -> str:
            raise ValueError(f"{value} is not allowed")

        @field_validator("b")
        @classmethod
        def no_b(cls, value: str) -> str:
            assert value == "", value
            return value

    class Whole(Contract):
        a: str

        @model_validator(mode="after")
        def never(self) -> Whole:
            raise ValueError(self.a)

    for error in (broken({"a": "CANARY", "b": "CANARY"}, Strict), broken({"a": "CANARY"}, Whole)):
        assert "CANARY" not in str(error)
        assert {v.expected for v in error.violations} == {"a rule of the contract is not met"}


def test_the_tag_of_a_union_is_a_value() -> None:
    class Card(BaseModel):
        kind: Literal["card"]

    class Bank(BaseModel):
        kind: Literal["bank"]

    class Wallet(Contract):
        way: Annotated[Card | Bank, Field(discriminator="kind")]

    assert "CANARY" not in str(broken({"way": {"kind": "CANARY"}}, Wallet))


def test_the_path_ends_at_a_sensitive_field() -> None:
    """Below it, keys of a dictionary are values."""

    class Cards(Contract):
        limits: Sensitive[dict[str, int]]
        counts: dict[str, int] = {}

    error = broken({"limits": {"4111": "x", "4222": "y"}, "counts": {"a": "x"}}, Cards)

    assert [v.path for v in error.violations] == ["limits", "counts.a"]


def test_an_instance_is_checked_again() -> None:
    """Frozen does not reach inside, and `model_construct` checks nothing."""
    order = Order(order_id="KX-1", status="paid", items=[Item(price=1)])
    order.items.append("two")  # type: ignore[arg-type]

    assert broken(order).violations[0].path == "items.1"
    assert broken(Order.model_construct(order_id=1, status="paid")).violations[0].path == "order_id"
    assert validate(Order, Order(order_id="KX-1", status="paid")) == Order(order_id="KX-1", status="paid")


@pytest.mark.parametrize("value", [None, 7, "text", [], b"{}", object()], ids=lambda value: type(value).__name__)
def test_what_is_no_mapping_is_a_violation_of_the_whole_value(value: Any) -> None:
    error = broken(value)

    assert error.violations[0].path == ""
    assert "(whole value)" in str(error)


def test_json_is_strict_unless_a_model_wrote_it() -> None:
    text = '{"order_id": "KX-1", "status": "paid", "items": [{"price": "7"}]}'

    with pytest.raises(ContractViolation):
        validate_json(Order, text)
    assert validate_json(Order, text, lax=True).items == [Item(price=7)]


def test_the_same_error_can_say_who_it_was() -> None:
    error = broken({}).by("the model's answer")

    assert str(error).startswith("the model's answer breaks contract Order 1.0\n")
    assert error.missing_fields == ("order_id", "status")


def test_an_error_of_a_class_that_is_not_known_is_shown_by_its_label() -> None:
    class Plain(BaseModel):
        x: int

    with pytest.raises(ValidationError) as caught:
        Plain(x="CANARY")  # type: ignore[arg-type]

    error = violation("Plain", caught.value, side="step 'a' built a value that")
    assert "breaks contract Plain" in str(error)
    assert "CANARY" not in str(error)


# -- versions --------------------------------------------------------------------------------------


class Versioned(Contract, version="2.3"):
    x: int = 0


@pytest.mark.parametrize("written", ["2.3", "2.4", "2.10", "2.999999"])
def test_the_same_major_and_the_same_or_a_newer_minor_is_readable(written: str) -> None:
    check_version(Versioned, written)


@pytest.mark.parametrize("written", ["2.2", "2.0", "1.3", "3.0", "3.3"])
def test_everything_else_is_a_mismatch_with_both_versions(written: str) -> None:
    with pytest.raises(VersionMismatch, match=rf"Versioned {written} is stored, but the code reads 2\.3"):
        check_version(Versioned, written)


def test_contract_itself_is_none() -> None:
    assert is_contract(Order)
    for other in (Contract, BaseModel, Order(order_id="KX-1", status="paid"), str, None, list[Order]):
        assert not is_contract(other)
