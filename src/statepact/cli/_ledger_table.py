"""The fact ledger as a table: a sign and a word in each cell, colour only on top."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from statepact.loss import SIGNS, Ledger

COLOURS = {
    "born": "cyan",
    "delivered": "green",
    "proven": "bold green",
    "claimed": "yellow",
    "lost": "bold red",
    "contradicted": "bold red",
    "unchecked": "yellow",
}

_LEFT = 44
_WORD = 16
"""Columns that fact and value take, and that a sign with its word takes."""


def print_ledger(out: Console, ledger: Ledger, *, title: str) -> None:
    """Print the ledger; where the words do not fit the width, signs with a legend below."""
    words = out.width >= _LEFT + _WORD * len(ledger.steps)
    table = Table(title=title, title_justify="left", pad_edge=False, box=None)
    table.add_column("fact", no_wrap=True, overflow="ellipsis")
    table.add_column("value", no_wrap=True, overflow="ellipsis", max_width=22)
    for number, step in enumerate(ledger.steps, 1):
        table.add_column(step if words else str(number), no_wrap=True)
    for row in ledger.rows:
        cells = [Text(f"{SIGNS[w]} {w}" if words else SIGNS[w], style=COLOURS.get(w, "dim")) for w in row.cells]
        # Text objects: a value that looks like markup is data and stays what it is.
        table.add_row(Text(row.fact), Text(row.value), *cells)
    out.print(table)
    if not words:
        out.print("steps: " + ", ".join(f"{n} {step}" for n, step in enumerate(ledger.steps, 1)), markup=False)
        used = dict.fromkeys(word for row in ledger.rows for word in row.cells)
        out.print("signs: " + ", ".join(f"{SIGNS[word]} {word}" for word in used), markup=False)
