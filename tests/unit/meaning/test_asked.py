"""How a request names something without naming it: ends of ids, time words, "the last one"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statepact.meaning._asked import asked_in
from statepact.meaning._occurs import fold
from statepact.meaning._when import times_in

NOW = round(datetime(2026, 12, 9, 10, tzinfo=UTC).timestamp() * 1000)  # a Wednesday


def days(text: str, zone: Any = UTC) -> list[tuple[str, str]]:
    """Return first and last moment of each span, as text."""
    return [
        tuple(datetime.fromtimestamp(at / 1000, zone).strftime("%m-%d %H") for at in (span.start, span.end))  # type: ignore[misc]
        for word in times_in(fold(text).text, NOW, zone)
        for span in word.spans
    ]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("yesterday", ("12-08 00", "12-09 00")),
        ("昨天", ("12-08 00", "12-09 00")),
        ("the day before yesterday", ("12-07 00", "12-08 00")),
        ("前天", ("12-07 00", "12-08 00")),
        ("大前天", ("12-06 00", "12-07 00")),
        ("yesterday evening", ("12-08 17", "12-09 00")),
        ("昨天上午", ("12-08 00", "12-08 12")),
        ("this morning", ("12-09 00", "12-09 12")),
        ("今早", ("12-09 00", "12-09 12")),
        ("last night", ("12-08 17", "12-09 05")),
        ("last week", ("11-30 00", "12-07 00")),
        ("上周", ("11-30 00", "12-07 00")),
        ("上个星期四", ("12-03 00", "12-04 00")),
        ("上上周", ("11-23 00", "11-30 00")),
        ("last month", ("11-01 00", "12-01 00")),
        ("上个月", ("11-01 00", "12-01 00")),
        ("on Monday", ("12-07 00", "12-08 00")),
        ("周一", ("12-07 00", "12-08 00")),
        ("on 3 December", ("12-03 00", "12-04 00")),
        ("Dec 3rd", ("12-03 00", "12-04 00")),
        ("12月3日", ("12-03 00", "12-04 00")),
        ("十二月三号", ("12-03 00", "12-04 00")),
        ("2026-11-20", ("11-20 00", "11-21 00")),
        ("20 December", ("12-20 00", "12-21 00")),
        ("in November", ("11-01 00", "12-01 00")),
        ("three days ago", ("12-06 00", "12-07 00")),
        ("三天前", ("12-06 00", "12-07 00")),
        ("3号", ("12-03 00", "12-04 00")),
        ("30号", ("11-30 00", "12-01 00")),
    ],
)
def test_a_time_word_is_a_stretch_of_the_calendar(text: str, span: tuple[str, str]) -> None:
    """Seen from a Wednesday morning, in UTC; a date without a year is the last that has passed."""
    assert days(text) == [span]


def test_a_date_without_a_year_lies_in_the_past() -> None:
    (word,) = times_in("on 20 december", NOW, UTC)
    assert datetime.fromtimestamp(word.spans[0].start / 1000, UTC).year == 2025


@pytest.mark.parametrize(
    "text", ["next Monday", "by Friday", "下周一", "每周一", "31 February", "2月30日", "the may flower"]
)
def test_what_is_to_come_or_no_day_is_no_past_time(text: str) -> None:
    assert days(text) == []


def test_loose_words_name_more_than_one_day() -> None:
    """Who narrows by them asks, and does not guess."""
    assert days("a week ago") == [("12-01 00", "12-04 00")]
    assert len(days("on Wednesday")) == 2
    assert len(days("last Monday")) == 2


def test_days_begin_in_the_zone() -> None:
    zone = timezone(timedelta(hours=8))
    (word,) = times_in("昨天", NOW, zone)
    assert datetime.fromtimestamp(word.spans[0].start / 1000, UTC).hour == 16


@pytest.mark.parametrize(
    "text",
    [
        "ending in 890",
        "the one that ends with 890",
        "last three digits are 890",
        "890 at the end",
        "尾号890",
        "尾号 是 890",
        "后三位８９０",
        "890结尾的",
    ],
)
def test_the_end_of_an_id(text: str) -> None:
    asked = asked_in(text, NOW, UTC)
    assert asked.suffixes == ("890",)
    assert asked.ids == ()
    assert asked.spans == ()


@pytest.mark.parametrize("text", ["It ends in March", "the last order of 890 EUR", "I paid 890"])
def test_other_numbers_are_no_end_of_an_id(text: str) -> None:
    assert asked_in(text, NOW, UTC).suffixes == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("my last order", 0),
        ("the most recent order", 0),
        ("上一个订单", 0),
        ("刚才那个", 0),
        ("the order before the last one", 1),
        ("上上个订单", 1),
    ],
)
def test_the_last_one_counts_from_the_newest(text: str, place: int) -> None:
    assert asked_in(text, NOW, UTC).newest == place


@pytest.mark.parametrize(
    "text",
    [
        "any latest news",
        "last week",
        "my last ticket",
        "the last order I placed",
        "有最新消息吗",
        "最后一个商品",
        "上个月",
        "I just wanted to ask",
        "刚刚下的单",
    ],
)
def test_other_last_things_do_not(text: str) -> None:
    """Taking one of these for "the last order" would be a guess."""
    assert asked_in(text, NOW, UTC).newest is None


@pytest.mark.parametrize(
    "text", ["deliver it on Thursday", "it came yesterday", "请周四送货", "上周买的", "周一给我打电话"]
)
def test_times_of_other_things_do_not_narrow(text: str) -> None:
    """A day of delivery says nothing about when something was spoken of."""
    assert asked_in(text, NOW, UTC).spans == ()


@pytest.mark.parametrize("text", ["not KX-5512 but KX-5513", "不是KX-5512，是KX-5513"])
def test_an_id_that_is_not_meant_is_left_out(text: str) -> None:
    asked = asked_in(text, NOW, UTC)
    assert (asked.ids, asked.excluded) == (("kx-5513",), ("kx-5512",))


def test_an_id_that_did_not_arrive_is_meant() -> None:
    assert asked_in("I have not received KX-5512", NOW, UTC).ids == ("kx-5512",)


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    asked_in(text, NOW, UTC)


@pytest.mark.parametrize(
    "piece", ["yesterday ", "上个", "last ", "尾号", "1", "9-", "ending in ", "一", "not the order "]
)
def test_work_grows_with_the_text_only(piece: str) -> None:
    """A hundred thousand characters of the worst kind take about as long as any others."""
    start = perf_counter()
    asked_in(piece * (100_000 // len(piece)), NOW, UTC)
    assert perf_counter() - start < 5
