"""Offline models whose answers are known: a plain rule, and a list of given answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from statepact.errors import ModelError

from ._base import Prompt, Reply, StopReason, Usage, estimate_tokens

_EMPTY: dict[str, Any] = {"string": "", "boolean": False, "integer": 0, "number": 0, "array": [], "null": None}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
    "null": type(None),
}
_MISSING: Any = object()


def _no_constant(text: str) -> Any:
    raise ValueError(text)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


class ScriptedModel:
    """A rule in the place of a model: it repeats what stands in its prompt and adds nothing.

    For each field of the schema it takes the value behind the **last** `"field":` in the prompt
    that is JSON of the field's type. It does not look further than the name: it does not read
    prose, infer, translate or invent. If the name does not stand there,

    * a field with a list of allowed values gets the one that stands as a whole word in the last
      user message (case does not matter), if no other allowed value stands there too;
    * a field with one allowed value gets it, because the schema leaves no choice;
    * an object is filled field by field, by the same rule;
    * an optional field is left out, and a required one is empty: `null` if the schema allows it,
      else `""`, `false`, `0` or `[]`. An empty string is also what a list of allowed values gets,
      so that a missing choice breaks its contract instead of being guessed.

    Without a schema it repeats the last user message. The same prompt has the same answer.

    It shows **what was delivered**, and nothing else. It says nothing about how a language model
    behaves: a real one may overlook what stands in its prompt, or guess what does not. Figures
    made with it measure delivery. Token counts are estimates.
    """

    name = "scripted"

    def __repr__(self) -> str:
        return "ScriptedModel()"

    async def reply(self, prompt: Prompt) -> Reply:
        """Answer one prompt by the rule of the class."""
        request = next((m.content for m in reversed(prompt.messages) if m.role == "user"), "")
        if prompt.schema is None:
            text = request
        else:
            value = _Rule(prompt.schema, prompt.text, request).fill(prompt.schema)
            text = json.dumps(value, ensure_ascii=False)
        return Reply(
            text=text,
            sent=prompt.text,
            usage=Usage(input_tokens=estimate_tokens(prompt.text), output_tokens=estimate_tokens(text)),
            model=self.name,
        )


class _Rule:
    """The rule of `ScriptedModel`, applied to one prompt."""

    def __init__(self, root: Mapping[str, Any], text: str, request: str) -> None:
        self._definitions: Mapping[str, Any] = root.get("$defs", {})
        self._text = text
        self._request = request

    def fill(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """Return the object that the schema asks for, each field filled or empty."""
        schema = self._resolve(schema)
        required = schema.get("required", ())
        values: dict[str, Any] = {}
        for name, field in schema.get("properties", {}).items():
            value = self._standing(name, field)
            if value is _MISSING:
                value = self._without_name(field, depth)
            if value is _MISSING and name in required:
                value = self._empty(field)
            if value is not _MISSING:
                values[name] = value
        return values

    def _standing(self, name: str, field: Mapping[str, Any]) -> Any:
        # A name inside a string that is itself JSON has escaped quotes and is not a field.
        pattern = re.compile(rf"(?<!\\){re.escape(json.dumps(name, ensure_ascii=False))}\s*:\s*")
        for match in reversed(list(pattern.finditer(self._text))):
            try:
                value, _ = _DECODER.raw_decode(self._text, match.end())
            except (ValueError, RecursionError):
                continue
            if self._fits(value, field):
                return value
        return _MISSING

    def _without_name(self, field: Mapping[str, Any], depth: int) -> Any:
        branches = self._branches(field)
        for branch in branches:
            if "const" in branch and len(branches) == 1:
                return branch["const"]
        allowed = [value for branch in branches for value in branch.get("enum", [branch.get("const")])]
        standing = [value for value in allowed if self._is_a_word(value)]
        if len(standing) == 1:
            return standing[0]
        nested = [branch for branch in branches if branch.get("properties")]
        # The bound is for schemas that contain themselves.
        if len(nested) == len(branches) == 1 and depth < 8:
            return self.fill(nested[0], depth + 1)
        return _MISSING

    def _is_a_word(self, value: Any) -> bool:
        if not isinstance(value, str) or not value:
            return False
        # Only ASCII letters and digits bound a word: Chinese has no spaces between words.
        word = rf"(?<![A-Za-z0-9_]){re.escape(value)}(?![A-Za-z0-9_])"
        return re.search(word, self._request, re.IGNORECASE) is not None

    def _empty(self, field: Mapping[str, Any]) -> Any:
        branches = self._branches(field)
        kinds = [kind for branch in branches for kind in _kinds(branch)]
        if not kinds or "null" in kinds:
            return None
        return {} if kinds[0] == "object" else _EMPTY.get(kinds[0], "")

    def _fits(self, value: Any, field: Mapping[str, Any]) -> bool:
        """Whether a value has the type that a field asks for; contracts check the rest."""
        return any(self._fits_branch(value, branch) for branch in self._branches(field))

    def _fits_branch(self, value: Any, branch: Mapping[str, Any]) -> bool:
        allowed = branch.get("enum", [branch["const"]] if "const" in branch else None)
        if allowed is not None:
            return any(value == one and type(value) is type(one) for one in allowed)
        kinds = _kinds(branch)
        if isinstance(value, bool):
            return not kinds or "boolean" in kinds
        if kinds and not any(isinstance(value, _TYPES.get(kind, object)) for kind in kinds):
            return False
        if isinstance(value, list) and "items" in branch:
            return all(self._fits(item, branch["items"]) for item in value)
        if isinstance(value, dict):
            # Another object under the same name, such as a piece of a schema, is not an answer.
            return set(branch.get("required", ())) <= value.keys()
        return True

    def _branches(self, field: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        field = self._resolve(field)
        choices = field.get("anyOf") or field.get("oneOf") or field.get("allOf")
        if not choices:
            return [field]
        return [branch for choice in choices for branch in self._branches(choice)]

    def _resolve(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        for _ in range(8):
            if "$ref" not in node:
                break
            node = self._definitions.get(str(node["$ref"]).removeprefix("#/$defs/"), {})
        return node


def _kinds(branch: Mapping[str, Any]) -> list[str]:
    kind = branch.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


Answer = str | Mapping[str, Any] | tuple[str | Mapping[str, Any], StopReason] | Exception
"""What `AnswersModel` can be given: text, an object, either with a stop reason, or an error to raise."""


class AnswersModel:
    """Replies with the given answers, in order: for tests of code that calls a model.

    ```python
    model = AnswersModel([{"order_id": "KX-1"}, ("{", "length"), ModelError("down")])
    ```

    An object is written as JSON, an exception is raised as it is. `prompts` keeps every prompt it
    got. Without an answer left it raises `ModelError`.
    """

    name = "answers"

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = list(answers)
        self.prompts: list[Prompt] = []
        """The prompts so far, oldest first."""

    def __repr__(self) -> str:
        return f"AnswersModel(<{len(self._answers)} answers>)"

    async def reply(self, prompt: Prompt) -> Reply:
        """Return the next answer."""
        self.prompts.append(prompt)
        if len(self.prompts) > len(self._answers):
            raise ModelError(
                f"call {len(self.prompts)} of {self.name} has no answer: {len(self._answers)} were given",
                hint="give AnswersModel one more answer, or look why there was one more call",
            )
        answer = self._answers[len(self.prompts) - 1]
        if isinstance(answer, Exception):
            raise answer
        content, stop = answer if isinstance(answer, tuple) else (answer, "stop")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return Reply(
            text=text,
            sent=prompt.text,
            stop_reason=stop,
            usage=Usage(input_tokens=estimate_tokens(prompt.text), output_tokens=estimate_tokens(text)),
            model=self.name,
        )
