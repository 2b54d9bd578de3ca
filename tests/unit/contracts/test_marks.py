"""Marks are `Annotated` forms: a type checker and pydantic see the plain type."""

from __future__ import annotations

import typing
from typing import Annotated, Any, get_type_hints

import pytest

from statepact import Answers, Contract, Limit, Pinned, Sensitive
from statepact.contracts._marks import LIMIT, PINNED, SENSITIVE, marks_in


class Order(Contract):
    order_id: str
    amount: int


def test_the_plain_type_shows_without_extras_and_the_mark_with_them() -> None:
    class Wish(Contract):
        demand: Pinned[str]

    assert get_type_hints(Wish)["demand"] is str
    assert typing.get_args(get_type_hints(Wish, include_extras=True)["demand"])[1:] == (PINNED,)


def test_a_marked_field_takes_what_its_type_takes() -> None:
    class Wish(Contract):
        demand: Pinned[str]
        limit: Limit[int]
        card: Sensitive[str | None] = None

    assert Wish(demand="x", limit=1).model_dump() == {"demand": "x", "limit": 1, "card": None}
    with pytest.raises(ValueError, match="limit"):
        Wish(demand="x", limit="1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, []),
        (Pinned[str], [PINNED]),
        (Limit[str], [PINNED, LIMIT]),
        (Pinned[str] | None, [PINNED]),
        (list[dict[str, Sensitive[int]]], [SENSITIVE]),
        (Annotated[Pinned[str], Answers(Order, "order_id")], [PINNED, Answers(Order, "order_id")]),
        (typing.Callable[[Pinned[int]], Sensitive[str]], [PINNED, SENSITIVE]),
    ],
    ids=str,
)
def test_marks_are_found_in_reading_order(annotation: Any, expected: list[Any]) -> None:
    assert list(marks_in(annotation)) == expected


@pytest.mark.parametrize(
    ("agrees", "earlier", "answer", "holds"),
    [
        (None, "KX-1", "KX-1", True),
        (None, "KX-1", "kx-1", False),
        ({"refund": "money back"}, "refund", "money back", True),
        ({"refund": "money back"}, "refund", "refund", False),
        ({"refund": ["a", "b"]}, "refund", "b", True),
        ({"refund": {"a", "b"}}, "refund", "c", False),
        ({"refund": "money back"}, "unknown", "money back", False),
        (lambda earlier, answer: answer <= earlier, 300, 299, True),
        (lambda earlier, answer: answer <= earlier, 300, 301, False),
        (lambda earlier, answer: "", 300, 301, False),
    ],
)
def test_a_link_holds_by_equality_a_table_or_a_rule(agrees: Any, earlier: Any, answer: Any, holds: bool) -> None:
    assert Answers(Order, "order_id", agrees=agrees).holds(earlier, answer) is holds
