"""The JSON Schema of a contract in the narrower form that strict decoding accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_KEPT = frozenset(
    (
        *("type", "enum", "const", "description", "title", "$ref", "multipleOf", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    )
)
# Constraints that strict decoding does not know. They go into the description, so the model still
# reads them, and the contract checks them afterwards.
_TOLD = ("minLength", "maxLength", "uniqueItems", "format", "pattern", "minProperties", "maxProperties")
_ANNOTATIONS = frozenset(("default", "examples", "discriminator", "deprecated", "readOnly", "writeOnly", "$schema"))
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
_LOOK_AROUND = re.compile(r"\(\?[=!<]|\\[1-9]")


class _NotExpressible(Exception):
    """A part of the schema has no strict form."""


def strict_form(schema: Mapping[str, Any], *, every_field: bool = True) -> dict[str, Any] | None:
    """Return the schema with closed objects and supported keywords only, or `None` if it has no such form.

    `every_field` makes all fields required, as OpenAI asks; a field with a default is then answered
    by the model instead of being left out. Objects with free keys (`dict[str, int]`), values of any
    type and tuples have no strict form.
    """
    try:
        return _root(schema, every_field)
    except _NotExpressible:
        return None


def _root(schema: Mapping[str, Any], every_field: bool) -> dict[str, Any]:
    node = dict(schema)
    definitions: Mapping[str, Any] = node.pop("$defs", {})
    if "$ref" in node:
        # A recursive model is a reference to itself at the root, where an object must stand.
        node = dict(definitions.get(str(node["$ref"]).removeprefix("#/$defs/"), {}))
    if node.get("type") != "object":
        raise _NotExpressible
    strict = _strict(node, every_field)
    if definitions:
        strict["$defs"] = {name: _strict(part, every_field) for name, part in definitions.items()}
    return strict


def _strict(node: Any, every_field: bool) -> dict[str, Any]:
    if not isinstance(node, Mapping) or not node:
        raise _NotExpressible
    source = _with_plain_choices(dict(node))
    strict: dict[str, Any] = {}
    if "anyOf" in source:
        strict["anyOf"] = [_strict(branch, every_field) for branch in source.pop("anyOf")]
    if source.get("type") == "object":
        strict |= _object(source, every_field)
    if source.get("type") == "array" or "items" in source:
        strict["items"] = _strict(source.pop("items", None), every_field)
    told = [_tell(source, strict, keyword) for keyword in _TOLD if keyword in source]
    if source.keys() - _KEPT - _ANNOTATIONS:
        raise _NotExpressible
    strict |= {keyword: value for keyword, value in source.items() if keyword in _KEPT}
    if not strict.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
        raise _NotExpressible
    words = ", ".join(filter(None, told))
    if words:
        strict["description"] = f"{strict.get('description', '')} ({words})".strip()
    return strict


def _with_plain_choices(source: dict[str, Any]) -> dict[str, Any]:
    """Return the node with `anyOf` as its only kind of choice."""
    if "oneOf" in source:
        source.setdefault("anyOf", source.pop("oneOf"))
    if "allOf" in source:
        parts = source.pop("allOf")
        if len(parts) != 1 or "anyOf" in source:
            raise _NotExpressible
        source["anyOf"] = parts
    if "$ref" in source and len(source.keys() - _ANNOTATIONS) > 1:
        # A reference may not have neighbours such as a description, but a choice of one may.
        source["anyOf"] = [{"$ref": source.pop("$ref")}]
    return source


def _object(source: dict[str, Any], every_field: bool) -> dict[str, Any]:
    properties = source.pop("properties", None)
    required = source.pop("required", [])
    if not properties or source.pop("additionalProperties", False) is not False:
        raise _NotExpressible
    return {
        "properties": {name: _strict(part, every_field) for name, part in properties.items()},
        "required": list(properties) if every_field else list(required),
        "additionalProperties": False,
    }


def _tell(source: dict[str, Any], strict: dict[str, Any], keyword: str) -> str:
    """Take one constraint out of `source`: keep it where it is supported, else return it as words."""
    value = source.pop(keyword)
    supported = (keyword == "format" and value in _FORMATS) or (
        keyword == "pattern" and isinstance(value, str) and not _LOOK_AROUND.search(value)
    )
    if supported:
        strict[keyword] = value
        return ""
    return f"{keyword}: {value}"
