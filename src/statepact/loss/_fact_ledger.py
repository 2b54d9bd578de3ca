"""The fact ledger: what became of each fact at each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statepact.contracts._clean import cut
from statepact.contracts._marks import MASK
from statepact.ledger._described import FieldRecord
from statepact.ledger._nodes import canonical
from statepact.ledger._view import CellView, EntryView
from statepact.loss._report import Ledger, LedgerRow, Obligation

LONGEST_VALUE = 60


def fact_ledger(
    commits: Sequence[EntryView], obligations: Sequence[Obligation], *, asked: Sequence[EntryView] = ()
) -> Ledger:
    """Return the ledger of a run's steps; `asked` is the request if it was a contract: it has rows, no column."""
    standings = {(item.fact, item.writer, item.owed_by): item.standing for item in obligations}
    rows = [
        LedgerRow(
            f"{cell.contract.name}.{field.name}",
            shown(cell.values[field.name], field),
            tuple(_word(cell, number, field, entry, standings) for entry in commits),
        )
        for born in (*asked, *commits)
        for cell in born.cells
        for number, field in enumerate(cell.contract.fields)
        if field.name in cell.values
    ]
    return Ledger(tuple(entry.writer for entry in commits), tuple(rows))


def _word(
    cell: CellView,
    number: int,
    field: FieldRecord,
    entry: EntryView,
    standings: dict[tuple[str, str, str], Any],
) -> str:
    if entry.revision < cell.revision:
        return "not yet known"
    if entry.revision == cell.revision:
        return "born"
    fact = f"{cell.contract.name}.{field.name}"
    standing = standings.get((fact, cell.writer, entry.writer)) or standings.get((fact, "", entry.writer))
    word = "not declared"
    for read in entry.reads:
        if (read.cell.revision, read.cell.number) == (cell.revision, cell.number) and (read.declared or field.pinned):
            has = read.has(number)
            word = "unchecked" if has is None else "delivered" if has else "lost"
    if word == "lost" or standing is None:
        return word
    return "lost" if standing == "open" else str(standing)


def shown(value: Any, field: FieldRecord) -> str:
    """Return a value as text for people: cut, and masked if sensitive."""
    if field.sensitive:
        return MASK
    text = value if isinstance(value, str) else canonical(value).decode()
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_VALUE else cut(text, LONGEST_VALUE - 1) + "…"
