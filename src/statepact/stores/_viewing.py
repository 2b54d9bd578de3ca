"""What was read of an entry, as those who look at a log see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic_core import from_json

from statepact.errors import CorruptState
from statepact.ledger._cells import Cell, Entry
from statepact.ledger._erased import decode_leaves, is_erased
from statepact.ledger._view import CellView, EntryView, ReadView


def cell_view(cell: Cell) -> CellView:
    """Return a fetched cell with its values."""
    try:
        # Not orjson, which reads integers of more than 64 bits as floats.
        values = from_json(cell.document or b"")
    except ValueError as error:
        raise CorruptState(
            f"the value of step {cell.step!r} at revision {cell.revision} cannot be read",
            hint="run `statepact verify` on the session, and restore the store from a backup",
        ) from error
    return CellView(
        cell.revision, cell.number, cell.step, cell.branch, cell.contract, values,
        shared=cell.shared, omitted=cell.omitted, deleted=cell.deleted, locked=frozenset(cell.locked or ()),
        erased=cell.erased,
    )  # fmt: skip


def left_of(cell: Cell, payload: bytes) -> bytes:
    """Return what is left of a cell in an entry of which something was erased: nothing, all, or a part."""
    leaves = decode_leaves(payload)
    number = cell.leaf_number
    if number >= len(leaves):
        raise CorruptState(f"the value of step {cell.step!r} at revision {cell.revision} is missing")
    leaf = leaves[number]
    cell.leaf = leaf.digest(number)
    if leaf.stored is not None:
        return leaf.stored
    cell.gone = True
    cell.erased = frozenset(field.name for field in cell.contract.fields)
    return b"{}"


def entry_view(
    entry: Entry, cells: Mapping[tuple[int, int], CellView], reads: tuple[ReadView, ...], payload: bytes | None
) -> EntryView:
    """Return an entry, with what was read of its payload if that came along."""
    header = entry.header
    extra = record_of(entry, entry.extra if entry.extra is not None else extra_of(entry, payload))
    return EntryView(
        entry.revision,
        header.kind,
        header.at,
        header.step,
        header.branch,
        tuple(cells[cell.revision, cell.number] for cell in entry.cells),
        reads,
        extra,
        header.run,
    )


def extra_of(entry: Entry, payload: bytes | None) -> bytes:
    """Return the bytes of the record that stands beside the values; empty if there is none."""
    if payload is not None and is_erased(payload):
        leaves = decode_leaves(payload)
        return leaves[-1].stored or b"" if len(leaves) > len(entry.cells) else b""
    return (payload or b"")[sum(cell.size for cell in entry.cells) :]


def record_of(entry: Entry, raw: bytes) -> Mapping[str, Any]:
    """Return the record of an entry from its bytes. Raises `CorruptState`."""
    return record_in(raw, entry.revision)


def record_in(raw: bytes | None, revision: int) -> Mapping[str, Any]:
    """Return the record of an entry from its bytes. Raises `CorruptState`."""
    try:
        record: Mapping[str, Any] = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as error:
        raise CorruptState(f"the record of revision {revision} cannot be read") from error
    return record
