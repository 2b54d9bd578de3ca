"""`statepact demo`: the comparison on the screen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from statepact.cli._ledger_table import print_ledger
from statepact.cli._output import console, print_json, write_page
from statepact.demo._cases import Case, Lang, choose, shop_cases
from statepact.demo._compare import Answer, Comparison, Settings
from statepact.demo._result import COLUMNS, as_dict, remarks, result_page, row_of, story
from statepact.demo._retail import retail_cases
from statepact.demo._ways import WAYS
from statepact.errors import SetupError
from statepact.models import model_from_name

LONG_WINDOW = 2048
"""Tokens that `--long` gives every way: small enough that the notes outgrow it."""

LONG_NOTES = 80
"""Notes of `--long` unless `--notes` asks for more."""


def run_demo(
    *,
    model: str,
    cases: int,
    notes: int,
    seed: int,
    lang: Lang,
    long: bool,
    data: Path | None,
    understand: str,
    html: Path | None,
    base_url: str | None,
    as_json: bool,
) -> None:
    """Run the comparison and show it."""
    pool, said = _pool(lang, data)
    drawn = choose(pool, cases, seed=seed)
    if len(drawn) < cases:
        said.append(f"There are only {len(drawn)} cases; all of them are used.")
    settings = Settings(
        cases=drawn,
        pool=pool,
        notes=max(notes, LONG_NOTES) if long else notes,
        seed=seed,
        long=long,
        window=LONG_WINDOW if long else None,
        ask_to_understand=understand == "model",
    )
    comparison = Comparison(model_from_name(model, base_url=base_url), settings)
    if as_json:
        asyncio.run(_quietly(comparison))
        print_json({**as_dict(comparison, lang=lang), "remarks": [*said, *remarks(comparison)]})
    else:
        asyncio.run(_on_screen(comparison, said))
    if html is not None:
        write_page(html, result_page(comparison, lang=lang))
        if not as_json:
            console().print(f"page written to {html}", markup=False)


def _pool(lang: Lang, data: Path | None) -> tuple[tuple[Case, ...], list[str]]:
    if data is None:
        return shop_cases(lang), []
    if lang != "en":
        raise SetupError("the retail set is in English", hint="leave --lang out")
    retail = retail_cases(data)
    return retail.cases, [f"{retail.skipped} tasks of the set change no order and were left out."]


async def _quietly(comparison: Comparison) -> None:
    async for _ in comparison.run():
        pass


async def _on_screen(comparison: Comparison, said: list[str]) -> None:
    out = console()
    settings = comparison.settings
    out.print(
        f"{len(settings.cases)} complaints · {settings.notes} notes of other agents · {comparison.model.name}"
        f" · seed {settings.seed}{' · long' if settings.long else ''}",
        markup=False,
    )
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=out
    )
    asked = len(WAYS) + 1
    bar = progress.add_task("asking", total=len(settings.cases) * asked)
    if out.is_terminal:
        with Live(Group(_table(comparison), progress), console=out, refresh_per_second=4) as live:
            async for way, answer in comparison.run():
                progress.update(bar, advance=1, description=f"{answer.case} · {way}")
                live.update(Group(_table(comparison), progress))
            live.update(_table(comparison))
    else:
        async for way, answer in comparison.run():
            out.print(_line(way, answer), markup=False)
            out.file.flush()
        out.print(_table(comparison))
    _afterwards(comparison, said)


def _afterwards(comparison: Comparison, said: list[str]) -> None:
    out = console()
    for line in (*said, *remarks(comparison)):
        out.print(f"· {line}", markup=False)
    if comparison.loss is not None and comparison.shown_case is not None:
        case = comparison.shown_case
        out.print()
        out.print(f"{case.id}: {' '.join(case.text.split())}", markup=False)
        print_ledger(out, story(comparison.loss.ledger), title="what became of each fact with statepact")
        for loss in comparison.loss.losses:
            out.print(f"lost: {loss.fact}: {loss.cause} ({loss.form}, at {loss.step})", markup=False)


def _line(way: str, answer: Answer) -> str:
    if answer.unreadable:
        return f"{answer.case}  {way}: unreadable answer"
    return f"{answer.case}  {way}: kept {answer.kept} of {answer.needed}, {answer.seconds:.1f} s"


def _table(comparison: Comparison) -> Any:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for way in comparison.tallies:
        if comparison.tallies[way].answers:
            table.add_row(*(Text(cell, style="bold" if way == "statepact" else "") for cell in row_of(comparison, way)))
        else:
            table.add_row(way, *("…" for _ in COLUMNS[1:]))
    return table
