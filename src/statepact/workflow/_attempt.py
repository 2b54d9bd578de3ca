"""What the log keeps of an attempt that failed: codes, names and places, never a value."""

from __future__ import annotations

from typing import Any

from statepact.errors import ContractViolation, StatepactError

_ATTRIBUTES = ("writers", "fields", "contract", "cells", "winner", "revision")


def attempt_record(problem: StatepactError, *, usage: Any = None) -> dict[str, Any]:
    """Return the record of a failed attempt. Values in conflict are named by their place in the log."""
    record: dict[str, Any] = {"error": problem.code, "usage": usage}
    if isinstance(problem, ContractViolation):
        record["violations"] = [[v.path, v.kind] for v in problem.violations[:20]]
    for attribute in _ATTRIBUTES:
        if value := getattr(problem, attribute, None):
            record[attribute] = value
    return record
