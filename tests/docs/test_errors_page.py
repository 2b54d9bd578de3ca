"""The page of errors and the tree of errors say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from statepact.errors import StatepactError, all_codes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"


def classes_by_code() -> dict[str, type[StatepactError]]:
    """Return the library's own error classes; other tests may have made classes of theirs."""
    own: dict[str, type[StatepactError]] = {}
    for cls in all_codes().values():
        for base in reversed(cls.__mro__):
            if base.__module__.startswith("statepact.") and issubclass(base, StatepactError):
                own.setdefault(base.code, base)
    return own


def sections() -> dict[str, str]:
    """Return the text under each heading that is a code."""
    parts = re.split(r"^#{2,4} +(ERR_\w+) *$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    headings, bodies = parts[1::2], parts[2::2]
    assert len(headings) == len(set(headings)), "a code has two headings"
    return dict(zip(headings, bodies, strict=True))


def test_every_code_has_a_heading() -> None:
    """Whoever searches for the code of a message finds it on the page."""
    assert set(classes_by_code()) - set(sections()) == set()


def test_every_heading_is_a_code() -> None:
    """The page keeps no error that the library can no longer raise."""
    assert set(sections()) - set(classes_by_code()) == set()


@pytest.mark.parametrize("code", sorted(sections()))
def test_section_names_the_class_the_cause_and_what_to_do(code: str) -> None:
    """A reader learns what to catch, why it happened and what to change."""
    section = sections()[code]

    assert f"`{classes_by_code()[code].__name__}`" in section
    assert re.search(r"^\*\*Cause\.\*\* \S", section, flags=re.MULTILINE)
    assert re.search(r"^\*\*What to do\.\*\* \S", section, flags=re.MULTILINE)
