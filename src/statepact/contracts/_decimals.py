"""Decimals with the digits that a model wrote.

Pydantic reads a JSON number for a Decimal through a float: 1.10 becomes 1.1, and long fractions are
rounded. Here the digits are put back wherever the checked value holds such a Decimal.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from decimal import Decimal
from functools import cache
from types import NoneType
from typing import Any

from pydantic import AliasChoices, AliasPath, BaseModel, RootModel
from pydantic.fields import FieldInfo

from statepact.contracts._scan import Number


@cache
def may_hold_decimals(contract: type[BaseModel]) -> bool:
    """Whether Pydantic makes a Decimal anywhere in this contract; most have none and skip all this."""
    queue: list[Any] = [contract.__pydantic_core_schema__]
    while queue:
        part = queue.pop()
        if isinstance(part, dict):
            if part.get("type") == "decimal":
                return True
            queue.extend(part.values())
        elif isinstance(part, list | tuple):
            queue.extend(part)
    return False


_NEVER = frozenset({str, int, float, bool, NoneType})


def with_digits(value: Any, tree: Any) -> Any:
    """Return `value`, checked from `tree`, with Decimals as written there; the same object if none differ."""
    kind = type(value)
    if kind in _NEVER:
        return value
    if kind is Decimal:
        return _written(value, tree) if type(tree) is Number else value
    if isinstance(value, RootModel):
        return _changed(value, {"root": with_digits(value.root, tree)})
    if isinstance(value, BaseModel) and type(tree) is dict:
        fields = type(value).model_fields.items()
        return _changed(value, {n: with_digits(value.__dict__[n], _part(tree, n, info)) for n, info in fields})
    if dataclasses.is_dataclass(value) and type(tree) is dict:
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        exact = {name: with_digits(part, tree.get(name)) for name, part in parts.items()}
        return dataclasses.replace(value, **exact) if _differ(parts.values(), exact.values()) else value  # type: ignore[type-var]
    if isinstance(value, dict) and type(tree) is dict:
        copy = value.copy()
        copy.update((key, with_digits(item, tree.get(str(key)))) for key, item in value.items())
        return copy if _differ(value.values(), copy.values()) else value
    if type(tree) is list and isinstance(value, list | tuple | deque | set | frozenset):
        return _collection(value, tree)
    return value


def _collection(value: Any, tree: list[Any]) -> Any:
    if isinstance(value, set | frozenset):
        numbers = {Decimal(float.__repr__(item)): item for item in tree if type(item) is Number}
        items = [_written(item, numbers[item]) if type(item) is Decimal and item in numbers else item for item in value]
    elif len(value) == len(tree):
        items = [with_digits(item, part) for item, part in zip(value, tree, strict=True)]
    else:
        return value
    if not _differ(value, items):
        return value
    if isinstance(value, deque):
        return deque(items, value.maxlen)
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _written(value: Decimal, number: Number) -> Decimal:
    """Return the number that `value` was read from, with its digits."""
    if Decimal(float.__repr__(number)) != value:
        return value  # a validator has changed it, so it is no longer what the model wrote
    written = Decimal(number.text)
    return value if written.as_tuple() == value.as_tuple() else written


def _changed(value: BaseModel, exact: dict[str, Any]) -> Any:
    changed = {name: item for name, item in exact.items() if item is not value.__dict__[name]}
    return value.model_copy(update=changed) if changed else value


def _part(tree: dict[str, Any], name: str, info: FieldInfo) -> Any:
    """Return what stands in the tree for a field, under its name or an alias."""
    alias = info.validation_alias
    paths: list[list[str | int]] = [[name]]
    if isinstance(alias, AliasChoices):
        paths = [*alias.convert_to_aliases(), *paths]
    elif alias is not None:
        paths = [alias.convert_to_aliases() if isinstance(alias, AliasPath) else [alias], *paths]
    for path in paths:
        part: Any = tree
        try:
            for step in path:
                part = part[step]
        except (LookupError, TypeError):
            continue
        return part
    return None


def _differ(old: Any, new: Any) -> bool:
    return any(a is not b for a, b in zip(old, new, strict=True))
