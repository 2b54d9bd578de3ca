"""What values were made from, by the names of facts: what is left of it when the entries in between are removed.

While a log is whole, its reads say which value was made from which. A base carries changes of shared values
on without the steps that made them, so it names for each the facts that its writer may have been given, and
those that these were made from. An erasure follows these names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statepact.errors import CorruptState
from statepact.ledger._cells import Cell, Entry
from statepact.ledger._header import Kind, Reached, Read
from statepact.ledger._key import INSIDE, REQUEST_STEP
from statepact.ledger._log import SessionLog
from statepact.ledger._pinned import all_reads

MADE_FROM = "made_from"
"""Key in the record of a base: for each cell the numbers of its facts, and under "facts" their names."""

Facts = frozenset[str]
"""`Order.phone`; or `Order` for all of it."""

_NONE: Facts = frozenset()


class Lineage:
    """Collects what the values of a log were made from, entry by entry."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._facts: dict[tuple[int, int], Facts] = {}

    def add(self, entry: Entry, record: Mapping[str, Any]) -> None:
        """Take in the next entry, with its record."""
        if entry.header.kind is Kind.BASE:
            for cell, facts in zip(entry.cells, made_from(record, len(entry.cells)), strict=True):
                self._facts[cell.revision, cell.number] = facts
        elif entry.header.kind is Kind.COMMIT:
            found = self._of(entry, record)
            for cell in entry.cells:
                self._facts[cell.revision, cell.number] = found

    def of(self, cell: Cell) -> Facts:
        """Return the facts that a cell may have been made from."""
        return self._facts.get((cell.revision, cell.number), _NONE)

    def _of(self, entry: Entry, record: Mapping[str, Any]) -> Facts:
        found: set[str] = set()
        for read in all_reads(self._log, entry.header):
            if self._log.keeps_cell(read.revision, read.cell):
                cell = self._log.cell(read.revision, read.cell)
                found |= self.of(cell)
                found.update(_given(read, cell))
        if "usage" in record or "own_prompt" in record:
            found.update(self._asked(entry.header.run))
        found.update(map(str, record.get("earlier", ())))
        found.update(str(one[0]) for one in record.get("recalled", ()) if one)
        return frozenset(found)

    def _asked(self, run: str) -> list[str]:
        """Return the facts of the request, which every model of a run is shown."""
        outermost = self._log.runs.get(run.partition(INSIDE)[0])
        asked = outermost.by_cell.get((REQUEST_STEP, "")) if outermost is not None else None
        cells = asked.cells if asked is not None else ()
        return [f"{cell.contract.name}.{one.name}" for cell in cells for one in cell.contract.fields]


def _given(read: Read, cell: Cell) -> list[str]:
    partly = read.reached is Reached.PARTLY
    return [
        f"{cell.contract.name}.{one.name}"
        for number, one in enumerate(cell.contract.fields)
        if not partly or read.mask >> number & 1
    ]


def lineage_record(facts: Sequence[Facts]) -> dict[str, Any]:
    """Return what a base says of its cells, each name once."""
    names = sorted(frozenset().union(*facts))
    if not names:
        return {}
    number = {name: place for place, name in enumerate(names)}
    cells = [[number[name] for name in sorted(one)] for one in facts]
    return {MADE_FROM: {"facts": names, "cells": cells}}


def made_from(record: Mapping[str, Any], count: int) -> list[Facts]:
    """Return for each of so many cells of a base what it was made from; raises `CorruptState`."""
    said = record.get(MADE_FROM)
    if said is None:
        return [_NONE] * count
    try:
        names = [str(name) for name in said["facts"]]
        found = [frozenset(names[number] for number in numbers) for numbers in said["cells"]]
    except (KeyError, TypeError, IndexError) as error:
        raise CorruptState("what a base says its values were made from cannot be read") from error
    if len(found) != count:
        raise CorruptState("what a base says its values were made from cannot be read")
    return found
