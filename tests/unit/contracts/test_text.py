"""Model text: one rule for each habit of models, and no guess."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from pydantic import AliasChoices, Field

from statepact.contracts._contract import Contract
from statepact.contracts._text import read_text
from statepact.errors import ContractViolation, UnreadableText


class One(Contract):
    a: int


class Patch(Contract):
    patch: str
    n: int


class Meal(Contract):
    customer: str
    items: list[str]


def reason(text: str, **options: Any) -> str:
    with pytest.raises(UnreadableText) as caught:
        read_text(One, text, **options)
    return caught.value.reason


def test_a_clean_answer_has_no_marks() -> None:
    assert read_text(One, ' {"a": 1}\n').value == One(a=1)
    assert read_text(One, '{"a":1}').marks == ()


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ('```json {"a":1}```', ["unwrapped_fence"]),
        ('``` {"a":1} ```', ["unwrapped_fence"]),
        ('```\n{"a":1}\n```', ["unwrapped_fence"]),
        ('Here it is:\n```json\n{"a":1}\n```\nAnything else?', ["unwrapped_fence", "prose_around"]),
        ('~~~JSON\n{"a":1}\n~~~', ["unwrapped_fence"]),
        ('````json5\n{"a":1}\n````', ["unwrapped_fence"]),
        ('```json\n{"a":1}', ["unwrapped_fence"]),
        ('好的，结果如下：{"a":1}。', ["prose_around"]),
        ('use {braces} like {a} this: {"a":1}', ["prose_around"]),
        ('call f() {} with {"word"}: {"a":1}', ["prose_around"]),
        ('{"a":1} and {more} or {', ["prose_around"]),
        ('\ufeff{"a":1}', ["bom"]),
    ],
)
def test_fc_43_wrapping_is_taken_off_and_marked(text: str, marks: list[str]) -> None:
    if text.endswith("{"):
        assert reason(text) == "malformed"
        text = text[:-1]
    read = read_text(One, text)

    assert read.value == One(a=1)
    assert list(read.marks) == marks


def test_fc_43_a_fence_inside_a_string_stays_there() -> None:
    text = '```json\n{"patch":"run:\\n```sh\\nmake test\\n```\\nthen ship","n":3}\n```'

    assert read_text(Patch, text).value == Patch(patch="run:\n```sh\nmake test\n```\nthen ship", n=3)


def test_fc_43_a_raw_newline_in_a_string_is_repaired_and_marked() -> None:
    read = read_text(Patch, '```json\n{"patch":"run:\n```sh\n\tmake {test\n```","n":3}\n```')

    assert read.value == Patch(patch="run:\n```sh\n\tmake {test\n```", n=3)
    assert read.marks == ("unwrapped_fence", "raw_newline")


@pytest.mark.parametrize("second", ['{"a":2}', '{"a":1}'])
def test_fc_43_two_objects_are_ambiguous_unless_the_first_is_asked_for(second: str) -> None:
    text = f'```json\n{{"a":1}}\n```\n```json\n{second}\n```'

    assert reason(text) == "ambiguous"
    read = read_text(One, text, choose="first")
    assert read.value == One(a=1)
    assert "first_of_several" in read.marks


@pytest.mark.parametrize(
    ("text", "stop_reason", "expected"),
    [
        ('{"customer":"Ana","items":["salad","carrot"', "length", "incomplete"),
        ('{"customer":"Ana","items":["salad","carrot"', "stop", "malformed"),
        ('```json\n{"customer":"An', "length", "incomplete"),
        ("{", "length", "incomplete"),
        ("Well, the customer", "length", "no_object"),
        ('{"customer": Ana}', "length", "malformed"),
    ],
)
def test_fc_53_a_cut_answer_is_never_complete(text: str, stop_reason: Any, expected: str) -> None:
    assert reason(text, stop_reason=stop_reason) == expected


def test_fc_53_an_empty_list_in_a_complete_answer_is_valid() -> None:
    text = '{"customer":"Ana","items":[]}'

    assert read_text(Meal, text, stop_reason="stop").marks == ()
    read = read_text(Meal, text, stop_reason="length")
    assert read.value.items == []
    assert read.marks == ("stopped_at_limit",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no_object"),
        ("I cannot help with that.", "no_object"),
        ("{'a': 1}", "no_object"),
        ("[1, 2]", "no_object"),
        ('{"a":NaN}', "malformed"),
        ('{"a":-Infinity}', "malformed"),
        ('{"a":1e400}', "malformed"),
        ('{"a":1,}', "malformed"),
        ('{"a":1 "b":2}', "malformed"),
        ('{{"a":1}}', "malformed"),
        ('{"a":1}}', "malformed"),
        ('{result: {"a":1}}', "malformed"),
        ('[{"a":1}]', "malformed"),
        ('the shape is {"a": ...}: {"a":1}', "malformed"),
        ('{"a":1,"a":1}', "duplicate_key"),
        ('{"a":{"b":1,"b":2}}', "duplicate_key"),
        ('{"a":1} or {"a"', "malformed"),
        ('{"a":' * 65 + "1" + "}" * 65, "too_deep"),
        ('{"a":1}' + " " * 1024 * 1024, "too_large"),
        ('{"a":' + "9" * 5000 + "}", "malformed"),
    ],
)
def test_what_is_not_one_object_is_refused(text: str, expected: str) -> None:
    assert reason(text) == expected


def test_a_refused_literal_is_named_and_a_place_is_given() -> None:
    with pytest.raises(UnreadableText, match="NaN is not a JSON number"):
        read_text(One, '{"a":NaN}')
    with pytest.raises(UnreadableText, match="line 2 column"):
        read_text(One, '{\n"a":1,}')


class Numbers(Contract):
    whole: int = 0
    share: float = 0.0
    price: Decimal = Decimal(0)
    flag: bool = False
    text: str = ""
    many: list[int] = []
    either: int | float | None = None


@pytest.mark.parametrize(
    ("field", "written", "value", "marks"),
    [
        ("whole", "2512292042121000001", 2512292042121000001, ()),
        ("whole", '"2512292042121000001"', 2512292042121000001, ("lax",)),
        ("whole", '"-7"', -7, ("lax",)),
        ("share", '"1.5"', 1.5, ("lax",)),
        ("share", "2", 2.0, ()),
        ("price", '"1.10"', Decimal("1.10"), ()),
        ("many", '[1, "2"]', [1, 2], ("lax",)),
        ("either", '"9007199254740993"', 9007199254740993, ("lax",)),
        ("text", '"7"', "7", ()),
    ],
)
def test_a_number_written_as_text_is_a_number(field: str, written: str, value: Any, marks: tuple[str, ...]) -> None:
    read = read_text(Numbers, f'{{"{field}":{written}}}')

    assert getattr(read.value, field) == value
    assert type(getattr(read.value, field)) is type(value)
    assert read.marks == marks


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("whole", "7.0"),
        ("whole", "true"),
        ("whole", '"7.0"'),
        ("whole", '" 7"'),
        ("whole", '"٧"'),
        ("whole", "null"),
        ("flag", "1"),
        ("flag", '"yes"'),
        ("flag", '"true"'),
        ("text", "7"),
        ("share", '"1,5"'),
        ("share", '"NaN"'),
        ("many", '"1"'),
    ],
)
def test_what_would_change_its_meaning_is_refused(field: str, written: str) -> None:
    with pytest.raises(ContractViolation) as caught:
        read_text(Numbers, f'{{"{field}":{written}}}')

    assert not isinstance(caught.value, UnreadableText)


def test_all_violations_are_reported_without_values() -> None:
    with pytest.raises(ContractViolation) as caught:
        read_text(
            Patch, '{"patch": 40912, "n": "secret", "extra": "secret"}', side="step 'fix' returned an output that"
        )

    assert [violation.path for violation in caught.value.violations] == ["patch", "n", "extra"]
    assert "secret" not in str(caught.value)
    assert "40912" not in str(caught.value)
    assert str(caught.value).startswith("step 'fix'")


class Pair(NamedTuple):
    x: Decimal
    y: float


class Line(Contract):
    price: Decimal = Field(validation_alias=AliasChoices("price", "preis"), default=Decimal(0))


class Bill(Contract):
    total: Decimal
    lines: list[Line] = []
    parts: set[Decimal] = set()
    by_name: dict[str, Decimal | None] = {}
    pair: Pair | None = None
    last: deque[Decimal] = deque()
    either: Decimal | str | None = None
    share: float = 0.0


def test_decimals_keep_the_digits_that_were_written() -> None:
    """Pydantic alone would read 1.10 as 1.1 and round the long one."""
    long = "0.10000000000000000555"
    read = read_text(
        Bill,
        f'{{"total":1.10,"lines":[{{"preis":{long}}},{{"price":2}}],"parts":[1.10,{long}],"by_name":{{"a":5.00,"b":null}},'
        f'"pair":[1.50,1.50],"last":[2.0],"either":3.0,"share":{long}}}',
    )

    assert read.marks == ()
    assert repr(read.value) == repr(
        Bill.model_construct(
            total=Decimal("1.10"),
            lines=[Line.model_construct(price=Decimal(long)), Line.model_construct(price=Decimal("2"))],
            parts=read.value.parts,
            by_name={"a": Decimal("5.00"), "b": None},
            pair=Pair(Decimal("1.50"), 1.5),
            last=deque([Decimal("2.0")]),
            either=Decimal("3.0"),
            share=0.1,
        )
    )
    assert sorted(map(str, read.value.parts)) == [long, "1.10"]


def test_a_decimal_is_checked_with_the_digits_that_were_written() -> None:
    class Price(Contract):
        amount: Decimal = Field(decimal_places=2)

    assert str(read_text(Price, '{"amount":1.10}').value.amount) == "1.10"
    with pytest.raises(ContractViolation):
        read_text(Price, '{"amount":1.1000000000000000001}')


def test_half_characters_are_cleaned_and_marked() -> None:
    escaped = read_text(Patch, '{"patch":"包装\\ud83d 🧩 \\ud83e\\udde9\\u0000","n":1}')
    raw = read_text(Patch, '{"patch":"包装\ud83d 🧩 \ud83e\udde9\x00","n":1}')

    assert escaped.value == raw.value == Patch(patch="包装� 🧩 🧩�", n=1)
    assert escaped.marks == raw.marks == ("cleaned",)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 500_000,
        '{"' * 400_000,
        '{"a":' * 200_000,
        "{}" * 500_000,
        '{"w"}' * 200_000,
        "}" * 1_000_000,
        "```" + " " * 900_000 + 'x y {"a":1}',
        '{"a":"' + "\\" * 900_000,
        '{"a":"' + "\n" * 900_000,
        "{" + " " * 900_000,
        '{"a":1' + "," * 900_000,
        "`" * 900_000,
    ],
    ids=lambda text: text[:6].strip() or "spaces",
)
def test_any_text_is_read_in_linear_time(text: str) -> None:
    started = time.perf_counter()
    for stop_reason in ("stop", "length"):
        with contextlib.suppress(ContractViolation):
            read_text(One, text, stop_reason=stop_reason, choose="first")

    assert time.perf_counter() - started < 5
