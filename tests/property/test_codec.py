"""What is written comes back equal in value and type, and equal values have equal bytes."""

from __future__ import annotations

import string
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from statepact.contracts._check import validate
from statepact.contracts._clean import clean, clean_value, cut
from statepact.contracts._contract import Contract
from statepact.ledger._blocks import DOCUMENT_LIMIT, take_apart
from statepact.ledger._codec import decode, encode, encode_clean


class Status(StrEnum):
    READY = "query_ready"
    DONE = "done"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Colour(Enum):
    RED = "r"
    ONE = 1


class Plain(Contract):
    text: str
    number: int
    share: float
    flag: bool
    choice: Literal["a", "b", 3]
    names: list[str]
    counts: dict[str, int]
    either: int | float | str | bool | None
    status: Status
    level: Level
    price: Decimal
    day: date
    key: UUID
    pair: tuple[int, str]
    many: tuple[Decimal, ...]
    words: set[str]
    below: Plain | None = None


class Rich(Contract):
    plain: Plain
    moment: datetime
    clock: time
    length: timedelta
    raw: bytes
    colour: Colour
    part: Fraction
    last: deque[int]
    by_day: dict[date, Decimal]
    by_level: dict[Level, list[bytes]]
    unsure: int | Decimal | str | bytes | date | Status | list[int] | tuple[int, ...] | dict[str, int] | None
    open: Any
    free: dict[str, Any]
    odd: list[frozenset[Decimal]]


plain_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
finite = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
big = st.integers() | st.integers(-(2**70), 2**70)
minute_zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
zones = (
    st.none()
    | minute_zones
    | st.sampled_from([UTC, timezone(timedelta(hours=8), "CST"), timezone(timedelta(seconds=3661), "a]b[c")])
    | st.sampled_from(["America/New_York", "Asia/Shanghai", "UTC", "Europe/Berlin"]).map(ZoneInfo)
)
moments = st.builds(
    lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, st.sampled_from([0, 1])
)
clocks = st.builds(
    lambda clock, zone, fold: clock.replace(tzinfo=zone, fold=fold), st.times(), zones, st.sampled_from([0, 1])
)
hashable = (
    st.none() | st.booleans() | big | finite | plain_text | decimals | moments | st.dates() | st.binary() | st.uuids()
)
hashable = hashable | st.tuples(hashable, hashable) | st.frozensets(hashable, max_size=3)
keys = plain_text | st.sampled_from(["$dict", "$decimal", "$", "$set", "__class__"])
open_values = st.recursive(
    hashable | st.fractions() | st.timedeltas() | clocks,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(lambda items: deque(items, maxlen=5))
        | st.sets(hashable, max_size=3)
    ),
    max_leaves=12,
)

plains = st.deferred(
    lambda: st.builds(
        Plain,
        text=plain_text,
        number=big,
        share=finite,
        flag=st.booleans(),
        choice=st.sampled_from(["a", "b", 3]),
        names=st.lists(plain_text, max_size=3),
        counts=st.dictionaries(keys, big, max_size=3),
        either=st.none() | big | finite | plain_text | st.booleans(),
        status=st.sampled_from(Status),
        level=st.sampled_from(Level),
        price=decimals,
        day=st.dates(),
        key=st.uuids(),
        pair=st.tuples(big, plain_text),
        many=st.lists(decimals, max_size=3).map(tuple),
        words=st.sets(plain_text, max_size=4),
        below=st.none() | plains,
    )
)
riches = st.builds(
    Rich,
    plain=plains,
    moment=moments,
    clock=clocks,
    length=st.timedeltas(),
    raw=st.binary(),
    colour=st.sampled_from(Colour),
    part=st.fractions(),
    last=st.builds(deque, st.lists(big, max_size=3), st.none() | st.integers(3, 5)),
    by_day=st.dictionaries(st.dates(), decimals, max_size=3),
    by_level=st.dictionaries(st.sampled_from(Level), st.lists(st.binary(), max_size=2)),
    unsure=st.none()
    | big
    | decimals
    | plain_text
    | st.binary()
    | st.dates()
    | st.sampled_from(Status)
    | st.lists(big, max_size=2)
    | st.lists(big, max_size=2).map(tuple)
    | st.dictionaries(keys, big, max_size=2),
    open=open_values,
    free=st.dictionaries(keys, open_values, max_size=2),
    odd=st.lists(st.frozensets(decimals, max_size=3), max_size=2),
)


