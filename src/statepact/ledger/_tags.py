"""Nodes for places where the JSON alone does not say the type: unions and open fields.

There, and only there, a value that is not JSON's own is written as an object with one key:
`{"$decimal": "1.10"}`. In an open field a user's own dict of that look is wrapped in `{"$dict": ...}`
and comes back as the dict it was. A tag selects among what the contract (or, in open fields, the
short list below) already names; an unknown one is an error and never a class to look for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from statepact.ledger._containers import FixedTupleNode, MapNode, RecordNode, SequenceNode
from statepact.ledger._nodes import MAX_INT_BITS, OTHER_CLASS, Node, canonical, json_kind, written
from statepact.ledger._wire import TEXT_FORMS, UNREADABLE, Refused

MAX_OPEN_DEPTH = 80
"""Deepest nesting of an open value, counted in the JSON that is written; the rest is for its contract."""


class UnknownTag(ValueError):
    """Stored data carries a tag that was not written by this codec for this contract."""


class UnionNode(Node):
    """One of several types; tagged where their JSON looks alike.

    Which member encodes a value does not matter for exactness: each checks exact types all the way
    down and reads back what it wrote. So the first that takes the value writes it.
    """

    def __init__(self, members: list[Node]) -> None:
        kinds = [kind for member in members if not member.scalar for kind in member.kinds if kind != "any"]
        scalar_kinds = {kind for member in members if member.scalar for kind in member.kinds}
        self.tagged = len(kinds) > len(set(kinds)) or not scalar_kinds.isdisjoint(kinds)
        super().__init__(
            "|".join(member.label for member in members),
            frozenset(scalar_kinds | ({"object"} if self.tagged else set(kinds))),
            frozenset().union(*(member.types for member in members)),
        )
        self.children = members
        self.direct = not self.tagged
        self.native = not self.tagged
        self.by_pydantic = not self.tagged and _pydantic_chooses(members)
        self._by_kind = {kind: member for member in reversed(members) for kind in member.kinds}
        self._by_tag: dict[str, Node] = {}
        self._tags: dict[int, str] = {}
        if self.tagged:
            for member in members:
                if not member.scalar:
                    tag = f"${member.label}"
                    while tag in self._by_tag:
                        tag += "+"
                    self._by_tag[tag] = member
                    self._tags[id(member)] = tag

    def settle(self) -> None:
        """As for every node; a dict below a tag would be ambiguous again, so models there are built."""
        if self.tagged:
            for node in self.reachable():
                if isinstance(node, RecordNode) and node.is_model:
                    node.built, node.native = True, False
        super().settle()

    def encode(self, value: Any) -> Any:
        kind, refusal = type(value), None
        for member in self.children:
            if kind in member.types:
                try:
                    wire = member.encode(value)
                except Refused as refused:
                    refusal = refused
                    continue
                tag = self._tags.get(id(member))
                return wire if tag is None else {tag: wire}
        raise refusal or Refused(value, OTHER_CLASS)

    def decode(self, raw: Any) -> Any:
        if self.tagged and type(raw) is not dict:
            return raw
        member, wire = self.member_of(raw)
        return raw if member is None else member.decode(wire)

    def member_of(self, raw: Any) -> tuple[Node | None, Any]:
        """Return the member that wrote `raw`, with what it wrote."""
        if not self.tagged:
            return self._by_kind.get(json_kind(raw)), raw
        if type(raw) is not dict:
            return None, raw
        if len(raw) == 1:
            ((tag, wire),) = raw.items()
            if tag in self._by_tag:
                return self._by_tag[tag], wire
        raise UnknownTag("a value of a union has no tag of its members")


def _pydantic_chooses(members: list[Node]) -> bool:
    """Whether Pydantic finds the member from strict JSON: one type beside None, or JSON's own kinds only."""
    others = [member for member in members if member.kinds != {"null"}]
    plain = (SequenceNode, MapNode, RecordNode, FixedTupleNode)
    return len(others) <= 1 or all(member.scalar or isinstance(member, plain) for member in others)


class OpenNode(Node):
    """Any, object, a bare dict or list's items: JSON's own types, and builtin types under a tag."""

    direct = by_pydantic = native = False

    def __init__(self) -> None:
        super().__init__("any", frozenset({"any"}), frozenset())

    def encode(self, value: Any) -> Any:
        return _write_open(value, 0)

    def decode(self, raw: Any) -> Any:
        return _read_open(raw)


def _write_open(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int and value.bit_length() <= MAX_INT_BITS:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if depth >= MAX_OPEN_DEPTH:
        raise Refused(value, f"is nested deeper than {MAX_OPEN_DEPTH} levels")
    if kind is dict:
        return _write_open_dict(value, depth)
    if kind is list:
        return _write_items(value, depth)
    if kind is tuple:
        return {"$tuple": _write_items(value, depth + 1)}
    if kind is set or kind is frozenset:
        return {f"${kind.__name__}": sorted(_write_items(value, depth + 1), key=canonical)}
    if kind is deque:
        return {"$deque": {"items": _write_items(value, depth + 2), "maxlen": value.maxlen}}
    form = TEXT_FORMS.get(kind)
    if form is None:
        raise Refused(
            value,
            "has no exact form in an open field (Any), because no class is ever looked up by name",
            hint="declare the field with this type, or store what it is made of",
        )
    return {f"${form.name}": written(value, form)}


def _write_items(values: Any, depth: int) -> list[Any]:
    result: list[Any] = []
    try:
        for value in values:
            result.append(_write_open(value, depth + 1))  # noqa: PERF401 - its length says where
    except Refused as refused:
        refused.path.append(len(result))
        raise
    return result


def _write_open_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    textual = all(type(key) is str for key in value)
    pairs: list[Any] = []
    depth += 1 if textual else 3
    for key, item in value.items():
        try:
            pairs.append([key if textual else _write_open(key, depth), _write_open(item, depth)])
        except Refused as refused:
            refused.path.append(str(key))
            raise
    if not textual:
        return {"$pairs": sorted(pairs, key=lambda pair: canonical(pair[0]))}
    wire = dict(pairs)
    return {"$dict": wire} if _looks_tagged(wire) else wire


def _looks_tagged(wire: dict[str, Any]) -> bool:
    return len(wire) == 1 and next(iter(wire)).startswith("$")


def _read_open(raw: Any) -> Any:
    kind = type(raw)
    if kind is list:
        return [_read_open(item) for item in raw]
    if kind is not dict:
        return raw
    if not _looks_tagged(raw):
        return {key: _read_open(item) for key, item in raw.items()}
    ((tag, wire),) = raw.items()
    try:
        return _OPEN_TAGS[tag](wire)
    except (*UNREADABLE, AttributeError):
        raise UnknownTag("a value in an open field has a tag that this version does not know") from None


def _read_open_float(wire: Any) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[wire]


_OPEN_TAGS: dict[str, Callable[[Any], Any]] = {
    "$dict": lambda wire: {key: _read_open(item) for key, item in wire.items()},
    "$pairs": lambda wire: {_read_open(key): _read_open(item) for key, item in wire},
    "$tuple": lambda wire: tuple(map(_read_open, wire)),
    "$set": lambda wire: set(map(_read_open, wire)),
    "$frozenset": lambda wire: frozenset(map(_read_open, wire)),
    "$deque": lambda wire: deque(map(_read_open, wire["items"]), maxlen=wire["maxlen"]),
    "$float": _read_open_float,
    **{f"${form.name}": form.read for form in TEXT_FORMS.values()},
}
