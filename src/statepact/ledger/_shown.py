"""Values as text for people: short, on one line, and harmless to a terminal."""

from __future__ import annotations

from typing import Any

from statepact.contracts._clean import cut
from statepact.ledger._nodes import canonical

LONGEST_VALUE = 60

_JOINERS = "\u200c\u200d"
"""Invisible, and part of how Persian, Indic scripts and emoji are written."""


def visible(text: str) -> str:
    """Return a text in which nothing moves a cursor, changes a colour or turns the direction of writing.

    Such characters stand there as escapes: a value must not be able to change what is shown around it.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in _JOINERS else one.encode("unicode_escape").decode() for one in text
    )


def shown(value: Any, *, longest: int = LONGEST_VALUE) -> str:
    """Return a JSON value as a short text on one line."""
    text = value if isinstance(value, str) else canonical(value).decode()
    text = " ".join(text.split())
    return visible(text if len(text) <= longest else cut(text, longest - 1) + "…")
