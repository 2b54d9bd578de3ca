"""What a value is about: the ids in the fields that are marked as such.

An id is a key by which people come back ("the order ending in 890"), so it is compared without case,
`#` and kinds of hyphens, and it is never taken out of a sensitive field.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from statepact.contracts._fields import fact_fields
from statepact.contracts._marks import SENSITIVE, IdOf, Mark, marks_in

_STEM = re.compile(r"(?P<kind>.+?)_(?:id|ids|no|nr|number|numbers|code|ref|key)")
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@cache
def id_fields(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the kind of entity that each id field of a model names.

    A mark without a kind gets it from the field (`order_id` names an order), or from the model if the
    field's name is only `id` or `number`.
    """
    name = str(getattr(model, "contract_name", model.__name__))
    found = {}
    for field, info in model.model_fields.items():
        marks = [*info.metadata, *marks_in(info.annotation)]
        mark = next((mark for mark in marks if isinstance(mark, IdOf)), None)
        if mark is not None and SENSITIVE not in marks:
            stem = _STEM.fullmatch(field)
            found[field] = mark.kind or (stem["kind"] if stem else kind_of(name))
    return found


@cache
def id_kinds(model: type[BaseModel]) -> frozenset[str]:
    """Return the kinds of all ids that a value of a model may hold, also of values inside it."""
    return frozenset(kind for inner in _models_within(model) for kind in id_fields(inner).values())


def kind_of(name: str) -> str:
    """Return the kind of entity that a contract stands for by its name: `SpareOrder` is a spare_order."""
    return _WORD_BEGINS.sub("_", name).lower()


def ids_of(value: BaseModel) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each id in a value, as written, also of values inside it."""
    model = type(value)
    if not may_have_ids(model):
        return
    kinds = id_fields(model)
    sensitive = _sensitive_fields(model)
    for field in model.model_fields:
        inside = getattr(value, field)
        if field in sensitive:
            continue
        if field in kinds:
            yield from ((kinds[field], text) for text in texts_in(inside))
        else:
            for nested in _models_of(inside):
                yield from ids_of(nested)


def texts_in(value: Any) -> Iterator[str]:
    """Yield what could be an id in the value of a field: texts and whole numbers, also of a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from texts_in(one)
    elif isinstance(value, Iterable) and not isinstance(value, bytes | BaseModel):
        for one in value:
            yield from texts_in(one)


def sensitive_texts(value: BaseModel) -> set[str]:
    """Return what stands in the sensitive fields of a value, as far as it could be an id."""
    found: set[str] = set()
    for field in type(value).model_fields:
        inside = getattr(value, field)
        if field in _sensitive_fields(type(value)):
            found.update(texts_in(inside.model_dump() if isinstance(inside, BaseModel) else inside))
        else:
            for nested in _models_of(inside):
                found |= sensitive_texts(nested)
    return found


@cache
def may_have_ids(model: type[BaseModel]) -> bool:
    """Whether values of a model can hold marked ids: most cannot, and then nobody looks."""
    return bool(id_kinds(model))


def _models_within(model: type[BaseModel]) -> set[type[BaseModel]]:
    seen: set[type[BaseModel]] = set()
    left = [model]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += [inner for info in one.model_fields.values() for inner in _models_in(info.annotation)]
    return seen


@cache
def _sensitive_fields(model: type[BaseModel]) -> frozenset[str]:
    if hasattr(model, "contract_name"):
        return frozenset(fact.name for fact in fact_fields(model) if fact.sensitive)
    return frozenset(
        field
        for field, info in model.model_fields.items()
        if any(isinstance(mark, Mark) and mark == SENSITIVE for mark in (*info.metadata, *marks_in(info.annotation)))
    )


def _models_of(value: Any) -> Iterator[BaseModel]:
    if isinstance(value, BaseModel):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _models_of(one)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _models_of(one)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
