"""From a type annotation to the node that writes and reads it."""

from __future__ import annotations

import typing
from collections import defaultdict, deque
from collections.abc import Iterable
from datetime import date, datetime
from enum import Enum, Flag
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    JsonValue,
    NaiveDatetime,
    PastDate,
    PastDatetime,
    RootModel,
)
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType, is_typeddict

from statepact.errors import SetupError
from statepact.ledger._containers import DequeNode, FixedTupleNode, MapNode, RecordNode, SequenceNode
from statepact.ledger._nodes import (
    ChoiceNode,
    FlagNode,
    FloatNode,
    IntNode,
    Node,
    ScalarNode,
    TextNode,
    UnsupportedNode,
    enum_wires,
)
from statepact.ledger._tags import OpenNode, UnionNode
from statepact.ledger._wire import TEXT_FORMS

# Python 3.12 has its own class for `type X = ...`; typing_extensions only passes it on from 3.14.
_ALIASES = (TypeAliasType, *filter(None, [getattr(typing, "TypeAliasType", None)]))
_SCALARS: dict[Any, tuple[str, str]] = {str: ("str", "string"), bool: ("bool", "bool"), NoneType: ("none", "null")}
_FACTORIES = (int, float, str, bool, list, dict, set, frozenset, tuple)
_UNKNOWN = "is of a type that has no exact form in storage"
_UNKNOWN_HINT = (
    "use a Contract, a builtin type, Decimal, datetime, UUID, Fraction or an Enum of text or integers; "
    "list for Sequence, dict for Mapping, Sensitive[str] for SecretStr"
)
# Pydantic's names for checked dates. Those that ask for the future are missing on purpose: what may
# be written today could not be read tomorrow.
_CHECKED: dict[Any, type] = {AwareDatetime: datetime, NaiveDatetime: datetime, PastDatetime: datetime, PastDate: date}


