"""The facts of a contract, with what the marks say about them."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel

from statepact import Answers, Contract, Limit, Pinned, Sensitive
from statepact.contracts import fact_fields, linked_fields, pinned_fields
from statepact.errors import SetupError


class Order(Contract):
    order_id: str


def marks(contract: type[Contract]) -> dict[str, str]:
    """Return each field with the first letters of its marks."""
    return {
        fact.name: "p" * fact.pinned + "l" * fact.limit + "s" * fact.sensitive + "a" * len(fact.links)
        for fact in fact_fields(contract)
    }


def test_facts_are_in_the_order_of_the_fields() -> None:
    class Wish(Contract):
        b: str
        a: Pinned[str]
        c: Limit[str]
        d: Sensitive[str]
        e: Annotated[str, Answers(Order, "order_id")]

    assert list(marks(Wish).items()) == [("b", ""), ("a", "p"), ("c", "pl"), ("d", "s"), ("e", "a")]
    assert [fact.label for fact in pinned_fields(Wish)] == ["Wish.a", "Wish.c"]
    assert [fact.label for fact in linked_fields(Wish)] == ["Wish.e"]


def test_sensitive_wins_over_pinned_and_limit_in_either_order() -> None:
    class Cards(Contract):
        a: Sensitive[Pinned[str]]
        b: Pinned[Sensitive[str]]
        c: Limit[Sensitive[str]]
        d: list[Pinned[str]] | Sensitive[str]

    assert set(marks(Cards).values()) == {"s"}


def test_a_mark_anywhere_inside_counts_for_the_field() -> None:
    """Never silently unpinned: union, optional, list, dict, tuple, nested models, in every mix."""

    class Inner(BaseModel):
        x: Pinned[str]

    class Deep(BaseModel):
        inner: dict[str, list[Inner | None]]

    class Wish(Contract):
        a: Pinned[str] | None
        b: list[Pinned[str]]
        c: dict[str, list[Pinned[int]]]
        d: tuple[int, Pinned[str]]
        e: Inner
        f: list[Deep]
        g: Annotated[Pinned[str], "more"]
        h: str | list[Limit[str]] | None = None

    assert marks(Wish) == {**dict.fromkeys("abcdefg", "p"), "h": "pl"}


def test_a_nested_secret_makes_its_field_sensitive() -> None:
    class Card(BaseModel):
        number: Sensitive[str]

    class Payment(Contract):
        cards: list[Card]
        wish: Pinned[str]

    assert marks(Payment) == {"cards": "s", "wish": "p"}


def test_a_recursive_contract_ends() -> None:
    class Node(Contract):
        name: Pinned[str]
        children: list[Node] = []

    assert marks(Node) == {"name": "p", "children": ""}


def test_inherited_fields_keep_their_marks() -> None:
    class Base(Contract):
        wish: Pinned[str]

    class Child(Base):
        more: str

    assert [(fact.label, fact.pinned) for fact in fact_fields(Child)] == [("Child.wish", True), ("Child.more", False)]


def test_a_link_to_a_field_that_does_not_exist_names_what_is_there() -> None:
    class Decision(Contract):
        order: Annotated[str, Answers(Order, "id")]

    with pytest.raises(SetupError, match=r"Decision 1\.0\.order answers Order\.id, which does not exist") as caught:
        fact_fields(Decision)
    assert "Order has: order_id" in caught.value.hint


def test_a_contract_that_names_a_later_class_works_once_that_exists() -> None:
    """At module level by itself; inside a function Python hides the name, and the error says what to do."""

    class Early(Contract):
        later: Late | None = None

    with pytest.raises(SetupError, match=r"Early 1\.0 has an annotation that names nothing: Late") as caught:
        marks(Early)
    assert "Early.model_rebuild()" in caught.value.hint

    class Late(BaseModel):
        x: Pinned[str]

    Early.model_rebuild()
    assert marks(Early) == {"later": "p"}
    assert marks(AtModuleLevel) == {"later": "p"}


class AtModuleLevel(Contract):
    later: LaterAtModuleLevel | None = None


class LaterAtModuleLevel(BaseModel):
    x: Pinned[str]
