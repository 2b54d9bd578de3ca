"""The facts of a contract: its fields, with what the marks say about them."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import AliasChoices, AliasPath, BaseModel
from pydantic.fields import FieldInfo

from statepact.contracts._contract import Contract, label
from statepact.contracts._marks import LIMIT, PINNED, SENSITIVE, Answers, Mark, marks_in
from statepact.contracts._merge import Merge
from statepact.errors import SetupError


@dataclass(frozen=True, slots=True, kw_only=True)
class FactField:
    """One field of a contract, the unit in which loss is counted."""

    contract: type[Contract]
    name: str
    pinned: bool = False
    limit: bool = False
    sensitive: bool = False
    links: tuple[Answers, ...] = ()
    merge: Merge | None = None
    """What becomes of it if several writers have set it; `None` if they have to agree."""

    @property
    def label(self) -> str:
        """`Complaint.problem`, as shown in reports."""
        return f"{self.contract.contract_name}.{self.name}"


@cache
def fact_fields(contract: type[Contract]) -> tuple[FactField, ...]:
    """Return the facts of a contract in the order of its fields.

    A mark anywhere inside a field, also in a nested contract, counts for the whole field.
    Raises `SetupError` if a link names a field, or an annotation a type, that does not exist.
    """
    if not contract.__pydantic_complete__:
        from pydantic.errors import PydanticUndefinedAnnotation

        try:
            contract.model_rebuild()
        except PydanticUndefinedAnnotation as error:
            raise SetupError(
                f"contract {label(contract)} has an annotation that names nothing: {error.name}",
                hint=f"define it first, or call {contract.__name__}.model_rebuild() where it is defined",
            ) from None
    return tuple(_fact_field(contract, name, info) for name, info in contract.model_fields.items())


@cache
def pinned_fields(contract: type[Contract]) -> tuple[FactField, ...]:
    """Return the facts of a contract that every later step gets."""
    return tuple(fact for fact in fact_fields(contract) if fact.pinned)


@cache
def sensitive_fields(contract: type[Contract]) -> tuple[str, ...]:
    """Return the names of the facts that are not for everybody's eyes."""
    return tuple(fact.name for fact in fact_fields(contract) if fact.sensitive)


def open_path(contract: type[Contract], path: str) -> str:
    """Return a dotted path as it may be shown: inside a sensitive fact it may name keys, and those are values."""
    if hidden := hidden_names(contract):
        # An alias may hold dots itself, so the path is not split at the first one.
        return next((name for name in hidden if path.startswith(f"{name}.")), path)
    return path


@cache
def hidden_names(model: type[BaseModel]) -> tuple[str, ...]:
    """Return under which names the sensitive fields of a model come: Pydantic names aliases in its paths."""
    names: dict[str, None] = {}
    for name, info in model.model_fields.items():
        marks = [*info.metadata, *marks_in(info.annotation), *_marks_of_nested(info.annotation, {model})]
        if SENSITIVE not in marks:
            continue
        alias = info.validation_alias
        names |= dict.fromkeys([name, *([info.alias] if info.alias else [])])
        for one in alias.choices if isinstance(alias, AliasChoices) else [alias]:
            first = one.path[0] if isinstance(one, AliasPath) else one
            names |= {str(first): None} if first is not None else {}
    return tuple(names)


def model_named(title: str) -> type[BaseModel] | None:
    """Return a model of the code by the name that Pydantic's error has; one with sensitive fields first."""
    found: dict[type[BaseModel], None] = {}
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        below = [one for one in waiting.pop().__subclasses__() if one not in found]
        found |= dict.fromkeys(below)
        waiting += below
    named = [one for one in found if title in (one.__name__, one.model_config.get("title"))]
    return max(named, key=lambda one: bool(hidden_names(one)), default=None)


@cache
def linked_fields(contract: type[Contract]) -> tuple[FactField, ...]:
    """Return the facts of a contract that answer earlier facts."""
    return tuple(fact for fact in fact_fields(contract) if fact.links)


def _fact_field(contract: type[Contract], name: str, info: FieldInfo) -> FactField:
    marks = [item for item in info.metadata if isinstance(item, (Mark, Answers))]
    marks += [mark for mark in marks_in(info.annotation) if isinstance(mark, (Mark, Answers))]
    marks += _marks_of_nested(info.annotation, {contract})
    links = tuple(mark for mark in marks if isinstance(mark, Answers))
    for link in links:
        if link.field not in link.contract.model_fields:
            raise SetupError(
                f"{label(contract)}.{name} answers {link.contract.__name__}.{link.field}, which does not exist",
                hint=f"{link.contract.__name__} has: {', '.join(link.contract.model_fields)}",
            )
    sensitive = SENSITIVE in marks
    return FactField(
        contract=contract,
        name=name,
        # Sensitive wins: a pinned value would travel to readers that did not ask for it.
        pinned=PINNED in marks and not sensitive,
        limit=LIMIT in marks and not sensitive,
        sensitive=sensitive,
        links=links,
        merge=merge_rules(contract).get(name),
    )


@cache
def merge_rules(model: type[BaseModel]) -> dict[str, Merge]:
    """Return the merge rules of a model's own fields by name; those of nested models are theirs."""
    rules: dict[str, Merge] = {}
    for name, info in model.model_fields.items():
        found = [item for item in (*info.metadata, *marks_in(info.annotation)) if isinstance(item, Merge)]
        if len(found) > 1:
            raise SetupError(
                f"{model.__name__}.{name} has {len(found)} merge rules", hint="a field is merged by one rule"
            )
        if found:
            rules[name] = found[0]
    return rules


def _marks_of_nested(annotation: Any, seen: set[type[BaseModel]]) -> Iterator[Mark]:
    """Yield the marks (not the links) of models nested anywhere in an annotation."""
    for model in _models_in(annotation):
        if model in seen:
            continue
        inside = seen | {model}
        for info in model.model_fields.values():
            yield from (mark for mark in info.metadata if isinstance(mark, Mark))
            yield from (mark for mark in marks_in(info.annotation) if isinstance(mark, Mark))
            yield from _marks_of_nested(info.annotation, inside)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
