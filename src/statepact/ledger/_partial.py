"""Some fields of a contract, checked and exact like a whole: what changes a shared value."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import Field, ValidationError

from statepact.contracts import Contract
from statepact.contracts._check import violation
from statepact.contracts._clean import clean_value
from statepact.contracts._fields import fact_fields, open_path
from statepact.errors import NotExact
from statepact.ledger._codec import MAX_BYTES, Encoded, decode, refuse_too_large
from statepact.ledger._nodes import canonical
from statepact.ledger._plan import plan_of
from statepact.ledger._unset import mark_unset
from statepact.ledger._wire import Refused


@cache
def partial_of(contract: type[Contract]) -> type[Contract]:
    """Return the contract's fields as a contract in which each may be missing.

    Types and constraints are the same; validators of the user look at whole values and stay behind.
    """
    fact_fields(contract)  # its annotations are resolved from here on
    annotations: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, info in contract.model_fields.items():
        kind: Any = info.annotation
        annotations[name] = Annotated[(kind, *info.metadata)] if info.metadata else kind
        defaults[name] = Field(default=None, discriminator=info.discriminator) if info.discriminator else None
    body = {
        "__module__": contract.__module__,
        "__annotations__": annotations,
        "model_config": {**contract.model_config, "validate_default": False, "alias_generator": None},
        **defaults,
    }
    named = {"version": contract.contract_version, "name": contract.contract_name}
    made: type[Contract] = types.new_class(contract.__name__, (Contract,), named, lambda space: space.update(body))
    return made


def checked_fields(contract: type[Contract], values: Mapping[str, Any], *, side: str) -> Contract:
    """Return some fields of a contract as an instance of its partial form; raises `ContractViolation`."""
    partial = partial_of(contract)
    try:
        return partial.__pydantic_validator__.validate_python(  # type: ignore[no-any-return]
            dict(values), by_alias=False, by_name=True
        )
    except ValidationError as error:
        problem = violation(contract, error, side=side)
    raise problem


def given(partial: Contract) -> dict[str, Any]:
    """Return the fields that are there, in the order of the contract."""
    return {name: getattr(partial, name) for name in type(partial).model_fields if name in partial.model_fields_set}


def encode_fields(contract: type[Contract], values: Mapping[str, Any], *, max_bytes: int = MAX_BYTES) -> Encoded:
    """Return the canonical bytes of some fields of a contract. Raises `NotExact` and `TooLarge`."""
    nodes = plan_of(contract).root.fields
    wire: dict[str, Any] = {}
    for name, value in values.items():
        try:
            wire[name] = nodes[name].encode(value)
        except Refused as refused:
            path = open_path(contract, ".".join(map(str, (name, *reversed(refused.path)))))
            raise NotExact(path, found=refused.found, reason=refused.reason, hint=refused.hint) from None
    wire, cleaned = clean_value(wire)
    data = canonical(wire)
    refuse_too_large(contract, data, max_bytes)
    return Encoded(data, tuple(dict.fromkeys(open_path(contract, path) for path in cleaned)))


def decode_fields(contract: type[Contract], data: bytes, *, unset: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what `encode_fields` wrote; fields that the contract does not have are left out."""
    return given(mark_unset(decode(partial_of(contract), data), 0, unset))
