"""A contract: versioned, frozen, closed, strict."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from statepact import Contract
from statepact.contracts import label
from statepact.errors import SetupError


class Order(Contract, version="1.3"):
    order_id: str
    count: int = 0


def test_a_contract_has_a_version_and_a_name() -> None:
    assert (Order.contract_version, Order.contract_name, label(Order)) == ("1.3", "Order", "Order 1.3")

    class Plain(Contract):
        x: int

    assert label(Plain) == "Plain 1.0"

    class Renamed(Contract, version="2.0", name="Order"):
        x: int

    assert label(Renamed) == "Order 2.0"


VERSIONS = ["1", "1.2.3", "v1.0", "01.0", "1.x", "", " 1.0", "1.0 ", "1.1234567", "-1.0", "一.二"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_is_major_dot_minor(version: str) -> None:
    with pytest.raises(SetupError, match="has version"):
        type("Bad", (Contract,), {}, version=version)


@pytest.mark.parametrize("name", ["a b", "a\nb", "a|b", "a,b", "x" * 101, "a/b", "a=b"])
def test_a_name_has_no_separators(name: str) -> None:
    """It stands in logs and reports, between separators."""
    with pytest.raises(SetupError, match="has name"):
        type("Bad", (Contract,), {}, name=name)


def test_a_name_may_be_of_any_script() -> None:
    assert label(type("工单", (Contract,), {}, name="工单-2.客服")) == "工单-2.客服 1.0"


def test_a_contract_is_frozen() -> None:
    order = Order(order_id="KX-1")
    with pytest.raises(ValidationError):
        order.order_id = "KX-2"  # type: ignore[misc]
    assert hash(order) == hash(Order(order_id="KX-1"))


@pytest.mark.parametrize(
    "values",
    [
        {"order_id": "KX-1", "extra": 1},
        {"order_id": 7},
        {"order_id": "KX-1", "count": "7"},
        {"order_id": "KX-1", "count": 7.0},
        {"order_id": "KX-1", "count": True},
        {"order_id": b"KX-1"},
        {"order_id": None},
        {},
    ],
    ids=repr,
)
def test_a_contract_takes_nothing_else(values: dict[str, Any]) -> None:
    """No undeclared field, no value of another type, nothing missing."""
    with pytest.raises(ValidationError):
        Order(**values)


def test_a_subclass_inherits_the_rules_and_has_its_own_version() -> None:
    class Base(Contract, version="3.1"):
        x: float

    class Child(Base):
        y: float = 0

    assert (label(Base), label(Child)) == ("Base 3.1", "Child 1.0")
    with pytest.raises(ValidationError):
        Child(x=1.0, z=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        Child(x=math.nan)


def test_the_text_of_a_validation_error_holds_no_value() -> None:
    """Pydantic's own exception, before we have it: it ends in logs too."""
    with pytest.raises(ValidationError) as caught:
        Order(order_id="KX-1", count="sk-test-aaaa")  # type: ignore[arg-type]

    assert "sk-test-aaaa" not in str(caught.value)


def test_a_recursive_contract_is_one() -> None:
    class Node(Contract):
        children: list[Node] = []

    assert Node(children=[Node(), Node(children=[Node()])]).children[1].children == [Node()]


def test_instances_can_be_copied_and_pickled() -> None:
    order = Order(order_id="KX-1", count=2)
    assert pickle.loads(pickle.dumps(order)) == order
    assert order.model_copy() == order