@dataclass(frozen=True)
class Shape:
    """A value with its types spelled out, so that `==` sees 1, 1.0, True and Decimal(1) apart."""

    kind: type
    parts: Any


def shape(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return Shape(type(value), {name: shape(item) for name, item in value.__dict__.items()})
    if isinstance(value, dict):
        return Shape(type(value), {(type(key), repr(shape(key))): shape(item) for key, item in value.items()})
    if isinstance(value, set | frozenset):
        return Shape(type(value), sorted(repr(shape(item)) for item in value))
    if isinstance(value, list | tuple):
        return Shape(type(value), [shape(item) for item in value])
    if isinstance(value, deque):
        return Shape(deque, ([shape(item) for item in value], value.maxlen))
    if isinstance(value, datetime | time):
        return Shape(type(value), (repr(value), value.fold, value.tzname()))
    return Shape(type(value), repr(value))


@given(plains)
def test_a_plain_contract_comes_back_equal_in_value_and_type(value: Plain) -> None:
    checked = validate(Plain, value)

    again = decode(Plain, encode(checked))

    assert again == value
    assert shape(again) == shape(value)


@given(riches)
def test_a_contract_of_many_types_comes_back_equal_in_value_and_type(value: Rich) -> None:
    checked = validate(Rich, value)

    again = decode(Rich, encode(checked))

    assert again == value
    assert shape(again) == shape(value)


@given(riches)
def test_encoding_what_was_read_gives_the_same_bytes(value: Rich) -> None:
    data = encode(value)

    assert encode(decode(Rich, data)) == data


@given(st.dictionaries(keys, open_values, max_size=5), st.randoms())
def test_the_order_of_keys_never_changes_the_bytes(free: dict[str, Any], random: Any) -> None:
    class Holder(Contract):
        free: dict[str, Any]
        plain: dict[str, int]

    shuffled = list(free.items())
    random.shuffle(shuffled)
    one = Holder(free=free, plain=dict.fromkeys(free, 1))
    other = Holder(plain=dict.fromkeys((key for key, _ in shuffled), 1), free=dict(shuffled))

    assert encode(one) == encode(other)


@given(st.dictionaries(st.text(), st.lists(st.text()), max_size=4))
def test_any_text_can_be_written_and_what_was_cleaned_is_reported(texts: dict[str, list[str]]) -> None:
    class Holder(Contract):
        texts: dict[str, list[str]]

    data, cleaned, _ = encode_clean(Holder(texts=texts))

    again = decode(Holder, data)
    assert (again.texts == texts) == (not cleaned)
    assert encode_clean(again)[:2] == (data, ())


sizes = st.lists(st.integers(0, 3 * DOCUMENT_LIMIT), min_size=2, max_size=5)


@given(
    sizes,
    st.text('ab é修"\\\n', min_size=1),
    st.dictionaries(st.text('ab修"', max_size=8), st.floats(allow_nan=False, allow_infinity=False)),
)
def test_a_value_has_one_form_however_large_the_one_before_it_was(
    sizes: list[int], text: str, shares: dict[str, float]
) -> None:
    """After a large value the next one is written field by field, which shows in nothing that is stored."""

    class Page(Contract):
        title: str
        body: str
        shares: dict[str, float]
        below: list[Page]

    for size in sizes:
        below = Page(title="", body=text, shares=shares, below=[])
        value = Page(title=text, body=(text * size)[:size], shares=shares, below=[below])
        data, _, members = encode_clean(value)

        assert data == orjson.dumps(value.model_dump(), option=orjson.OPT_SORT_KEYS)
        assert take_apart("acme", data, members=members) == take_apart("acme", data)
        assert decode(Page, data) == value


@given(riches)
def test_a_value_of_many_types_is_written_the_same_after_a_large_one(value: Rich) -> None:
    before = encode(value)
    encode(value.model_copy(update={"raw": bytes(2 * DOCUMENT_LIMIT)}))

    after = encode_clean(value)

    assert after.data == before
    assert take_apart("acme", after.data, members=after.members) == take_apart("acme", before)


@given(st.text(st.characters()), st.integers(0, 30))
def test_a_cut_is_a_start_of_the_text_within_the_limit(text: str, limit: int) -> None:
    short = cut(text, limit)

    assert text.startswith(short)
    assert len(short) <= limit


@given(st.text(string.ascii_letters + "\ud83d\udc88\x00🧩包"))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean(text)

    once.encode("utf-8")
    assert clean(once) is once
    assert clean_value([once, {once: once}])[1] == []
