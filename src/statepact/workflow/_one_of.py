"""What a reader of one value gets where several steps have written: the value that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from statepact.contracts import Contract
from statepact.errors import ConflictingValues
from statepact.ledger import Cell
from statepact.ledger._merging import Conflict, merged, says
from statepact.workflow._run_scope import value_of

C = TypeVar("C", bound=Contract)


def one_of(cells: Sequence[Cell], contract: type[C]) -> C:
    """Return the one value of fetched cells, in the order of the log.

    Raises `ConflictingValues` with the fields that differ and their writers, and what `merged` says.
    """
    writers = ", ".join(cell.writer for cell in cells)
    values = [value_of(cell, contract) for cell in cells]
    try:
        return merged(contract, values, side=f"what {writers} wrote, merged,")
    except Conflict as conflict:
        said = [
            cell
            for cell, value in zip(cells, values, strict=True)
            if any(says(value, path) for path in conflict.fields)
        ]
        raise ConflictingValues(
            cells[0].contract.label,
            writers=[cell.writer for cell in said],
            fields=conflict.fields,
            cells=[(cell.revision, cell.number) for cell in said],
        ) from None
