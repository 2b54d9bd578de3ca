"""Conflicts between writers, and what each of them had to say, from the attempts that met them.

The record of an attempt says which fields of which cells differ; the values are looked up where they
were committed, so what is erased there is gone here, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from statepact.ledger._described import open_in
from statepact.ledger._header import Kind
from statepact.ledger._unset import unset_paths
from statepact.ledger._view import CellView, EntryView, RunView
from statepact.loss._fact_ledger import shown
from statepact.loss._report import Conflict, Loss

GONE = "(not there)"


def conflicts(run: RunView) -> tuple[Conflict, ...]:
    """Return the conflicts that readers of a run have met, each once."""
    cells = {
        (cell.revision, cell.number): (cell, unset_paths(entry.extra, cell.number))
        for entry in run.entries
        for cell in entry.cells
    }
    found: dict[Conflict, None] = {}  # a resumed run meets the same conflict again
    for entry in run.entries:
        if entry.kind is Kind.ATTEMPT and entry.extra.get("error") == "ERR_CONFLICTING_VALUES":
            found |= dict.fromkeys(_of(entry, cells))
    return tuple(found)


def _of(entry: EntryView, cells: dict[tuple[int, int], tuple[CellView, tuple[str, ...]]]) -> Iterable[Conflict]:
    contract = str(entry.extra.get("contract", "")).partition(" ")[0]
    writers = tuple(map(str, entry.extra.get("writers", ())))
    places = [cells[place[0], place[1]] for place in entry.extra.get("cells", ()) if (place[0], place[1]) in cells]
    fields = [str(field) for field in entry.extra.get("fields", ())]
    if places:
        # Logs of earlier versions name the keys of dicts in sensitive facts.
        fields = [open_in(places[0][0].contract, field) for field in fields]
    for field in dict.fromkeys(fields):
        values = tuple((cell.writer, _shown(cell, field)) for cell, unset in places if _says(cell, unset, field))
        yield Conflict(f"{contract}.{field}", entry.writer, tuple(w for w, _ in values) or writers, values)


def losses_in(found: Iterable[Conflict]) -> Iterable[Loss]:
    """Return the loss that each conflict is: the reader got none of the values."""
    for one in found:
        yield Loss(one.fact, "lifecycle", one.reader, f"{', '.join(one.writers)} wrote different values")


def _says(cell: CellView, unset: Iterable[str], path: str) -> bool:
    if any(path == one or path.startswith(f"{one}.") for one in unset):
        return False
    top = path.partition(".")[0]
    number = next((n for n, field in enumerate(cell.contract.fields) if field.name == top), None)
    return number is not None and cell.says(number)


def _shown(cell: CellView, path: str) -> str:
    value: Any = cell.values
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return GONE
        value = value[part]
    top = path.partition(".")[0]
    return shown(value, next(field for field in cell.contract.fields if field.name == top))
