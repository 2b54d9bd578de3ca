"""Text that every store, model and terminal can take, and cuts that split no visible character.

A lone surrogate (half an emoji, cut by UTF-16 units) cannot be written as UTF-8, and PostgreSQL
takes no NUL. One such character must not stop a session, so both become U+FFFD at the border, and
the caller is told where.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, TypeVar, cast

from statepact.errors import TooLarge

T = TypeVar("T")

MAX_DEPTH = 100
"""Deepest nesting that is written, read or cleaned."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BROKEN = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]|\x00")
_LONGEST_PATH_PART = 60


def clean(text: str) -> str:
    """Return `text` with lone surrogates and NUL replaced by U+FFFD.

    Two surrogates that form a pair are one valid character and become it. Text with nothing wrong
    is returned as the same object.
    """
    if "\x00" not in text:
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _BROKEN.sub(_repair, text)


def _repair(match: re.Match[str]) -> str:
    found = match[0]
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le") if len(found) == 2 else _REPLACEMENT


def clean_value(value: T) -> tuple[T, list[str]]:
    """Clean every text in a value built of dicts, lists, tuples and sets, keys included.

    Returns the value and the dotted paths that changed, in reading order; the same object if
    nothing did. Keys that become equal by cleaning are kept apart by further U+FFFD. Raises
    `TooLarge` for a value nested deeper than `MAX_DEPTH`.
    """
    changed: list[str] = []
    return cast(T, _cleaned(value, (), changed)), changed


def dotted(parts: tuple[str | int, ...]) -> str:
    """Return a path as shown to people: `items.0.price`. Long keys are cut; they come from values."""
    shown = (part if len(part) <= _LONGEST_PATH_PART else part[:_LONGEST_PATH_PART] + "…" for part in map(str, parts))
    return clean(".".join(shown))


def _cleaned(value: Any, path: tuple[str | int, ...], changed: list[str]) -> Any:
    kind = type(value)
    if kind is str:
        good = clean(value)
        if good is not value:
            changed.append(dotted(path))
        return good
    if kind not in (dict, list, tuple, set, frozenset):
        return value
    if len(path) >= MAX_DEPTH:
        raise TooLarge(f"the value is nested deeper than {MAX_DEPTH} levels")
    before = len(changed)
    if kind is dict:
        items: Any = _cleaned_dict(value, path, changed)
    else:
        items = [_cleaned(item, (*path, index), changed) for index, item in enumerate(value)]
    if len(changed) == before:
        return value
    return items if kind in (dict, list) else kind(items)


def _cleaned_dict(value: dict[Any, Any], path: tuple[str | int, ...], changed: list[str]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    broken: list[str] = []
    for key, item in value.items():
        good = _cleaned(key, path, [])
        if good is not key and type(key) is str:
            broken.append(key)
        else:
            result[good] = _cleaned(item, (*path, str(good)), changed)
    # Sorted, so that which of two equal keys gets the longer name does not depend on insertion.
    for key in sorted(broken):
        good = clean(key)
        while good in result:
            good += _REPLACEMENT
        changed.append(dotted((*path, good)))
        result[good] = _cleaned(value[key], (*path, good), changed)
    return result


# -- cutting -------------------------------------------------------------------------------------

_JOINER = "\N{ZERO WIDTH JOINER}"


def cut(text: str, limit: int) -> str:
    """Return the longest start of `text` of at most `limit` characters that splits no grapheme.

    Kept whole: combining marks and variation selectors with their base, emoji joined by U+200D,
    skin tones, flags (regional pairs and tag sequences), conjoining Hangul, CR LF. This is the
    part of Unicode's segmentation rules that users see; prepended marks and Indic conjuncts are not
    looked at. If the first grapheme alone is longer than `limit`, the result is empty.
    """
    if limit <= 0:
        return ""
    if len(text) <= limit:
        return text
    end = limit
    while end and not _may_cut(text, end):
        end -= 1
    return text[:end]


def _may_cut(text: str, at: int) -> bool:
    """Whether a grapheme ends between `text[at - 1]` and `text[at]`."""
    before, after = text[at - 1], text[at]
    if before < "\u0300" and after < "\u0300":
        return not (before == "\r" and after == "\n")
    if before == _JOINER or _extends(after):
        return False
    if _is_regional(before) and _is_regional(after):
        start = at
        while start and _is_regional(text[start - 1]):
            start -= 1
        return (at - start) % 2 == 0
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return False
    return not _hangul_joins(before, after)


def _extends(char: str) -> bool:
    if char == _JOINER or "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f":
        return True
    return unicodedata.category(char) in ("Mn", "Me", "Mc")


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _hangul_joins(before: str, after: str) -> bool:
    if "\u1100" <= before <= "\u115f":
        return "\u1100" <= after <= "\u11a7" or "\uac00" <= after <= "\ud7a3"
    if "\u1160" <= after <= "\u11ff":
        return "\u1160" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return False
