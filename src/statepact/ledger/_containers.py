"""Nodes for what holds other values: sequences, maps, records."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError

from statepact.ledger._nodes import OTHER_CLASS, Node, canonical
from statepact.ledger._wire import UNREADABLE, Refused


def read_python(cls: Any, values: Any) -> Any:
    """Validate decoded values by field name, leaving out what a newer minor version added."""
    return cls.__pydantic_validator__.validate_python(values, extra="ignore", by_alias=False, by_name=True)


class SequenceNode(Node):
    """list, tuple of any length, set, frozenset: a JSON array of one kind of item."""

    def __init__(self, cls: type, item: Node) -> None:
        super().__init__(f"{cls.__name__}[{item.label}]", frozenset({"array"}), frozenset({cls}))
        self.children = [item]
        self._cls, self.item = cls, item
        self.sorted = cls in (set, frozenset)
        self.native = cls is list

    def encode(self, value: Any) -> Any:
        if type(value) is not self._cls:
            raise Refused(value, OTHER_CLASS)
        items = encode_items(self.item, value)
        # Sets iterate in another order in each process; sorted by bytes they always agree.
        return sorted(items, key=canonical) if self.sorted else items

    def decode(self, raw: Any) -> Any:
        if self.as_parsed or type(raw) is not list:
            return raw
        try:
            return self._cls(map(self.item.decode, raw))
        except TypeError:  # an item that does not fit may have no hash
            return raw


def encode_items(item: Node, values: Any) -> list[Any]:
    """Encode each value with one node; a refusal says at which position."""
    encode = item.encode
    result: list[Any] = []
    try:
        for value in values:
            result.append(encode(value))  # noqa: PERF401 - its length says where a refusal was
    except Refused as refused:
        refused.path.append(len(result))
        raise
    return result


class DequeNode(Node):
    """A deque, whose bound belongs to the value."""

    by_pydantic = native = False

    def __init__(self, item: Node) -> None:
        super().__init__(f"deque[{item.label}]", frozenset({"object"}), frozenset({deque}))
        self.children = [item]
        self.item = item

    def encode(self, value: Any) -> Any:
        if type(value) is not deque:
            raise Refused(value, OTHER_CLASS)
        return {"items": encode_items(self.item, value), "maxlen": value.maxlen}

    def decode(self, raw: Any) -> Any:
        try:
            return deque(map(self.item.decode, raw["items"]), maxlen=raw["maxlen"])
        except UNREADABLE:
            return raw


class FixedTupleNode(Node):
    """`tuple[A, B]` and named tuples: a JSON array with a node for each place."""

    native = False

    def __init__(self, cls: type, items: list[Node], make: Callable[[list[Any]], Any]) -> None:
        name = f"tuple[{','.join(item.label for item in items)}]" if cls is tuple else cls.__name__
        super().__init__(name, frozenset({"array"}), frozenset({cls}))
        self.children, self._make = items, make
        self.direct = self.by_pydantic = cls is tuple

    def encode(self, value: Any) -> Any:
        if type(value) not in self.types or len(value) != len(self.children):
            raise Refused(value, OTHER_CLASS)
        result: list[Any] = []
        for item, part in zip(self.children, value, strict=True):
            try:
                result.append(item.encode(part))
            except Refused as refused:
                refused.path.append(len(result))
                raise
        return result

    def decode(self, raw: Any) -> Any:
        if type(raw) is not list or len(raw) != len(self.children):
            return raw
        return self._make([item.decode(part) for item, part in zip(self.children, raw, strict=True)])


class MapNode(Node):
    """A dict: a JSON object if keys are text, else an array of pairs sorted by key."""

    def __init__(self, key: Node, value: Node, *, factory: type | None = None) -> None:
        self.textual = key.scalar and key.kinds == {"string"}
        name = "dict" if factory is None else "defaultdict"
        label = f"{name}[{key.label},{value.label}]"
        cls = dict if factory is None else defaultdict
        super().__init__(label, frozenset({"object" if self.textual else "array"}), frozenset({cls}))
        self.children = [key, value]
        self._factory, self.key, self.value = factory, key, value
        self.direct = self.by_pydantic = self.native = self.textual and factory is None

    def encode(self, value: Any) -> Any:
        if type(value) not in self.types:
            raise Refused(value, OTHER_CLASS)
        if self._factory is not None and value.default_factory is not self._factory:
            raise Refused(
                value,
                "has a default factory that the contract does not name, and a function is not data",
                hint=f"the type gives {self._factory.__name__}; use a plain dict for others",
            )
        pairs: list[Any] = []
        for key, item in value.items():
            try:
                pairs.append([self.key.encode(key), self.value.encode(item)])
            except Refused as refused:
                refused.path.append(str(key))
                raise
        return dict(pairs) if self.textual else sorted(pairs, key=lambda pair: canonical(pair[0]))

    def decode(self, raw: Any) -> Any:
        if self.as_parsed:
            return raw
        try:
            pairs = raw.items() if self.textual else raw
            result = {self.key.decode(key): self.value.decode(item) for key, item in pairs}
        except (*UNREADABLE, AttributeError):
            return raw
        return result if self._factory is None else defaultdict(self._factory, result)


class RecordNode(Node):
    """A model or a TypedDict: a JSON object by field names, never by aliases."""

    def __init__(self, cls: type, label: str) -> None:
        super().__init__(label, frozenset({"object"}), frozenset({cls if issubclass(cls, BaseModel) else dict}))
        self.cls = cls
        self.is_model = issubclass(cls, BaseModel)
        self.fields: dict[str, Node] = {}
        self.required: frozenset[str] = frozenset()
        self._decoded: list[tuple[str, Node]] = []
        self.built = False
        """Whether `decode` makes the instance itself: below a tag, where a dict would be ambiguous again."""

    def settle(self) -> None:
        """As for every node; fields that stand as parsed are then left alone."""
        super().settle()
        self._decoded = [
            (name, node) for name, node in self.fields.items() if not all(n.native for n in node.reachable())
        ]

    def encode(self, value: Any) -> Any:
        if type(value) not in self.types:
            raise Refused(value, OTHER_CLASS)
        if self.is_model and value.__pydantic_extra__:
            raise Refused(value, "holds undeclared fields", hint="declare them, or use a dict field")
        values = value.__dict__ if self.is_model else value
        if not self.required <= values.keys():
            raise Refused(value, "was built without all its fields")
        if not self.is_model and not values.keys() <= self.fields.keys():
            raise Refused(value, "holds undeclared keys")
        result: dict[str, Any] = {}
        # Other names in a model's `__dict__` are cached properties: derived, so not stored.
        for name, node in self.fields.items():
            if name in values:
                try:
                    result[name] = node.encode(values[name])
                except Refused as refused:
                    refused.path.append(name)
                    raise
        return result

    def decode(self, raw: Any) -> Any:
        if self.as_parsed or type(raw) is not dict:
            return raw
        for name, node in self._decoded:
            if name in raw:
                raw[name] = node.decode(raw[name])
        return self._build(raw) if self.built else raw

    def _build(self, values: dict[str, Any]) -> Any:
        try:
            return read_python(self.cls, values)
        except ValidationError:
            # Whoever validates the whole finds the same problem again and knows its full path.
            return values
