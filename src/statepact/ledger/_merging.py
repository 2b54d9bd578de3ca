"""One value of several: what branches wrote under one contract, put together for a reader.

A field that one branch has set is its word; a field that nobody has set keeps its default. A field
that several have set follows its merge rule; without a rule the values have to be equal, and models
are merged field by field. What is left differs, and the reader is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

from pydantic import BaseModel

from statepact.contracts import Contract, validate
from statepact.contracts._contract import label
from statepact.contracts._fields import merge_rules, open_path, sensitive_fields
from statepact.contracts._merge import Differing, Merge
from statepact.errors import StepFailed
from statepact.ledger._nodes import Node, canonical
from statepact.ledger._plan import plan_of

C = TypeVar("C", bound=Contract)


class Conflict(Exception):
    """Values differ and no rule says which counts."""

    def __init__(self, fields: Sequence[str]) -> None:
        super().__init__("values differ")
        self.fields = tuple(fields)


def merged(contract: type[C], values: Sequence[C], *, side: str) -> C:
    """Return the one value that several make, in the order of the log.

    Raises `Conflict` with the paths that differ, `StepFailed` if a rule fails, naming its field, and
    `ContractViolation` if what they make breaks the contract; `side` says whose value that would be.
    """
    merging = _Merging(contract)
    value: C = merging.records(contract, values, "")
    if merging.differing:
        raise Conflict(tuple(dict.fromkeys(open_path(contract, path) for path in merging.differing)))
    return validate(contract, value, side=side)


def says(value: BaseModel, path: str) -> bool:
    """Whether the writer of a value has set the field at a dotted path."""
    place: Any = value
    for part in path.split("."):
        if isinstance(place, BaseModel):
            if part not in place.model_fields_set:
                return False
            place = getattr(place, part)
        else:
            return isinstance(place, dict)
    return True


def applied(rule: Merge, values: Sequence[Any], *, what: str, sensitive: bool = False) -> Any:
    """Return what a rule makes of values, in order; raises `StepFailed`, and `Differing` of dicts.

    The error of a rule often quotes what it was given, so that of a `sensitive` field is not kept.
    """
    try:
        return reduce(rule.both, values)
    except Differing:
        raise
    except Exception as error:
        failed = StepFailed(
            f"the merge rule {rule.name!r} of {what} failed with {type(error).__name__}",
            hint=f"{'' if sensitive else 'see __cause__; '}a rule must take any two values that the field may have",
        )
        failed.__cause__ = None if sensitive else error
    raise failed


class _Merging:
    def __init__(self, contract: type[Contract]) -> None:
        self._contract = contract
        self.differing: list[str] = []

    def records(self, cls: type[BaseModel], values: Sequence[Any], before: str) -> Any:
        """Return the model that models of one class make; notes what differs."""
        rules = merge_rules(cls)
        nodes = plan_of(cls).root.fields
        fields: dict[str, Any] = {}
        given: set[str] = set()
        for name in cls.model_fields:
            said = [getattr(value, name) for value in values if name in value.model_fields_set]
            if not said:
                fields[name] = getattr(values[0], name)
                continue
            given.add(name)
            fields[name] = said[0] if len(said) == 1 else self._one(name, said, rules.get(name), nodes[name], before)
        return _built(cls, fields, given)

    def _one(self, name: str, said: Sequence[Any], rule: Merge | None, node: Node, before: str) -> Any:
        path = f"{before}{name}"
        if rule is not None:
            try:
                what = f"{label(self._contract)}, field {path!r},"
                sensitive = path.partition(".")[0] in sensitive_fields(self._contract)
                return applied(rule, said, what=what, sensitive=sensitive)
            except Differing as differing:
                self.differing += [f"{path}.{key}" for key in differing.keys]
                return said[0]
        if len({type(value) for value in said}) == 1 and isinstance(said[0], BaseModel):
            return self.records(type(said[0]), said, f"{path}.")
        first, *others = (_bytes(node.encode, value) for value in said)
        if any(other != first for other in others):
            self.differing.append(path)
        return said[0]


def _bytes(encode: Callable[[Any], Any], value: Any) -> bytes:
    return canonical(encode(value))


def _built(cls: type[BaseModel], fields: dict[str, Any], given: set[str]) -> Any:
    """Return an unchecked instance. Not `model_construct`, which wants an alias where a field has one."""
    value = cls.__new__(cls)
    object.__setattr__(value, "__dict__", fields)
    object.__setattr__(value, "__pydantic_fields_set__", given)
    object.__setattr__(value, "__pydantic_extra__", None)
    object.__setattr__(value, "__pydantic_private__", None)
    return value
