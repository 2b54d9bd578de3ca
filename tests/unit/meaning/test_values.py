"""The texts under which a value may rightly stand in an answer."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from uuid import UUID

import pytest

from statepact.meaning import Occurrence, stands_in, value_texts

DAY = dt.date(2026, 11, 30)
MOMENT = dt.datetime(2026, 11, 30, 19, 45, tzinfo=dt.UTC)


class Colour(enum.Enum):
    RED = "red"
    ON = True


class Level(enum.IntEnum):
    HIGH = 45


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("refund", "The refund is on its way"),
        ("#W2378156", "order W2378156"),
        (45, "45 EUR"),
        (45, "45.00 EUR"),
        (45000, "45,000"),
        (45000, "4.5万元"),
        (45000, "45.000,00 €"),
        (45000, "45 000"),
        (200_000_000, "2亿"),
        (-45, "−45 degrees"),
        (7264519830127364511, "id 7264519830127364511"),
        (Decimal("45000.00"), "45,000 EUR"),
        (Decimal("45000.00"), "4.5万欧元"),
        (Decimal("59.90"), "59.9"),
        (Decimal("59.90"), "59,90 €"),
        (Decimal("1234.50"), "CHF 1'234.50"),
        (Decimal("1355.90"), "1.355,90 €"),
        (59.9, "59.90"),
        (45.0, "45"),
        (DAY, "2026-11-30"),
        (DAY, "30.11.2026"),
        (DAY, "11/30/2026"),
        (DAY, "by November 30, 2026."),
        (DAY, "by Nov 30"),
        (DAY, "on the 30th of November"),
        (DAY, "30 November 2026"),
        (DAY, "2026 年 11 月 30 日前"),
        (DAY, "11月30号"),
        (MOMENT, "2026-11-30 19:45"),
        (MOMENT, "2026-11-30T19:45:00"),
        (MOMENT, "2026-11-30T19:45:00Z"),
        (MOMENT, MOMENT.isoformat()),
        (MOMENT, "November 30 at 7:45 PM"),
        (MOMENT, "11月30日19:45"),
        (dt.time(19, 45), "7:45pm"),
        (dt.time(9, 0), "9点"),
        (Colour.RED, "a red lid"),
        (Level.HIGH, "45"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (["KX-1", 45], "KX-1 costs 45"),
        (("刀片", "盖子"), "刀片和盖子"),
    ],
)
def test_a_value_stands_in_an_answer(value: object, text: str) -> None:
    assert stands_in(value, text) is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (45, "450"),
        (45, "4.5"),
        (45, "45,000 EUR"),
        (45, "-45"),
        (-45, "45"),
        (Decimal("45000.00"), "45 EUR"),
        (45000, "45.000"),
        (45000, "4.5"),
        (Decimal("1.234"), "1,234"),
        (Decimal("27.80"), "2780"),
        (DAY, "November 30, 2025"),
        (DAY, "2025年11月30日"),
        (DAY, "November 3"),
        (DAY, "1月30日"),
        (dt.date(2026, 1, 30), "11月30日"),
        (dt.date(2026, 6, 5), "05/06/2026"),
        (MOMENT, "2026-11-30"),
        (MOMENT, "November 30 at 7:45 AM"),
        (["KX-1", "KX-2"], "only KX-1"),
        ([], "anything"),
        ([True], "True"),
    ],
)
def test_another_value_or_half_of_it_does_not_stand(value: object, text: str) -> None:
    assert stands_in(value, text) is None


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, Colour.ON, "", " ", b"KX-1", {"a": 1}, float("nan"), float("inf"), Decimal("sNaN")),
        *(10**5000, -(10**5000), Decimal("1E+999999"), 1e300, object(), []),
    ],
    ids=lambda value: type(value).__name__,  # printing the largest ones raises
)
def test_what_text_cannot_prove_has_no_forms(value: object) -> None:
    assert value_texts(value) == ()
    assert stands_in(value, "True 1 nan KX-1") is None


def test_the_plainest_form_comes_first() -> None:
    assert value_texts(45000)[:2] == ("45000", "45,000")
    assert value_texts(DAY)[0] == "2026-11-30"
    assert value_texts(Decimal("59.90"))[0] == "59.90"


def test_a_list_has_the_forms_of_its_parts() -> None:
    assert value_texts(["KX-1", Colour.RED]) == ("KX-1", "red")


def test_a_list_that_contains_itself_ends() -> None:
    loop: list[object] = ["KX-1"]
    loop.append(loop)

    assert value_texts(loop) == ("KX-1",)
    assert stands_in(loop, "KX-1") is None


def test_a_free_form_wins_over_an_earlier_denied_one() -> None:
    assert stands_in(45000, "not 45000. It is 45,000") == Occurrence(17, 23, negated=False)


def test_a_list_is_denied_when_one_part_is() -> None:
    assert stands_in(["lid", "blade"], "the lid, not the blade") == Occurrence(17, 22, negated=True)


def test_a_moment_has_a_bounded_number_of_forms() -> None:
    assert len(value_texts(MOMENT)) < 1000
