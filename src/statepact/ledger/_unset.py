"""Which fields the writer of a value did not set: a default is nobody's word.

The fields of the contract itself are a mask in the header, so that whoever reads headers knows who has
set what. Fields of contracts nested in it (not of items in lists and dicts) are dotted paths in the
record of the entry, because the log does not know the fields of what is nested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

from statepact.ledger._containers import RecordNode
from statepact.ledger._nodes import Node
from statepact.ledger._plan import known_plan, plan_of
from statepact.ledger._tags import UnionNode

M = TypeVar("M", bound=BaseModel)

UNSET = "unset"
"""Key of the record under which nested paths stand, by the number of the cell."""

Unset = tuple[int, tuple[str, ...]]
"""A mask of the own fields, and the paths of nested ones."""

NOTHING: Unset = (0, ())


def unset_in(value: BaseModel) -> Unset:
    """Return which fields of a value its writer did not set."""
    cls = type(value)
    plan = known_plan(cls) or plan_of(cls)
    given = value.__pydantic_fields_set__
    mask = 0
    if len(given) < plan.size:
        for number, name in enumerate(plan.root.fields):
            mask |= (name not in given) << number
    nested = _nested(cls)
    return (mask, tuple(_paths(value, nested, given))) if nested else (mask, ())


def mark_unset(value: M, mask: int, paths: Iterable[str] = (), names: Iterable[str] | None = None) -> M:
    """Return a value that was just decoded, its `model_fields_set` as the writer's.

    `names` are the fields as the log numbers them, by default those of the value's class.
    """
    if mask:
        given = value.__pydantic_fields_set__
        for number, name in enumerate(type(value).model_fields if names is None else names):
            if mask >> number & 1:
                given.discard(name)
    for path in paths:
        *inside, name = path.split(".")
        place: Any = value
        for part in inside:
            place = getattr(place, part, None)
        if isinstance(place, BaseModel):
            place.__pydantic_fields_set__.discard(name)
    return value


def unset_paths(record: Mapping[str, Any], cell: int) -> tuple[str, ...]:
    """Return the nested paths that the record of an entry names for one of its cells."""
    return tuple(map(str, record.get(UNSET, {}).get(str(cell), ())))


@cache
def _nested(cls: type[BaseModel]) -> tuple[str, ...]:
    """Return the fields that hold models with fields which need not be set, at any depth."""
    return tuple(name for name, node in plan_of(cls).root.fields.items() if _may_be_unset(node, {cls}))


def _may_be_unset(node: Node, seen: set[type]) -> bool:
    members = node.children if isinstance(node, UnionNode) else [node]
    for member in members:
        if not isinstance(member, RecordNode) or not member.is_model or member.cls in seen:
            continue
        if any(not info.is_required() for info in member.cls.model_fields.values()):  # type: ignore[attr-defined]
            return True
        if any(_may_be_unset(child, {*seen, member.cls}) for child in member.fields.values()):
            return True
    return False


def _paths(value: BaseModel, names: Iterable[str], given: set[str], before: str = "") -> Iterator[str]:
    for name in names:
        part = getattr(value, name)
        if name not in given or not isinstance(part, BaseModel):
            continue  # a default as a whole: nothing in it was set
        inside = part.__pydantic_fields_set__
        fields = type(part).model_fields
        if len(inside) < len(fields):
            yield from (f"{before}{name}.{field}" for field in fields if field not in inside)
        yield from _paths(part, _nested(type(part)), inside, f"{before}{name}.")
