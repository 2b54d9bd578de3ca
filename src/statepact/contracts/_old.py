"""Values that something else has stored: read as far as they go, and what is missing is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson
from pydantic import ValidationError

from statepact.contracts._check import violation
from statepact.contracts._clean import clean_value
from statepact.contracts._contract import Contract
from statepact.contracts._upgrade import path_of, version_in
from statepact.errors import ContractViolation, TooLarge, Violation

C = TypeVar("C", bound=Contract)

MAX_BYTES = 16 * 1024 * 1024
"""Largest old value that is parsed."""


@dataclass(frozen=True, slots=True)
class OldValue(Generic[C]):
    """An old value under the contract that the code has now."""

    contract: type[C]
    version: str
    """The version under which it was written."""
    values: Mapping[str, Any]
    """Its fields after all upgrades, as JSON has them; those of the contract only."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the contract does not have. Nothing is dropped without an upgrade that says so."""
    missing: tuple[str, ...] = ()
    """Fields that the contract requires and the old value does not have."""
    problem: ContractViolation | None = None
    """What keeps it from being a value of the contract, `None` if nothing does."""

    @property
    def value(self) -> C:
        """The value as an instance. Raises `ContractViolation` with everything that is missing or wrong."""
        if self.problem is not None:
            raise self.problem
        return self.contract.model_validate_json(orjson.dumps(dict(self.values)), strict=True)


def read_old(contract: type[C], data: Mapping[str, Any] | bytes | str, *, version: str | None = None) -> OldValue[C]:
    """Return what an old value is under `contract`, after the contract's upgrades.

    `data` is a mapping of JSON values, or JSON. `version` is the one it was written under; by default
    its field `version` says so, and a value that says none is 1.0, which is logged. The old value itself
    is not touched.

    Raises `VersionMismatch` if no upgrades lead from there, `TooLarge`, and `ContractViolation` if it
    is no JSON object at all.
    """
    fields = _object(contract, data)
    if version is None:
        version = version_in(fields, contract)
        if "version" not in contract.model_fields:
            fields.pop("version", None)
    for upgrade in path_of(contract, version):
        fields = upgrade(fields)
    fields, _ = clean_value(fields)
    values = {name: value for name, value in fields.items() if name in contract.model_fields}
    kept = {name: value for name, value in fields.items() if name not in contract.model_fields}
    problem: ContractViolation | None = None
    try:
        contract.model_validate_json(orjson.dumps(values), strict=True)
    except ValidationError as error:
        problem = violation(contract, error, side=f"an old value, version {version}")
    return OldValue(contract, version, values, kept, problem.missing_fields if problem else (), problem)


def _object(contract: type[Contract], data: Mapping[str, Any] | bytes | str) -> dict[str, Any]:
    if isinstance(data, Mapping):
        return dict(data)
    if len(data) > MAX_BYTES:
        raise TooLarge(f"an old value for {contract.contract_name} has {len(data):,} bytes, {MAX_BYTES:,} is the most")
    try:
        fields = orjson.loads(data)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        problem = Violation("", "Value should be a JSON object", found=type(fields).__name__, kind="json_invalid")
        raise ContractViolation(contract.contract_name, [problem], side="an old value")
    return fields
