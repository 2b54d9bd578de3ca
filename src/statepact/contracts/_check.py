"""Validation that reports every problem at once and no value."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from statepact.contracts._contract import Contract, label
from statepact.contracts._fields import hidden_names
from statepact.contracts._upgrade import path_of
from statepact.errors import ContractViolation, Violation

C = TypeVar("C", bound=Contract)

# `union_tag_invalid` repeats the tag that was found, which is a value.
_OWN_KINDS = frozenset(typing.get_args(ErrorType)) - {"value_error", "assertion_error", "union_tag_invalid"}
_LONGEST_PATH_PART = 60


def validate(contract: type[C], value: C | Mapping[str, Any], *, side: str = "") -> C:
    """Return `value` as a checked instance of `contract`.

    Takes an instance (checked again: frozen does not reach inside it) or a mapping of Python
    values. Raises `ContractViolation` with all problems; `side` says whose value it was.
    """
    try:
        return contract.__pydantic_validator__.validate_python(value)  # type: ignore[no-any-return]
    except ValidationError as error:
        problem = violation(contract, error, side=side)
    raise problem  # out here, so that Pydantic's error, which holds values, is not even its context


def validate_json(contract: type[C], data: bytes | str, *, side: str = "", lax: bool = False) -> C:
    """Return JSON as a checked instance of `contract`.

    Strict by default; `lax` converts what a model may have written as text (`"7"` for 7).
    """
    try:
        return contract.model_validate_json(data, strict=not lax)
    except ValidationError as error:
        problem = violation(contract, error, side=side)
    raise problem


def violation(contract: type[BaseModel] | str, error: ValidationError, *, side: str = "") -> ContractViolation:
    """Turn Pydantic's error into ours: types instead of values, likely typos named.

    Where the class is not known, `contract` is how it is shown, such as `Order 1.0`, and no paths are:
    nobody can tell whether one leads into something sensitive.
    """
    details = error.errors(include_context=False, include_url=False)
    if isinstance(contract, str):
        shown = contract
        for detail in details:
            detail["loc"] = ()
    else:
        shown = label(contract) if issubclass(contract, Contract) else contract.__name__
        hidden = hidden_names(contract)
        for detail in details:
            # Below it the path may hold keys of a dict, and those are values too.
            if detail["loc"] and detail["loc"][0] in hidden:
                detail["loc"] = detail["loc"][:1]
    unknown = [d for d in details if d["type"] == "extra_forbidden"]
    problems = [_problem(d, unknown) for d in details]
    return ContractViolation(shown, dict.fromkeys(problems), side=side)


def _problem(detail: ErrorDetails, unknown: list[ErrorDetails]) -> Violation:
    kind = detail["type"]
    # Messages of users' own validators may hold values, so only Pydantic's own are shown.
    expected = detail["msg"] if kind in _OWN_KINDS else "a rule of the contract is not met"
    if kind == "missing":
        guess = _likely_typo(detail, unknown)
        return Violation(_path(detail["loc"]), f"{expected}{guess}", kind=kind)
    if kind == "extra_forbidden":
        return Violation(_path(detail["loc"]), "this field is not in the contract", kind=kind)
    return Violation(_path(detail["loc"]), expected, found=type(detail["input"]).__name__, kind=kind)


def _path(loc: tuple[int | str, ...]) -> str:
    # A key comes from the value, so it is cut: it may be as long as the writer liked.
    parts = map(str, loc)
    return ".".join(part if len(part) <= _LONGEST_PATH_PART else part[:_LONGEST_PATH_PART] + "…" for part in parts)


def _likely_typo(missing: ErrorDetails, unknown: list[ErrorDetails]) -> str:
    from difflib import get_close_matches

    if not missing["loc"]:
        return ""
    *where, name = missing["loc"]
    siblings = [
        str(d["loc"][-1]) for d in unknown if d["loc"] and list(d["loc"][:-1]) == where and len(str(d["loc"][-1])) <= 60
    ]
    close = get_close_matches(str(name), siblings, n=1, cutoff=0.6)
    return f" (is {close[0]!r} a typo of it?)" if close else ""


def check_version(contract: type[Contract], written: str) -> None:
    """Raise `VersionMismatch` unless `contract` can read, or upgrade, what was written as version `written`."""
    path_of(contract, written)


def is_contract(annotation: object) -> typing.TypeGuard[type[Contract]]:
    """Whether an annotation is a contract class (and not `Contract` itself)."""
    return isinstance(annotation, type) and issubclass(annotation, Contract) and annotation is not Contract
