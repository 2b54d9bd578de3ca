"""Contracts: what steps hand on, checked. Names are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statepact.contracts._check import check_version, is_contract, validate, validate_json
    from statepact.contracts._contract import Contract, label
    from statepact.contracts._fields import (
        FactField,
        fact_fields,
        linked_fields,
        open_path,
        pinned_fields,
        sensitive_fields,
    )
    from statepact.contracts._marks import MASK, Answers, Id, IdOf, Limit, Pinned, Sensitive
    from statepact.contracts._merge import Merge
    from statepact.contracts._old import OldValue, read_old
    from statepact.contracts._text import ReadText, read_text
    from statepact.contracts._upgrade import Upgrade

_HOMES = {
    "Answers": "_marks",
    "Contract": "_contract",
    "FactField": "_fields",
    "Id": "_marks",
    "IdOf": "_marks",
    "Limit": "_marks",
    "Merge": "_merge",
    "OldValue": "_old",
    "MASK": "_marks",
    "Pinned": "_marks",
    "ReadText": "_text",
    "Sensitive": "_marks",
    "Upgrade": "_upgrade",
    "check_version": "_check",
    "fact_fields": "_fields",
    "is_contract": "_check",
    "label": "_contract",
    "linked_fields": "_fields",
    "open_path": "_fields",
    "pinned_fields": "_fields",
    "read_old": "_old",
    "read_text": "_text",
    "sensitive_fields": "_fields",
    "validate": "_check",
    "validate_json": "_check",
}

__all__ = [
    "MASK",
    "Answers",
    "Contract",
    "FactField",
    "Id",
    "IdOf",
    "Limit",
    "Merge",
    "OldValue",
    "Pinned",
    "ReadText",
    "Sensitive",
    "Upgrade",
    "check_version",
    "fact_fields",
    "is_contract",
    "label",
    "linked_fields",
    "open_path",
    "pinned_fields",
    "read_old",
    "read_text",
    "sensitive_fields",
    "validate",
    "validate_json",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
