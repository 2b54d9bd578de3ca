"""Fields that a newer minor version wrote: left out on read, carried along on write."""

from __future__ import annotations

from typing import Any

from statepact.contracts._clean import dotted
from statepact.ledger._containers import DequeNode, FixedTupleNode, MapNode, RecordNode
from statepact.ledger._nodes import Node
from statepact.ledger._tags import UnionNode

Path = tuple[str | int, ...]


def unknown_fields(node: Node, raw: Any, path: Path, stuck: list[str]) -> dict[str, Any]:
    """Return what `raw` holds beyond the fields of `node`, as JSON, nested like the fields.

    What stands inside items of a list or a dict cannot be carried: after a change nobody knows
    which item it belonged to. Its paths are added to `stuck`.
    """
    node, raw = _chosen(node, raw)
    if isinstance(node, RecordNode) and type(raw) is dict:
        rest = {name: item for name, item in raw.items() if name not in node.fields}
        for name, child in node.fields.items():
            if name in raw and (inner := unknown_fields(child, raw[name], (*path, name), stuck)):
                rest[name] = inner
        return rest
    for key, item, child in _items(node, raw):
        if inner := unknown_fields(child, item, (*path, key), stuck):
            stuck.extend(dotted((*path, key, name)) for name in inner)
    return {}


def add_rest(node: Node, wire: Any, rest: dict[str, Any]) -> None:
    """Put `rest` back into an encoded value; a field that is known by now keeps its own value."""
    node, wire = _chosen(node, wire)
    if not isinstance(node, RecordNode) or type(wire) is not dict:
        return
    for name, item in rest.items():
        if name not in node.fields:
            wire[name] = item
        elif name in wire and type(item) is dict:
            add_rest(node.fields[name], wire[name], item)


def _chosen(node: Node, raw: Any) -> tuple[Node, Any]:
    while isinstance(node, UnionNode):
        member, raw = node.member_of(raw)
        if member is None:
            break
        node = member
    return node, raw


def _items(node: Node, raw: Any) -> list[tuple[str | int, Any, Node]]:
    if isinstance(node, MapNode):
        pairs = raw.items() if type(raw) is dict else raw if type(raw) is list else ()
        return [(str(key), item, node.value) for key, item in pairs]
    if isinstance(node, DequeNode) and type(raw) is dict:
        raw = raw.get("items")
    if type(raw) is not list:
        return []
    if isinstance(node, FixedTupleNode):
        return [(index, item, child) for index, (item, child) in enumerate(zip(raw, node.children, strict=False))]
    return [(index, item, node.children[0]) for index, item in enumerate(raw)] if node.children else []
