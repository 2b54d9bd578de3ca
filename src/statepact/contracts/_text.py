"""From what a model wrote to a contract.

Models wrap, comment and cut their answers. Each such habit has one rule here, and the result says
which were needed; a text that could be read in two ways is refused and can be asked for again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

from pydantic import ValidationError

from statepact.contracts._check import validate, violation
from statepact.contracts._clean import clean, clean_value
from statepact.contracts._contract import Contract, label
from statepact.contracts._decimals import may_hold_decimals, with_digits
from statepact.contracts._scan import MAX_TEXT, MAX_TEXT_DEPTH, Unreadable, find_object, surroundings
from statepact.errors import UnreadableText
from statepact.models._base import StopReason

C = TypeVar("C", bound=Contract)

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
_NUMERIC = {
    "int_type": re.compile(r"-?(?:0|[1-9][0-9]{0,4298})"),
    "float_type": re.compile(r"-?(?:0|[1-9][0-9]{0,400})(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?"),
}
_HINTS = {
    "no_object": "ask for one JSON object and nothing else",
    "malformed": "ask again, quoting the place",
    "incomplete": "raise the token limit, or ask for a shorter answer",
    "ambiguous": 'ask for one object, or read it with choose="first"',
    "duplicate_key": "ask again for each key once",
}


@dataclass(frozen=True, slots=True)
class ReadText(Generic[C]):
    """A contract read from a model's text."""

    value: C
    marks: tuple[str, ...] = ()
    """What had to be repaired or left out, empty for a clean answer:

    `bom`, `cleaned` (half characters and NUL became U+FFFD), `unwrapped_fence`, `prose_around`,
    `first_of_several`, `raw_newline` (unescaped in a string), `stopped_at_limit` (the object was
    complete all the same), `lax` (a number stood there as text).
    """


def read_text(
    contract: type[C],
    text: str,
    *,
    stop_reason: StopReason = "stop",
    choose: Literal["only", "first"] = "only",
    side: str = "",
) -> ReadText[C]:
    """Return the one JSON object in a model's text as a checked contract.

    `stop_reason` is part of the check: an object that the token limit cut is `incomplete`, however well
    it could be closed. `choose="first"` takes the first of several objects instead of refusing them.
    Types are strict, but for one thing: a number written as text (`"7"`) is taken for an int or
    float. `7.0` is not an int, 1 not a bool and "yes" not true, because that would change what was said.

    Raises `UnreadableText` if no single object can be found and `ContractViolation` with all problems if
    it does not fit. Neither holds a value of the text.
    """
    if stop_reason == "stop" and (plain := _plain_object(contract, text)) is not None:
        return ReadText(plain)
    try:
        found, tree, marks = _locate(text, cut=stop_reason == "length", first=choose == "first")
    except Unreadable as error:
        hint = _HINTS.get(error.reason, "")
        raise UnreadableText(
            label(contract), reason=error.reason, explanation=error.explanation, side=side, hint=hint
        ) from None
    value = _strict(contract, found, tree)
    if isinstance(value, ValidationError):
        tree, converted = _with_numbers(tree, value)
        value = _strict(contract, None, tree) if converted else value
        marks.append("lax")
    if isinstance(value, ValidationError):
        raise violation(contract, value, side=side)
    if may_hold_decimals(contract):
        exact = with_digits(value, tree)
        value = value if exact is value else validate(contract, exact, side=side)
    return ReadText(value, tuple(marks))


def _plain_object(contract: type[C], text: str) -> C | None:
    """Return the answer if the text is nothing but one small clean object that fits, else `None`.

    That is what a model with a schema writes nearly always, and it needs none of the rules below.
    """
    if len(text) > MAX_TEXT // 4:
        return None
    text = text.strip(" \t\r\n")
    if not (text.startswith("{") and text.endswith("}")) or "\\u" in text or "\x00" in text:
        return None
    # As many brackets as the scanner allows levels: so it cannot be too deep, whatever it says.
    if text.count("{") + text.count("[") > MAX_TEXT_DEPTH or may_hold_decimals(contract):
        return None
    try:
        json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant)
        return contract.model_validate_json(text, strict=True)
    except ValueError:
        return None


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise ValueError


def _no_constant(name: str) -> None:
    raise ValueError


def _locate(text: str, *, cut: bool, first: bool) -> tuple[str | None, dict[str, Any], list[str]]:
    """Return the object as written (`None` if it had to be repaired), its tree, and the marks so far."""
    if len(text) > MAX_TEXT or len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT:
        raise Unreadable("too_large", f"the text is longer than {MAX_TEXT:,} bytes")
    good = clean(text)
    cleaned = good is not text
    text = good.removeprefix(_BOM)
    found, several = find_object(text, cut=cut, first=first)
    written = text[found.start : found.end]
    # The text is clean by now, so only an escape can still bring in half a character.
    tree, paths = clean_value(found.tree) if "\\u" in written else (found.tree, [])
    fence, prose = surroundings(text, found)
    marks = {
        "bom": text is not good,
        "cleaned": cleaned or bool(paths),
        "unwrapped_fence": fence,
        "prose_around": prose,
        "first_of_several": several,
        "raw_newline": found.raw_newline,
        "stopped_at_limit": cut,
    }
    repaired = found.raw_newline or bool(paths)
    return None if repaired else written, tree, [name for name, applies in marks.items() if applies]


def _strict(contract: type[C], written: str | None, tree: dict[str, Any]) -> C | ValidationError:
    if written is None:
        written = json.dumps(tree, ensure_ascii=False)
    try:
        return contract.model_validate_json(written, strict=True)
    except ValidationError as error:
        return error


# -- numbers written as text ---------------------------------------------------------------------


def _with_numbers(tree: dict[str, Any], error: ValidationError) -> tuple[dict[str, Any], bool]:
    """Return the tree with text turned into numbers where a number was asked for, and whether any was."""
    converted = False
    tree = _copy(tree)
    for detail in error.errors(include_input=False, include_context=False, include_url=False):
        pattern = _NUMERIC.get(detail["type"])
        place = _place(tree, detail["loc"]) if pattern else None
        if pattern and place is not None:
            container, key = place
            text = container[key]
            if type(text) is str and pattern.fullmatch(text):
                container[key] = int(text) if detail["type"] == "int_type" else float(text)
                converted = True
    return tree, converted


def _place(tree: Any, path: tuple[int | str, ...]) -> tuple[Any, Any] | None:
    """Return container and key of the value that a path of Pydantic leads to.

    The names of union members stand in such a path too; they lead nowhere in the tree.
    """
    container: Any = None
    key: Any = None
    here = tree
    for part in path:
        inside = part in here if isinstance(here, dict) else isinstance(here, list) and part in range(len(here))
        if inside:
            container, key, here = here, part, here[cast(Any, part)]
    return None if container is None else (container, key)


def _copy(tree: Any) -> Any:
    if type(tree) is dict:
        return {key: _copy(item) for key, item in tree.items()}
    return [_copy(item) for item in tree] if type(tree) is list else tree
