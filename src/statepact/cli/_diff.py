"""`statepact diff`: what is different between two revisions, at one glance."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from statepact.cli._output import console, print_json
from statepact.cli._show import reading
from statepact.ledger import KeyRing
from statepact.ledger._diff import SIGNS, Change, removed_text
from statepact.stores import Diff, diff, open_store

COLOURS = {
    "added": "green", "changed": "yellow", "null": "yellow", "deleted": "red", "erased": "bold red", "absent": "dim",
    "locked": "dim",
}  # fmt: skip

WIDEST = 80
"""Columns of the values, so that who has changed them stays in sight."""

NARROWEST = 20
"""And at least."""

WORDS = {"null": "set to null", "absent": "not there", "locked": "sealed"}
"""Where a change has another name for people."""


def diff_session(
    *,
    session: str,
    before: int | None,
    after: int | None,
    store: str,
    owner: str,
    keys: Path | None,
    runs: tuple[str, str] | None,
    other: str | None,
    as_json: bool,
) -> None:
    """Print what is different; to be different is no failure."""
    ring = KeyRing.from_file(keys) if keys is not None else None

    async def read() -> Diff:
        async with open_store(reading(store)) as opened:
            return await diff(opened, session, before, after, owner=owner, runs=runs or None, other=other, keys=ring)

    found = asyncio.run(read())
    if as_json:
        print_json(found.as_dict())
    else:
        print_diff(found)


def print_diff(found: Diff) -> None:
    """Print a heading for each run, and under it a line for each field."""
    out = console()
    # Text objects: a value that looks like markup is data and stays what it is.
    out.print(Text(found.title, style="bold"))
    rows = {one: _row(one) for one in found.changes}
    widths = [max((row[column].cell_len for row in rows.values()), default=0) for column in range(4)]
    others = widths[0] + widths[1] + widths[3] + 6
    widths[2] = min(widths[2], WIDEST, max(out.width - others, NARROWEST))
    for heading, changes in found.groups:
        out.print(Text(f"\n{heading}", style="bold"))
        for one in changes:
            # The same columns under every heading, so that the eye can run down.
            out.print(_line(rows[one], widths), no_wrap=True, overflow="ellipsis")
    if not found:
        out.print("nothing is different")
    if found.removed:
        out.print(f"\n{removed_text(found.removed)}")


def _line(row: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for cell, width in zip(row[:-1], widths, strict=False):
        cell.truncate(width, overflow="ellipsis", pad=True)
        line.append_text(cell).append("  ")
    return line.append_text(row[-1])


def _row(change: Change) -> tuple[Text, Text, Text, Text]:
    word = f"  {SIGNS[change.how]} {WORDS.get(change.how, change.how)}"
    return (
        Text(word, style=COLOURS[change.how]), Text(change.fact), Text(change.values), Text(change.by, style="dim")
    )  # fmt: skip