class Builder:
    """Builds the nodes of one plan. A model has one node, so that recursive contracts end."""

    def __init__(self) -> None:
        self.records: dict[type, RecordNode] = {}
        self._open: set[Any] = set()

    def record(self, cls: type[BaseModel]) -> RecordNode:
        """Return the node of a model class."""
        if cls in self.records:
            return self.records[cls]
        if not cls.__pydantic_complete__:
            cls.model_rebuild()
        node = self.records[cls] = RecordNode(cls, getattr(cls, "contract_name", cls.__name__))
        config = cls.model_config
        # Without revalidation an instance may hold anything that was assigned after it was made.
        trusted = config.get("revalidate_instances") == "always" and config.get("extra") != "allow"
        node.direct = trusted and not config.get("use_enum_values")
        if not trusted or _runs_code_of_users(cls):
            node.checked = True
        if _runs_code_of_users(cls, before=True):
            node.direct = node.by_pydantic = False
        finite = config.get("allow_inf_nan", True) is False
        for name, info in cls.model_fields.items():
            node.fields[name] = self.node(info.annotation, info.metadata, finite=finite)
        node.required = frozenset(node.fields)
        node.children = list(node.fields.values())
        return node

    def node(self, annotation: Any, metadata: Iterable[Any] = (), *, finite: bool) -> Node:
        """Return the node of an annotation; `finite` says that floats in it are never NaN or infinite."""
        metadata = list(_flat(metadata))
        for item in metadata:
            allowed = getattr(item, "allow_inf_nan", None)
            finite = finite if allowed is None else not allowed
        node = self._bare(annotation, finite)
        for item in metadata:
            # This hook may replace the whole reading of a field. Of Pydantic's own only checks
            # that run after it leave the JSON as our reading expects it.
            if hasattr(type(item), "__get_pydantic_core_schema__"):
                node.checked = True
                if not isinstance(item, AfterValidator):
                    node.direct = node.by_pydantic = False
        return node

    def _bare(self, annotation: Any, finite: bool) -> Node:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            return self.node(arguments[0], arguments[1:], finite=finite)
        if origin in (typing.Required, typing.NotRequired, typing.Final):
            return self._bare(arguments[0], finite)
        if annotation in (Any, object, JsonValue):
            return OpenNode()
        if isinstance(annotation, TypeVar):
            return OpenNode() if annotation.__bound__ is None else self._bare(annotation.__bound__, finite)
        if isinstance(annotation, typing.NewType):
            return self._bare(annotation.__supertype__, finite)
        if isinstance(annotation, _ALIASES):
            return self._alias(annotation, finite)
        if annotation is None:
            annotation = NoneType
        if origin in (Union, UnionType):
            return self._union([self._bare(argument, finite) for argument in arguments])
        if origin is Literal:
            return _literal(arguments)
        if origin is None and isinstance(annotation, type):
            return self._class(annotation, finite)
        return self._generic(origin, [self._bare(a, finite) if a is not ... else None for a in arguments], arguments)

    def _alias(self, alias: Any, finite: bool) -> Node:
        if alias in self._open:
            return UnsupportedNode("is of a recursive type alias", hint="use a recursive Contract, or Any")
        self._open.add(alias)
        try:
            return self._bare(alias.__value__, finite)
        finally:
            self._open.discard(alias)

    def _union(self, members: list[Node]) -> Node:
        if any(isinstance(member, OpenNode) for member in members):
            return OpenNode()
        return UnionNode(members)

    def _class(self, cls: Any, finite: bool) -> Node:
        if cls in _SCALARS:
            label, kind = _SCALARS[cls]
            return ScalarNode(label, frozenset({kind}), frozenset({cls}))
        if cls is int:
            return IntNode()
        if cls is float:
            return FloatNode(finite=finite)
        cls = _CHECKED.get(cls, cls)
        if cls in TEXT_FORMS:
            return TextNode(cls, TEXT_FORMS[cls])
        if cls in (list, set, frozenset, tuple):
            return SequenceNode(cls, OpenNode())
        if cls is dict:
            return OpenNode()  # its keys are open too
        if cls is deque:
            return DequeNode(OpenNode())
        if issubclass(cls, Enum):
            return _enum(cls)
        if is_typeddict(cls):
            return self._typed_dict(cls)
        if issubclass(cls, RootModel):
            return UnsupportedNode("is a RootModel", hint="use a Contract with a field")
        if issubclass(cls, BaseModel):
            return self.record(cls)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            hints = _hints(cls)
            items = [self._bare(hints.get(name, Any), False) for name in cls._fields]
            return FixedTupleNode(cls, items, lambda parts: cls(*parts))
        return UnsupportedNode(_UNKNOWN, hint=_UNKNOWN_HINT)

    def _generic(self, origin: Any, nodes: list[Any], arguments: tuple[Any, ...]) -> Node:
        if origin is list:
            return SequenceNode(list, nodes[0])
        if origin in (set, frozenset):
            if any(isinstance(node, RecordNode) for node in nodes[0].reachable()):
                return UnsupportedNode("is a set of models", hint="use a list")
            return SequenceNode(origin, nodes[0])
        if origin is tuple:
            if len(nodes) == 2 and nodes[1] is None:
                return SequenceNode(tuple, nodes[0])
            return FixedTupleNode(tuple, nodes, tuple)
        if origin is deque:
            return DequeNode(nodes[0])
        if origin is dict:
            if any(isinstance(node, RecordNode) for node in nodes[0].reachable()):
                return UnsupportedNode("is a dict with models as keys", hint="use a list of pairs")
            return MapNode(nodes[0], nodes[1])
        if origin is defaultdict:
            factory = typing.get_origin(arguments[1]) or arguments[1]
            if factory in _FACTORIES:
                return MapNode(nodes[0], nodes[1], factory=factory)
        return UnsupportedNode(_UNKNOWN, hint=_UNKNOWN_HINT)

    def _typed_dict(self, cls: Any) -> Node:
        if cls in self.records:
            return self.records[cls]
        node = self.records[cls] = RecordNode(cls, cls.__name__)
        for name, hint in _hints(cls).items():
            node.fields[name] = self._bare(hint, False)
        node.required = frozenset(cls.__required_keys__)
        node.children = list(node.fields.values())
        return node


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise SetupError(
            f"the types of {cls.__name__} cannot be resolved: {error}",
            hint="define it at module level, or without postponed annotations",
        ) from None


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from item.metadata
        else:
            yield item


def _literal(values: tuple[Any, ...]) -> Node:
    wires: list[tuple[Any, Any]] = []
    for value in values:
        if type(value) in (str, int, bool, NoneType):
            wires.append((value, value))
        elif isinstance(value, Enum) and type(value.value) in (str, int):
            wires.append((value, value.value))
        else:
            return UnsupportedNode("is a literal that has no exact form in storage")
    node = ChoiceNode("literal", wires)
    if not node.unique:
        return UnsupportedNode("is a literal whose values look alike in JSON")
    # Pydantic compares 1 with True and an enum with its value, so mixed ones are read here.
    node.by_pydantic = node.native and not any(type(value) is bool for value in values)
    node.direct = all(not isinstance(value, Enum) or type(value.value) in (str, int) for value in values)
    return node


def _enum(cls: type[Enum]) -> Node:
    if issubclass(cls, Flag):
        return FlagNode(cls)
    wires = enum_wires(cls)
    if not wires:
        return UnsupportedNode("is an enum whose values are not text or integers")
    node = ChoiceNode(cls.__name__, wires)
    node.by_pydantic = len(node.kinds) == 1
    return node


def _runs_code_of_users(cls: type[BaseModel], *, before: bool = False) -> bool:
    """Whether validators of the user run when an instance is made; `before`: on the raw input."""
    decorators = cls.__pydantic_decorators__
    if decorators.validators or decorators.root_validators:
        return True
    modes = {item.info.mode for item in decorators.field_validators.values()}
    modes |= {item.info.mode for item in decorators.model_validators.values()}
    if cls.__init__ is not BaseModel.__init__:
        return True
    if before:
        return bool(modes - {"after"})
    return bool(modes) or (cls.model_post_init is not BaseModel.model_post_init and not cls.__private_attributes__)
