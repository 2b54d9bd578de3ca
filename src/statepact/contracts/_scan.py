"""Where the one JSON object stands in what a model wrote.

A fence pattern cannot tell a fence around the answer from one inside a string of it, so the object is
found by a JSON parser, started at each place where an object may begin. Each character is parsed
at most twice, whatever the text is.

The rules, of which none guesses: a brace that no quoted key follows is prose; what begins like an
object must be one; an object inside other braces or inside an array is not the answer; two objects are
ambiguous, equal or not; an empty object counts only where no other stands.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_TEXT = 1024 * 1024
"""Longest text of a model that is looked at, in UTF-8 bytes."""

MAX_TEXT_DEPTH = 64
"""Deepest nesting of an object in it."""

_MOST_BRACES = 10_000
"""Braces outside objects that are looked at; more is no prose and would only cost time."""

_BRACE = re.compile(r"[{}]")
_WORD_IN_BRACES = re.compile(r'\{\s*"[^"\\{}]*"\s*\}')
_EMPTY = re.compile(r"\{\s*\}")
_BEGIN = re.compile(r'\{\s*(?:"|\}|\Z)')
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_INFO = re.compile(r"[\w.+#-]{0,40}")
_FENCE_END = re.compile(r"\s*(?:`{3,}|~{3,})")


class Unreadable(Exception):
    """Inside the reader: there is no single object; `reason` as in `UnreadableText`."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason
        self.explanation = explanation


class Number(float):
    """A JSON number that is no integer, with its digits as written."""

    __slots__ = ("text",)
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """One object: where it stands and what it holds."""

    start: int
    end: int
    tree: dict[str, Any]
    raw_newline: bool
    """A string in it holds a line break or tab that should have been an escape."""


def find_object(text: str, *, cut: bool, first: bool) -> tuple[Found, bool]:
    """Return the one object in a text, and whether others follow it.

    `cut` says that the token limit ended the text, `first` that others may follow. Raises `Unreadable`.
    """
    empty: Found | None = None
    filled: list[Found] = []
    try:
        for item in _objects(text, cut=cut):
            if item.tree:
                filled.append(item)
                if len(filled) > 1:
                    break
            elif empty is None:
                empty = item
    except Unreadable:
        # What stands behind the first object does not matter if only the first is asked for.
        if not (first and filled):
            raise
        return filled[0], True
    if not filled and empty is not None:
        filled = [empty]
    if not filled:
        raise Unreadable(
            "no_object", "the text holds no JSON object" + (" before the token limit cut it" if cut else "")
        )
    if len(filled) > 1 and not first:
        raise Unreadable("ambiguous", "the text holds more than one JSON object")
    if len(filled) == 1 and _stands_in_array(text, filled[0]):
        raise Unreadable("malformed", "the object stands inside an array; an object alone was asked for")
    return filled[0], len(filled) > 1


def surroundings(text: str, found: Found) -> tuple[bool, bool]:
    """Return whether a fence stood around the object, and whether prose did."""
    head, tail = text[: found.start].rstrip(), text[found.end :]
    at = max(head.rfind("```"), head.rfind("~~~"))
    opened = at >= 0 and _INFO.fullmatch(head[at:].lstrip("`~").strip(" \t")) is not None
    if opened:
        head = head[:at].rstrip("`~").rstrip()
    closing = _FENCE_END.match(tail)
    if closing:
        tail = tail[closing.end() :]
    return opened or closing is not None, bool(head or tail.strip())


def _objects(text: str, *, cut: bool) -> Iterator[Found]:
    """Yield the objects at top level in order."""
    at, depth, seen = 0, 0, False
    shallow = text.count("{") + text.count("[") <= MAX_TEXT_DEPTH
    braces = 0
    while brace := _BRACE.search(text, at):
        at = brace.start()
        braces += 1
        if braces > _MOST_BRACES:
            raise Unreadable("malformed", f"more than {_MOST_BRACES:,} braces stand outside an object")
        if text[at] == "}":
            if not depth and seen:
                raise Unreadable("malformed", "a closing brace follows the object, so a part of it is missing")
            depth = max(0, depth - 1)
            at += 1
        elif word := _WORD_IN_BRACES.match(text, at):
            at = word.end()
        elif not _BEGIN.match(text, at):
            depth += 1
            at += 1
        elif empty := _EMPTY.match(text, at):
            at = empty.end()
            yield Found(empty.start(), at, {}, raw_newline=False)
        elif depth:
            raise Unreadable("malformed", "an object stands inside braces that are not JSON")
        else:
            if not shallow:
                _check_depth(text, at)
            item = _parse(text, at, cut=cut)
            seen = True
            at = item.end
            yield item


def _parse(text: str, start: int, *, cut: bool) -> Found:
    try:
        tree, end = _STRICT.raw_decode(text, start)
        return Found(start, end, tree, raw_newline=False)
    except json.JSONDecodeError:
        pass
    except ValueError as error:
        raise Unreadable("malformed", "a number has more digits than can be read") from error
    try:
        tree, end = _LENIENT.raw_decode(text, start)
        return Found(start, end, tree, raw_newline=True)
    except json.JSONDecodeError as error:
        if _is_open(text, start):
            if cut:
                raise Unreadable("incomplete", "the token limit cut the object before its end") from None
            raise Unreadable("malformed", "the object is not closed") from None
        line, column = error.lineno, error.colno
        raise Unreadable("malformed", f"not valid JSON: {error.msg}, line {line} column {column}") from None
    except ValueError as error:
        raise Unreadable("malformed", "a number has more digits than can be read") from error


def _check_depth(text: str, start: int) -> None:
    for depth in _depths(text, start):
        if depth > MAX_TEXT_DEPTH:
            raise Unreadable("too_deep", f"the object is nested deeper than {MAX_TEXT_DEPTH} levels")


def _is_open(text: str, start: int) -> bool:
    depth = 1
    for depth in _depths(text, start):  # noqa: B007 - the last one counts
        pass
    return depth > 0


def _depths(text: str, start: int) -> Iterator[int]:
    """Yield the depth after each bracket until the object is closed; brackets in strings do not count."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        bracket = token[0]
        if bracket in "{[":
            depth += 1
        elif bracket in "}]":
            depth -= 1
        else:
            continue
        yield depth
        if depth <= 0:
            return


def _stands_in_array(text: str, found: Found) -> bool:
    return text[: found.start].rstrip().endswith("[") and text[found.end :].lstrip().startswith(("]", ","))


# -- what the JSON parser of Python does not look at ---------------------------------------------


_LONGEST_EXPONENT = 10  # characters; Decimal holds no more than 18 digits there


def _number(digits: str) -> Number:
    number = Number(digits)
    if math.isinf(number) or len(digits.lower().partition("e")[2]) > _LONGEST_EXPONENT:
        raise Unreadable("malformed", "a number is too large or too long to be read exactly")
    number.text = digits
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Unreadable("duplicate_key", "an object has the same key twice")
    return result


def _constant(name: str) -> NoReturn:
    raise Unreadable("malformed", f"{name} is not a JSON number")


_HOOKS: dict[str, Any] = {"object_pairs_hook": _object, "parse_float": _number, "parse_constant": _constant}
_STRICT = json.JSONDecoder(**_HOOKS)
_LENIENT = json.JSONDecoder(**_HOOKS, strict=False)
