"""What two texts share: values, identifiers, and whether a clause denies them.

Everything here is a pure function of text, linear in it, and asks no model. What a rule is known to
get wrong stands in its docstring, with a test of today's answer.
"""

from __future__ import annotations

from statepact.meaning._ids import IdSpan, UnknownId, UnknownKind, ids_in, normal_id, unknown_ids
from statepact.meaning._negation import negated_at
from statepact.meaning._occurs import Folded, Occurrence, fold, occurrence
from statepact.meaning._values import stands_in, value_texts

__all__ = [
    "Folded",
    "IdSpan",
    "Occurrence",
    "UnknownId",
    "UnknownKind",
    "fold",
    "ids_in",
    "negated_at",
    "normal_id",
    "occurrence",
    "stands_in",
    "unknown_ids",
    "value_texts",
]
