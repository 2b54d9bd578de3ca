"""How one contract class is written and read, decided once from its types.

Looking at every value in Python costs about nine times what orjson and Pydantic need. So a plan
says for which fields they are exact by themselves, and only the other fields are walked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from pydantic import BaseModel

from statepact.contracts._clean import MAX_DEPTH
from statepact.ledger._build import Builder
from statepact.ledger._containers import RecordNode
from statepact.ledger._nodes import Node
from statepact.ledger._tags import MAX_OPEN_DEPTH, OpenNode, UnionNode
from statepact.ledger._wire import TEXT_FORMS

# Whatever could hide a type from our hook is passed to it. What orjson still writes by itself
# (tuple, Enum, UUID) it writes as the nodes do, and the declared type brings it back.
OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)

_LEVELS_PER_NODE = 3  # a tag, a deque's object and an array of pairs nest deeper than their type


class Plan:
    """What the codec knows about one contract class."""

    __slots__ = ("bounded", "by_pydantic", "checked", "decoded", "hook", "large", "names", "root", "size", "walked")

    def __init__(self, contract: type[BaseModel]) -> None:
        self.root = Builder().record(contract)
        nodes = list(self.root.reachable())
        # Unions first: they decide which models are built, which the others then ask about.
        for node in sorted(nodes, key=lambda node: not isinstance(node, UnionNode)):
            node.settle()
        fields = self.root.fields
        self.size = len(fields)
        self.names = tuple(sorted(fields))
        """The fields in the order in which they are written."""
        self.large = False
        """Whether the last value was so large that it was taken apart. The next one is then written field by
        field, because a document whose fields nobody knows has to be parsed for that."""
        direct = {name: [*node.reachable()] for name, node in fields.items()}
        direct = {name: below for name, below in direct.items() if all(node.direct for node in below)}
        classes = _models(direct.values())
        if not self.root.direct:
            direct = {}
        elif any(a is not b and issubclass(a, b) for a in classes for b in classes):
            # The hook sees an instance, not the field it stands in, so it could not tell a subclass
            # in a field of its base from the same class in a field of its own.
            direct = {name: below for name, below in direct.items() if not _models([below])}
        self.walked = tuple((name, node) for name, node in fields.items() if name not in direct)
        """Fields that are encoded by their node."""
        self.decoded = tuple((name, node) for name, node in fields.items() if not node.as_parsed)
        """Fields that are decoded by their node when Pydantic alone is not exact."""
        self.by_pydantic = all(node.by_pydantic for node in nodes)
        """Whether strict JSON validation alone reads it exactly."""
        self.checked = any(node.checked for node in nodes)
        """Whether code of the user runs on reading, so that a round trip is tried when writing."""
        self.bounded = _levels(self.root, {}) <= MAX_DEPTH
        """Whether the types alone keep it within the depth that is read."""
        self.hook = _hook(_models(direct.values()))


def _models(groups: Iterable[list[Node]]) -> dict[type, int]:
    """Return the model classes among nodes, with how many fields each has."""
    nodes = (node for group in groups for node in group)
    return {node.cls: len(node.fields) for node in nodes if isinstance(node, RecordNode) and node.is_model}


def _levels(node: Node, known: dict[int, int]) -> int:
    if id(node) not in known:
        known[id(node)] = MAX_DEPTH + 1  # what a node finds if it meets itself again below
        deepest = max((_levels(child, known) for child in node.children), default=0)
        known[id(node)] = MAX_OPEN_DEPTH + 4 if isinstance(node, OpenNode) else deepest + _LEVELS_PER_NODE
    return known[id(node)]


def _hook(models: dict[type, int]) -> Callable[[Any], Any]:
    """Return what orjson asks about a value it does not know, for the fields it writes directly."""

    def hook(value: Any) -> Any:
        kind = type(value)
        if kind in models:
            fields = value.__dict__
            if len(fields) == models[kind]:
                return fields
            raise TypeError("other names than the fields, such as a cached property")
        form = TEXT_FORMS.get(kind)
        if form is not None:
            return form.write(value)
        if kind is set or kind is frozenset:
            return sorted(value, key=lambda item: orjson.dumps(item, hook, OPTIONS))
        if kind is deque:
            return {"items": list(value), "maxlen": value.maxlen}
        raise TypeError("not a type of these fields")

    return hook


_PLANS: dict[type, Plan] = {}
known_plan = _PLANS.get
"""The plan of a class if it has been made; the fast way for the second use."""


def plan_of(contract: type[BaseModel]) -> Plan:
    """Return the plan of a contract class, made at its first use: forward references are known by then."""
    plan = _PLANS.get(contract)
    if plan is None:
        plan = _PLANS[contract] = Plan(contract)
    return plan
