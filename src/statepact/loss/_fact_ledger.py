"""The fact ledger: what became of each fact at each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from statepact.contracts._marks import MASK
from statepact.ledger._described import FieldRecord
from statepact.ledger._shown import shown as shown_value
from statepact.ledger._view import CellView, EntryView, ReadView
from statepact.loss._report import Ledger, LedgerRow, Obligation

DELETED = "deleted"
"""On purpose, so it is no loss."""


def fact_ledger(
    commits: Sequence[EntryView], obligations: Sequence[Obligation], *, asked: Sequence[EntryView] = ()
) -> Ledger:
    """Return the ledger of a run's steps; `asked` is the request if it was a contract: it has rows, no column."""
    standings = {(item.fact, item.writer, item.owed_by): item.standing for item in obligations}
    gone = {
        entry.revision: {
            f"{cell.contract.name}.{field.name}"
            for cell in entry.cells
            for number, field in enumerate(cell.contract.fields)
            if cell.shared and cell.touches(number) and not cell.says(number)
        }
        for entry in commits
    }
    # A run may hold a thousand pinned facts that each step was given: looking through all of them for
    # each fact would be a million looks a step.
    given = {entry.revision: _reads_by_cell(entry) for entry in commits}
    rows = [
        LedgerRow(
            f"{cell.contract.name}.{field.name}",
            DELETED if field.name in cell.erased else shown(cell.values[field.name], field),
            tuple(
                DELETED if deleted else _word(cell, number, field, entry, given[entry.revision], standings)
                for entry, deleted in _deletions(cell, field, commits, gone)
            ),
        )
        for born in (*asked, *commits)
        for cell in born.cells
        for number, field in enumerate(cell.contract.fields)
        if (field.name in cell.values or field.name in cell.erased) and cell.says(number)
    ]
    return Ledger(tuple(entry.writer for entry in commits), tuple(rows))


def _deletions(
    cell: CellView, field: FieldRecord, commits: Sequence[EntryView], gone: Mapping[int, set[str]]
) -> Iterator[tuple[EntryView, bool]]:
    """Yield each entry, and whether the field of a shared value had been deleted by then."""
    deleted = False
    for entry in commits:
        if field.name in cell.erased:
            yield entry, entry.revision >= cell.revision
            continue
        if cell.shared and entry.revision > cell.revision:
            deleted = deleted or f"{cell.contract.name}.{field.name}" in gone[entry.revision]
        yield entry, deleted


def _reads_by_cell(entry: EntryView) -> Mapping[tuple[int, int], Sequence[ReadView]]:
    found: dict[tuple[int, int], list[ReadView]] = {}
    for read in entry.reads:
        found.setdefault((read.cell.revision, read.cell.number), []).append(read)
    return found


def _word(
    cell: CellView,
    number: int,
    field: FieldRecord,
    entry: EntryView,
    given: Mapping[tuple[int, int], Sequence[ReadView]],
    standings: dict[tuple[str, str, str], Any],
) -> str:
    if entry.revision < cell.revision:
        return "not yet known"
    if entry.revision == cell.revision:
        return "born"
    fact = f"{cell.contract.name}.{field.name}"
    standing = standings.get((fact, cell.writer, entry.writer)) or standings.get((fact, "", entry.writer))
    word = "not declared"
    for read in given.get((cell.revision, cell.number), ()):
        if read.declared or field.pinned:
            has = read.has(number)
            word = "unchecked" if has is None else "delivered" if has else "lost"
    if word == "lost" or standing is None:
        return word
    return "lost" if standing == "open" else str(standing)


def shown(value: Any, field: FieldRecord) -> str:
    """Return a value as text for people: short, on one line, harmless to a terminal, and masked if sensitive."""
    return MASK if field.sensitive else shown_value(value)
