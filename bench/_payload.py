"""What a step hands on in every scenario: a typed record of a wanted size, different for each seed."""

import random
from typing import Any

import orjson

from statepact import Contract, Pinned

SMALL, LARGE = 938, 18_700
"""Bytes of a record as canonical JSON: the "1 KB" and the "20 KB" step."""

_WORDS = tuple(
    "blade lid motor leak refund exchange parcel courier invoice warranty spare grinder filter"  # noqa: SIM905
    " 退货 换货 漏水 刀片 客服 物流 订单 保修".split()
)
_OPTIONS = ("gift", "express", "insured", "fragile")


class Item(Contract, version="1.0"):
    sku: str
    name: str
    cents: int
    in_stock: bool


class Record(Contract, version="1.0"):
    case: str
    product: str
    score: float
    urgent: bool
    quantity: int
    options: dict[str, bool]
    items: list[Item]
    note: str


class Brief(Contract, version="1.0"):
    """The bounded pinned set: one fact that every later step is shown."""

    problem: Pinned[str]


def chain_contracts(length: int) -> list[type[Record]]:
    """Return one record contract for each step of a chain."""
    return [type(f"Record{n}", (Record,), {"__module__": __name__}) for n in range(length)]


def values(seed: int, size: int) -> dict[str, Any]:
    """Return the fields of a record whose canonical JSON has exactly `size` bytes."""
    chance = random.Random(seed)
    record: dict[str, Any] = {
        "case": f"C-{seed:08d}",
        "product": chance.choice(_WORDS),
        "score": chance.randrange(1000, 9999) / 10_000,
        "urgent": chance.random() < 0.5,
        "quantity": chance.randrange(1, 1000),
        "options": {name: chance.random() < 0.5 for name in _OPTIONS},
        "items": [],
        "note": "",
    }
    left = size - len(orjson.dumps(record))
    room_for_items = left * 0.55
    while room_for_items > 0:
        item = _item(chance)
        room = len(orjson.dumps(item)) + bool(record["items"])
        record["items"].append(item)
        room_for_items -= room
        left -= room
    note = b""
    while len(note) < left:
        note += f"{chance.choice(_WORDS)} ".encode()
    # A character that the cut goes through is filled up with full stops.
    text = note[:left].decode(errors="ignore")
    record["note"] = text + "." * (left - len(text.encode()))
    return record


def _item(chance: random.Random) -> dict[str, Any]:
    return {
        "sku": f"SKU-{chance.randrange(10**6):06d}",
        "name": chance.choice(_WORDS),
        "cents": chance.randrange(100, 10**5),
        "in_stock": chance.random() < 0.8,
    }
