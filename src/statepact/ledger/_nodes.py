"""How one place of a contract is written as JSON and read back, by its declared type.

A node never trusts a value: `encode` looks at exact types all the way down and raises `Refused`
for what would come back different. `decode` turns parsed JSON into what Pydantic's Python mode
takes and passes on what does not fit, so that Pydantic reports it together with everything else.
Nothing in the data chooses a class; a node only makes the types that its contract names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum, Flag
from typing import Any

import orjson

from statepact.contracts._clean import clean_value
from statepact.ledger._wire import UNREADABLE, Refused, TextForm

MAX_INT_BITS = 14_280
"""Above it an integer has more than the 4300 digits that Python and Pydantic read."""

OTHER_CLASS = "is not the type that the contract names here, so it would come back as another"


def canonical(wire: Any) -> bytes:
    """Return the canonical bytes of an encoded value, made of what JSON knows and nothing else."""
    try:
        return orjson.dumps(wire, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return orjson.dumps(finished(clean_value(wire)[0]), option=orjson.OPT_SORT_KEYS)


def finished(wire: Any) -> Any:
    """Return an encoded value with the integers that orjson refuses spelled out as digits."""
    kind = type(wire)
    if kind is dict:
        return {key: finished(item) for key, item in wire.items()}
    if kind is list:
        return [finished(item) for item in wire]
    if kind is int and not -(2**63) <= wire < 2**64:
        return orjson.Fragment(str(wire).encode())
    return wire


class Node:
    """One place of a contract. The flags say which short cuts are exact for this node alone."""

    direct: bool = True
    """orjson with our hook writes it as `encode` would."""

    by_pydantic: bool = True
    """Pydantic's strict JSON mode reads it exactly."""

    native: bool = True
    """Parsed JSON needs no `decode`."""

    checked: bool = False
    """Code of the user may change or refuse its values when they are read."""

    as_parsed: bool = False
    """Settled once the graph stands: neither this node nor one below it needs `decode`."""

    scalar: bool = False
    """JSON's own scalar: its value says its type, so it needs no tag."""

    def __init__(self, label: str, kinds: frozenset[str], types: frozenset[type]) -> None:
        self.label = label
        """Its name in a tag; stays the same while data lives."""
        self.kinds = kinds
        """JSON kinds of its wire form."""
        self.types = types
        """Exact types of the values that it takes."""
        self.children: list[Node] = []

    def encode(self, value: Any) -> Any:
        if type(value) not in self.types:
            raise Refused(value, OTHER_CLASS)
        return value

    def decode(self, raw: Any) -> Any:
        return raw

    def settle(self) -> None:
        """Look at the finished graph once; recursive contracts are not finished while it is built."""
        self.as_parsed = all(node.native for node in self.reachable())

    def reachable(self) -> Iterator[Node]:
        """Yield this node and all below it, each once."""
        seen: set[int] = set()
        queue = [self]
        while queue:
            node = queue.pop()
            if id(node) not in seen:
                seen.add(id(node))
                queue.extend(node.children)
                yield node


class ScalarNode(Node):
    """str, bool and None: what JSON writes and reads as it is."""

    scalar = True


class IntNode(Node):
    scalar = True

    def __init__(self) -> None:
        super().__init__("int", frozenset({"number"}), frozenset({int}))

    def encode(self, value: Any) -> Any:
        if type(value) is not int:
            raise Refused(value, OTHER_CLASS)
        if value.bit_length() > MAX_INT_BITS:
            raise Refused(value, "has more than 4300 digits, which no JSON reader takes")
        return value


class FloatNode(Node):
    """A float; tagged if it is not a number, because JSON has no word for that."""

    def __init__(self, *, finite: bool) -> None:
        super().__init__(
            "float", frozenset({"number"}) if finite else frozenset({"number", "object"}), frozenset({float})
        )
        self.finite = self.direct = self.by_pydantic = self.native = self.scalar = finite

    def encode(self, value: Any) -> Any:
        if type(value) is not float:
            raise Refused(value, OTHER_CLASS)
        if math.isfinite(value):
            return value
        if self.finite:
            raise Refused(value, "is not a finite number", hint="Field(allow_inf_nan=True) allows it in one field")
        return {"$float": str(value)}

    def decode(self, raw: Any) -> Any:
        if type(raw) is dict and raw.keys() == {"$float"} and raw["$float"] in ("nan", "inf", "-inf"):
            return float(raw["$float"])
        return raw


class ChoiceNode(Node):
    """Literal and Enum: a fixed set of values, each with its own JSON scalar."""

    def __init__(self, label: str, wires: list[tuple[Any, Any]]) -> None:
        kinds = frozenset(json_kind(wire) for _, wire in wires)
        super().__init__(label, kinds, frozenset(type(value) for value, _ in wires))
        self._write = {(type(value), value): wire for value, wire in wires}
        self._read = {(type(wire), wire): value for value, wire in wires}
        # Literals of plain values need no tag beside `str`: the value says its own type.
        self.scalar = self.native = all(value is wire for value, wire in wires)
        self.unique = len(self._read) == len(self._write)

    def encode(self, value: Any) -> Any:
        try:
            return self._write[type(value), value]
        except (KeyError, TypeError):
            raise Refused(value, OTHER_CLASS) from None

    def decode(self, raw: Any) -> Any:
        try:
            return self._read[type(raw), raw]
        except (KeyError, TypeError):
            return raw


class FlagNode(Node):
    by_pydantic = native = False

    def __init__(self, cls: type[Flag]) -> None:
        super().__init__(cls.__name__, frozenset({"number"}), frozenset({cls}))
        self._cls = cls

    def encode(self, value: Any) -> Any:
        return super().encode(value).value

    def decode(self, raw: Any) -> Any:
        try:
            return self._cls(raw)
        except UNREADABLE:
            return raw


class TextNode(Node):
    """A type that is written as text: Decimal, datetime, bytes, ..."""

    native = False

    def __init__(self, cls: type, form: TextForm) -> None:
        super().__init__(form.name, frozenset({"string"}), frozenset({cls}))
        self._cls, self._form = cls, form
        self.by_pydantic = form.pydantic_reads

    def encode(self, value: Any) -> Any:
        if type(value) is not self._cls:
            raise Refused(value, OTHER_CLASS)
        return written(value, self._form)

    def decode(self, raw: Any) -> Any:
        if type(raw) is not str:
            return raw
        try:
            return self._form.read(raw)
        except UNREADABLE:
            return raw


def written(value: Any, form: TextForm) -> str:
    """Return the text of a value, or refuse what has too many digits to be read again."""
    try:
        return form.write(value)
    except ValueError:
        raise Refused(value, "has more digits than can be read again") from None


class UnsupportedNode(Node):
    """A type that has no exact form here: every value is refused when it is written."""

    direct = by_pydantic = False

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__("unsupported", frozenset({"any"}), frozenset())
        self._reason, self._hint = reason, hint

    def encode(self, value: Any) -> Any:
        raise Refused(value, self._reason, hint=self._hint)


def json_kind(raw: Any) -> str:
    """Return the JSON kind of a parsed value."""
    return _KINDS.get(type(raw), "any")


_KINDS = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


def enum_wires(cls: type[Enum]) -> list[tuple[Any, Any]] | None:
    """Return members with their values, or `None` if a value is not plain text or a number."""
    members = [(member, member.value) for member in cls]
    return members if all(type(value) in (str, int) for _, value in members) else None
