"""Contracts: what steps hand on, checked. Names are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statepact.contracts._check import check_version, is_contract, validate, validate_json
    from statepact.contracts._contract import Contract, label
    from statepact.contracts._fields import FactField, fact_fields, linked_fields, pinned_fields, sensitive_fields
    from statepact.contracts._marks import MASK, Answers, Limit, Pinned, Sensitive
    from statepact.contracts._text import ReadText, read_text

_HOMES = {
    "Answers": "_marks",
    "Contract": "_contract",
    "FactField": "_fields",
    "Limit": "_marks",
    "MASK": "_marks",
    "Pinned": "_marks",
    "ReadText": "_text",
    "Sensitive": "_marks",
    "check_version": "_check",
    "fact_fields": "_fields",
    "is_contract": "_check",
    "label": "_contract",
    "linked_fields": "_fields",
    "pinned_fields": "_fields",
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
    "Limit",
    "Pinned",
    "ReadText",
    "Sensitive",
    "check_version",
    "fact_fields",
    "is_contract",
    "label",
    "linked_fields",
    "pinned_fields",
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
