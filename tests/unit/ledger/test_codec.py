"""The codec: exact or refused with a path, one form, data never builds objects."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import subprocess
import sys
from collections import defaultdict, deque
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)
from pydantic_core import TzInfo
from typing_extensions import TypedDict

from statepact.contracts._check import validate
from statepact.contracts._clean import clean, clean_value, cut
from statepact.contracts._contract import Contract
from statepact.contracts._marks import Pinned, Sensitive
from statepact.errors import ContractViolation, CorruptState, NotExact, TooLarge
from statepact.ledger._codec import decode, decode_with_rest, encode, encode_clean
from statepact.ledger._plan import plan_of
from statepact.ledger._wire import Refused

T = TypeVar("T")
FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"


class Status(StrEnum):
    READY = "query_ready"


class Level(IntEnum):
    HIGH = 2


class Rights(Flag):
    READ = 1
    WRITE = 2


class Colour(Enum):
    RED = "r"
    MANY = (1, 2)


class Item(Contract):
    sku: str
    quantity: int


class Gift(Contract):
    sku: str
    quantity: int


class Point(NamedTuple):
    x: int
    y: Decimal


class Address(TypedDict):
    street: str
    since: NotRequired[dt.date]


class Tree(Contract):
    name: str
    below: list[Tree] = []


class Loose(BaseModel):
    items: list[int] = []
    score: float = 0.0


class Box(BaseModel, Generic[T]):
    item: T


OrderId = NewType("OrderId", str)


def holder(annotation: Any, **config: Any) -> type[Contract]:
    """A contract with one field `v` of the given type."""
    return type("Holder", (Contract,), {"__annotations__": {"v": annotation}, "__module__": __name__}, **config)


def there_and_back(annotation: Any, value: Any) -> Any:
    contract = holder(annotation)
    checked = validate(contract, contract(v=value))
    data = encode(checked)
    json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} in stored JSON"))
    again = decode(contract, data)
    assert encode(again) == data
    return again.v  # type: ignore[attr-defined]


# -- exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 2**63),
        (int, -(2**200)),
        (list[int], [2**64, 1]),
        (float, -0.0),
        (float, 1e16),
        (float, 5e-324),
        (int | float, 1),
        (int | float, 1.0),
        (float | int | bool | None, True),
        (Decimal, Decimal("1.10")),
        (Decimal, Decimal("1E+5")),
        (Decimal, Decimal("-0.000")),
        (dt.datetime, dt.datetime(2024, 11, 3, 1, 30, fold=1, tzinfo=ZoneInfo("America/New_York"))),
        (dt.datetime, dt.datetime(2024, 2, 29, 1, 2, 3, 4, fold=1)),
        (dt.datetime, dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
        (dt.datetime, dt.datetime(9999, 12, 31, tzinfo=dt.timezone(-dt.timedelta(hours=5, seconds=7)))),
        (dt.datetime, dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=8), "CST"))),
        (dt.time, dt.time(1, 2, 3, 4, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))),
        (AwareDatetime, dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("Asia/Shanghai"))),
        (dt.timedelta, dt.timedelta.max),
        (dt.timedelta, dt.timedelta(microseconds=-1)),
        (bytes, b"\xff\x00\xed\xa0"),
        (UUID, UUID(int=7)),
        (Fraction, Fraction(-1, 3)),
        (Status, Status.READY),
        (Status | str, Status.READY),
        (Status | str, "query_ready"),
        (Level, Level.HIGH),
        (Rights, Rights.READ | Rights.WRITE),
        (Literal["a", 1, True, None], True),
        (Literal["a", 1, True, None], 1),
        (Literal[Status.READY] | None, Status.READY),
        (set[int | str], {1, "1"}),
        (frozenset[tuple[int, Decimal]], frozenset({(1, Decimal("1.0"))})),
        (tuple[int, ...], (1, 2)),
        (tuple[()], ()),
        (tuple[int, set[bytes]], (1, {b"a"})),
        (list[Point], [Point(1, Decimal("2.0"))]),
        (Address, {"street": "a"}),
        (Address, {"street": "a", "since": dt.date(2020, 1, 1)}),
        (dict[int, str], {-1: "b", 1: "a"}),
        (dict[dt.date, Item], {dt.date(2024, 1, 1): Item(sku="a", quantity=1)}),
        (dict[Status, int], {Status.READY: 1}),
        (dict[tuple[int, str], int], {(1, "a"): 2}),
        (defaultdict[str, list[int]], defaultdict(list, {"a": [1]})),
        (Item | Gift, Gift(sku="a", quantity=1)),
        (Gift | Item, Gift(sku="a", quantity=1)),
        (list[Item] | list[Gift] | None, [Gift(sku="a", quantity=1)]),
        (Item | dict[str, int], {"quantity": 2, "sku": 1}),
        (list[int] | tuple[int, ...] | set[int], {1}),
        (list[int] | list[str], ["a"]),
        (int | Decimal | str, Decimal("1.0")),
        (int | Decimal | str, "1.0"),
        (int | Decimal | str, 1),
        (Pinned[Decimal] | None, Decimal("2.50")),
        (Sensitive[OrderId], OrderId("KX-1")),
        (Any, {"a": [1, 2.5, None, True, "包装"], "b": {}}),
        (Any, {"d": Decimal("1.10"), "t": (1, {2}), "w": dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("Asia/Shanghai"))}),
        (object, {1: "a", None: b"\xff", (1,): deque([1], maxlen=2)}),
        (JsonValue, {"$decimal": "1"}),
        (dict, {"$dict": {"$set": [1]}}),
        (dict[str, Any], {"$float": "nan"}),
        (dict[str, str], {"$dict": "a"}),
        (list, [{"$": 1}, {"$tuple": [1], "b": 2}]),
        (Box[Decimal], Box[Decimal](item=Decimal("1.0"))),
        (Tree, Tree(name="a", below=[Tree(name="b", below=[Tree(name="c")])])),
        (Loose, Loose(items=[1], score=1.5)),
    ],
)
def test_a_value_comes_back_equal_in_value_and_type(annotation: Any, value: Any) -> None:
    again = there_and_back(annotation, value)

    assert again == value
    assert type(again) is type(value)
    if isinstance(value, set):
        again, value = sorted(again, key=repr), sorted(value, key=repr)
    assert repr(again) == repr(value)


def test_a_moment_keeps_zone_fold_and_name() -> None:
    for zone in (None, dt.UTC, dt.timezone(dt.timedelta(hours=8), "CST"), ZoneInfo("America/New_York")):
        for fold in (0, 1):
            moment = dt.datetime(2024, 11, 3, 1, 30, fold=fold, tzinfo=zone)
            again = there_and_back(dt.datetime, moment)
            assert (again.tzinfo, again.fold, again.tzname(), again.utcoffset()) == (
                moment.tzinfo, moment.fold, moment.tzname(), moment.utcoffset(),
            )  # fmt: skip


def test_an_offset_made_by_pydantic_has_the_bytes_of_an_equal_timezone() -> None:
    contract = holder(dt.datetime)
    theirs = contract(v=dt.datetime(2024, 1, 1, tzinfo=TzInfo(28800)))
    ours = contract(v=dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=8))))

    assert theirs == ours
    assert encode(theirs) == encode(ours)
    assert decode(contract, encode(theirs)) == theirs


def test_aliases_do_not_reach_storage() -> None:
    class Aliased(Contract):
        order_id: str = Field(alias="orderId")
        price: Decimal = Field(validation_alias="preis", default=Decimal("1.0"))

    value = Aliased(orderId="KX-1")

    assert encode(value) == b'{"order_id":"KX-1","price":"1.0"}'
    assert decode(Aliased, encode(value)) == value


def test_a_cached_property_is_not_stored() -> None:
    class Cached(Contract):
        name: str

        @cached_property
        def upper(self) -> str:
            return self.name.upper()

    value = Cached(name="a")
    before = encode(value)
    assert value.upper == "A"

    assert encode(value) == before == b'{"name":"a"}'


def test_the_plan_is_plain_where_orjson_and_pydantic_are_exact() -> None:
    class Order(Contract):
        order_id: Pinned[str]
        amount: float
        items: list[Item]
        status: Status
        price: Decimal | None = None
        note: Literal["a", "b"] | None = None

    class Dated(Order):
        when: dt.datetime

    assert plan_of(Order).walked == ()
    assert plan_of(Order).by_pydantic
    assert plan_of(Dated).walked == ()
    assert not plan_of(Dated).by_pydantic
    assert [name for name, _ in plan_of(Dated).decoded] == ["status", "price", "when"]


# -- one form ------------------------------------------------------------------------------------


def test_bytes_depend_neither_on_insertion_nor_on_escapes() -> None:
    """FC-55: both spellings of a text have one form, and Chinese stays readable in it."""
    contract = holder(dict[str, str])
    texts = {"问题": "包装泄漏", "诉求": "换货", "备注": "👍 café"}
    plain = contract.model_validate_json(json.dumps({"v": texts}, ensure_ascii=False))
    escaped = contract.model_validate_json(json.dumps({"v": dict(reversed(texts.items()))}, ensure_ascii=True))

    assert encode(plain) == encode(escaped)
    assert "包装泄漏" in encode(plain).decode()
    assert b"\\u" not in encode(plain)


def test_sets_have_the_same_bytes_in_every_process() -> None:
    code = (
        "import decimal\nfrom typing import Any\nfrom statepact.contracts._contract import Contract\n"
        "from statepact.ledger._codec import encode\n"
        "class S(Contract):\n    a: set[str]\n    b: Any\n    c: frozenset[decimal.Decimal]\n"
        "words = {'包', 'b', 'a', 'zz', 'é', '\"'}\n"
        "print(encode(S(a=words, b={*words, 1, None}, c=frozenset(map(decimal.Decimal, range(9))))).hex())"
    )
    path = os.pathsep.join(filter(None, sys.path))
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(seen) == 1


# -- refused at write ----------------------------------------------------------------------------


class Sub(Item):
    pass


class Text(str):
    pass


class OtherZone(ZoneInfo):
    pass


class Day(dt.date):
    pass


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (complex, 1j, "v"),
        (Path, Path("/tmp"), "v"),
        (Colour, Colour.RED, "v"),
        (Any, Status.READY, "v"),
        (Any, {"a": [Item(sku="a", quantity=1)]}, "v.a.0"),
        (Any, {"a": 1j}, "v.a"),
        (Any, [Text("a")], "v.0"),
        (Any, defaultdict(list), "v"),
        (dict[str, Any], {"a": {1: Path("/")}}, "v.a.1"),
        (defaultdict[str, list[int]], defaultdict(dict), "v"),
        (list[dt.datetime], [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=OtherZone("UTC"))], "v.1"),
        (dt.date, Day(2024, 1, 1), "v"),
        pytest.param(int, 10**5000, "v", id="int-of-5000-digits"),
        pytest.param(Fraction, Fraction(10**5000, 3), "v", id="fraction-of-5000-digits"),
        (set[Item], {Item(sku="a", quantity=1)}, "v"),
    ],
)
def test_what_would_come_back_different_is_refused_with_its_path(annotation: Any, value: Any, path: str) -> None:
    contract = holder(annotation)

    with pytest.raises(NotExact) as caught:
        encode(contract(v=value))

    assert caught.value.path == path


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (Item, Sub(sku="a", quantity=1), "v"),
        (list[Item], [Item(sku="a", quantity=1), Sub(sku="a", quantity=1)], "v.1"),
        (str, Text("a"), "v"),
        (str, 1, "v"),
        (list[int], (1,), "v"),
        (list[str], [Status.READY], "v.0"),
        (int, True, "v"),
        (dict[str, int], {1: 1}, "v.1"),
        (float, math.nan, "v"),
        (dict[str, int], defaultdict(int), "v"),
    ],
)
def test_values_that_got_past_validation_are_refused_where_orjson_would_weaken_them(
    annotation: Any, value: Any, path: str
) -> None:
    """The walk that decides when orjson stumbles looks at exact types."""
    contract = holder(annotation)
    unchecked = contract.model_construct(v=value)

    with pytest.raises(Refused) as caught:
        plan_of(contract).root.encode(unchecked)
    assert ".".join(map(str, reversed(caught.value.path))) == path


def test_a_subclass_that_got_past_validation_is_refused() -> None:
    contract = holder(list[Item])

    with pytest.raises(NotExact) as caught:
        encode(contract.model_construct(v=[Item(sku="a", quantity=1), Sub(sku="a", quantity=1)]))

    assert caught.value.path == "v.1"


def test_a_subclass_in_a_field_of_its_base_is_refused_even_beside_its_own_field() -> None:
    class Both(Contract):
        base: Item
        sub: Sub

    sub = Sub(sku="a", quantity=1)
    with pytest.raises(NotExact) as caught:
        encode(Both.model_construct(base=sub, sub=sub))

    assert caught.value.path == "base"


def test_a_model_that_is_not_revalidated_is_not_trusted() -> None:
    """Pydantic takes an instance of an ordinary model as it is, whatever was assigned to it since."""
    contract = holder(Loose)
    loose = Loose(items=[1])
    loose.items = (1,)  # type: ignore[assignment]

    with pytest.raises(NotExact) as caught:
        encode(validate(contract, contract(v=loose)))

    assert caught.value.path == "v.items"


def test_undeclared_fields_are_refused() -> None:
    open_contract = type("Open", (Contract,), {"__annotations__": {"a": int}, "__module__": __name__}, extra="allow")

    assert encode(open_contract(a=1)) == b'{"a":1}'
    with pytest.raises(NotExact):
        encode(open_contract(a=1, b=2))


def test_validators_that_change_what_they_returned_before_are_found_at_write() -> None:
    class Shouting(Contract):
        name: Annotated[str, AfterValidator(lambda name: name + "!")]

    class Upper(Contract):
        name: Annotated[str, AfterValidator(str.upper)]
        day: Annotated[dt.date, BeforeValidator(lambda day: day)]

        @field_validator("name")
        @classmethod
        def short(cls, name: str) -> str:
            assert len(name) < 9
            return name

        @model_validator(mode="after")
        def both(self) -> Upper:
            return self

    value = Upper(name="a", day=dt.date(2024, 1, 1))
    assert decode(Upper, encode(value)) == value
    with pytest.raises(NotExact) as caught:
        encode(Shouting(name="a"))
    assert caught.value.path == "name"
    assert "a!" not in str(caught.value)


# -- field cases ---------------------------------------------------------------------------------


def test_fc_45_half_an_emoji_never_stops_a_session() -> None:
    """Written and read, the broken unit replaced and reported, valid emoji and the key kept."""
    contract = holder(dict[str, Any])
    value = contract(
        v={
            "a": "包装破损\ud83d",
            "b": ["ok \udc88 ok", "🧩", FAMILY],
            "k\udc97": 1,
            "pair": "\ud83e\udde9",
            "n": "x\x00",
        }
    )

    data, cleaned, _ = encode_clean(value)

    again = decode(contract, data)
    assert again.v == {"a": "包装破损�", "b": ["ok � ok", "🧩", FAMILY], "k�": 1, "pair": "🧩", "n": "x�"}  # type: ignore[attr-defined]
    assert sorted(cleaned) == ["v.a", "v.b.0", "v.k�", "v.n", "v.pair"]
    assert encode_clean(again)[:2] == (data, ())


@pytest.mark.parametrize(
    "stored",
    [
        b'{"v":{"a":"\\ud83d","b":"\\ud83e\\udde9 \\\\ud83d","c":"\\u0000"}}',
        b'{"v":{"a":"\xed\xa0\xbd","b":"\xf0\x9f\xa7\xa9 \\\\ud83d","c":"\\u0000"}}',
    ],
)
@pytest.mark.parametrize("annotation", [dict[str, str], dict[str, Any]])
def test_fc_45_an_old_record_with_half_an_emoji_loads_cleaned(stored: bytes, annotation: Any) -> None:
    contract = holder(annotation)

    read = decode_with_rest(contract, stored)

    assert read.value.v == {"a": "�", "b": "🧩 \\ud83d", "c": "�"}  # type: ignore[attr-defined]
    assert read.cleaned == ("v.a", "v.c")
    assert decode(contract, stored) == read.value


def test_fc_45_keys_that_become_equal_by_cleaning_are_all_kept() -> None:
    contract = holder(dict[str, int])
    items = [("a" + chr(0xD800), 1), ("a" + chr(0xD801), 2), ("a�", 3)]
    one = encode_clean(contract(v=dict(items)))
    other = encode_clean(contract(v=dict(reversed(items))))

    assert decode(contract, one.data).v == {"a�": 3, "a��": 1, "a���": 2}  # type: ignore[attr-defined]
    assert one.data == other.data


def test_fc_45_a_set_of_broken_texts_is_written() -> None:
    contract = holder(set[str])

    assert decode(contract, encode(contract(v={"a\ud800", "b"}))).v == {"a�", "b"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "limit", "left"),
    [
        (f"ab{FAMILY}cd", 4, "ab"),
        (f"ab{FAMILY}cd", 7, f"ab{FAMILY}"),
        (FAMILY, 3, ""),
        ("e\u0301e\u0301", 3, "e\u0301"),
        ("🇩🇪🇫🇷", 3, "🇩🇪"),
        ("👍🏽x", 1, ""),
        ("❤\ufe0fx", 1, ""),
        ("1\ufe0f\u20e3x", 2, ""),
        ("a\r\nb", 2, "a"),
        ("\u1112\u1161\u11ab한", 2, ""),
        ("🏴\U000e0067\U000e0062\U000e007fx", 3, ""),
        ("预算有限", 2, "预算"),
        ("abc", 0, ""),
        ("abc", 9, "abc"),
    ],
)
def test_fc_45_a_cut_splits_no_visible_character(text: str, limit: int, left: str) -> None:
    assert cut(text, limit) == left


def test_fc_45_good_text_is_returned_as_it_is() -> None:
    text = f"🧩 {FAMILY} 包装"
    value = [text, {text: (text,)}]

    assert clean(text) is text
    assert clean_value(value)[0] is value


def test_fc_47_64_bit_ids_keep_all_digits() -> None:
    class Ids(Contract):
        order: int
        ts_ns: int
        max: int
        open: Any

    ids = {"order": 2512292042121000001, "ts_ns": 1764489600123456789, "max": 9007199254740993}
    value = Ids(**ids, open=[*ids.values(), 2**64 + 1])

    assert decode(Ids, encode(value)) == value
    assert b"2512292042121000001" in encode(value)
    assert b"18446744073709551617" in encode(value)
    assert json.loads(encode(value))["order"] == ids["order"]


def test_fc_49_types_are_kept_or_refused() -> None:
    class Inner(Contract):
        status: Status

    class Middle(Contract):
        inner: Inner

    class State(Contract):
        middle: Middle
        last: deque[int]
        groups: defaultdict[str, list[int]]
        prices: set[Decimal]
        pair: tuple[int, str]
        part: Fraction

    value = State(
        middle=Middle(inner=Inner(status=Status.READY)),
        last=deque([1, 2, 3], maxlen=3),
        groups=defaultdict(list),
        prices={Decimal("19.90")},
        pair=(1, "a"),
        part=Fraction(1, 3),
    )
    again = decode(State, encode(validate(State, value)))

    assert again == value
    assert type(again.middle.inner.status) is Status
    again.last.append(4)
    again.groups["new"].append(1)
    assert list(again.last) == [2, 3, 4]
    assert again.groups == {"new": [1]}


def test_fc_49_data_of_a_class_that_no_longer_exists_is_a_named_error() -> None:
    old, new = holder(Item | Gift), holder(Item | Address)
    data = encode(old(v=Gift(sku="a", quantity=1)))

    with pytest.raises(CorruptState):
        decode(new, data)


def test_fc_51_not_a_number_is_refused_or_tagged_and_never_null() -> None:
    class Scores(Contract):
        score: float = Field(allow_inf_nan=True)
        more: list[Annotated[float, Field(allow_inf_nan=True)]]
        delta: float
        none: float | None
        open: Any

    value = Scores(score=math.nan, more=[math.inf, -math.inf, 1.5], delta=-0.0, none=None, open=[math.nan, -0.0])
    data = encode(validate(Scores, value))
    again = decode(Scores, data)

    assert math.isnan(again.score)
    assert again.more == value.more
    assert again.none is None
    assert math.copysign(1, again.delta) == -1 == math.copysign(1, again.open[1])
    assert math.isnan(again.open[0])
    assert json.loads(data, parse_constant=pytest.fail)["none"] is None
    with pytest.raises(ContractViolation):
        validate(holder(float), {"v": math.nan})


@pytest.mark.parametrize("annotation", [dict[str, Any], Any, dict, JsonValue])
@pytest.mark.parametrize("broken", ["", "\ud800"])
def test_fc_83_data_stays_data(annotation: Any, broken: str) -> None:
    payload = {
        "lc": {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
        "class": {"__class__": "subprocess.Popen"},
        "py": {"py/object": "x"},
        "tag": {"$decimal": "1.10"},
        "pairs": {"$pairs": [[1, 2]]},
        "text": broken,
    }
    contract = holder(annotation)

    again = decode(contract, encode(contract(v=payload))).v  # type: ignore[attr-defined]

    assert again == {**payload, "text": "�" if broken else ""}
    assert all(type(item) in (dict, str) for item in again.values())


@pytest.mark.parametrize(
    "stored",
    [
        b'{"v":{"$Popen":["true"]}}',
        b'{"v":{"$decimal":"x"}}',
        b'{"v":{"$datetime":"2024-01-01T00:00:00[../../etc/passwd]"}}',
        b'{"v":{"$set":[[1]]}}',
        b"\x80\x04\x95\x1d\x00",
        b'{"v":NaN}',
        b'{"v":1',
        b"",
        b"\xff",
    ],
)
def test_fc_83_what_the_codec_did_not_write_is_an_error(stored: bytes) -> None:
    with pytest.raises(CorruptState) as caught:
        decode(holder(Any), stored)

    assert "Popen" not in str(caught.value)
    assert "passwd" not in str(caught.value)


# -- reading -------------------------------------------------------------------------------------


def test_fields_of_a_newer_minor_are_left_out_and_carried_along() -> None:
    class NewAddress(Contract):
        street: str
        floor: int

    class NewOrder(Contract, version="1.1"):
        order_id: str
        gift: Decimal
        address: NewAddress
        lines: list[NewAddress]

    class OldAddress(Contract):
        street: str

    class OldOrder(Contract):
        order_id: str
        address: OldAddress | None
        lines: list[OldAddress]

    written = encode(
        NewOrder(
            order_id="KX-1",
            gift=Decimal("1.10"),
            address=NewAddress(street="a", floor=3),
            lines=[NewAddress(street="b", floor=4)],
        )
    )

    read = decode_with_rest(OldOrder, written)
    changed = read.value.model_copy(update={"order_id": "KX-2", "lines": []})
    back = decode_with_rest(OldOrder, encode(changed, rest=read.rest))

    assert read.rest == {"gift": "1.10", "address": {"floor": 3}}
    assert read.left_behind == ("lines.0.floor",)
    assert back.value == changed
    assert back.rest == read.rest
    assert decode(NewOrder, encode(changed, rest=read.rest)).gift == Decimal("1.10")


def test_a_missing_field_takes_its_default_or_is_a_violation() -> None:
    class Later(Contract):
        when: dt.datetime
        note: str = "none"

    assert decode(Later, b'{"when":"2024-01-01T00:00:00"}').note == "none"
    with pytest.raises(ContractViolation) as caught:
        decode(Later, b'{"note":1}')
    assert caught.value.missing_fields == ("when",)


@pytest.mark.parametrize(
    "annotation",
    [int, dt.datetime, list[Decimal], Item | Gift, Tree, dict[int, int], deque[int], Point, Address, Rights, Status],
)
@pytest.mark.parametrize(
    "stored", [b'{"v":"secret"}', b'{"v":{"a":"secret"}}', b'{"v":["secret"]}', b'["secret"]', b"7"]
)
def test_stored_bytes_of_another_shape_are_an_error_without_values(annotation: Any, stored: bytes) -> None:
    with pytest.raises((ContractViolation, CorruptState)) as caught:
        decode(holder(annotation), stored)

    assert "secret" not in str(caught.value)


def test_caps_hold_before_parsing_and_when_writing() -> None:
    tree = Tree(name="end")
    for _ in range(60):
        tree = Tree.model_construct(name="up", below=[tree])

    with pytest.raises(TooLarge):
        encode(tree)
    with pytest.raises(TooLarge):
        decode(Tree, b'{"name":"a","below":' + b"[" * 200 + b"]" * 200 + b"}")
    with pytest.raises(TooLarge):
        decode(Item, b'{"sku":"a","quantity":1}', max_bytes=10)
    with pytest.raises(TooLarge):
        encode(Item(sku="a" * 100, quantity=1), max_bytes=10)
    wide = Tree(name='[{"' * 50, below=[Tree(name="\\")] * 200)
    assert decode(Tree, encode(wide)) == wide


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises((NotExact, TooLarge)):
        encode(holder(Any).model_construct(v=loop))
