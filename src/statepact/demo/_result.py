"""The outcome of a comparison: one structure for the JSON object, the screen and the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from statepact.demo._compare import Comparison
from statepact.demo._team import TEAM
from statepact.loss import Ledger
from statepact.loss._html import figure, ledger_html, losses_html, page, table

WAY_MEANS = {
    "last": "only the previous answer is passed on",
    "transcript": "everything is pasted",
    "memory": "the last five entries, cut at 200 and 300 characters",
    "statepact": "what the step declares, and what is pinned",
}


def as_dict(comparison: Comparison, *, lang: str) -> dict[str, Any]:
    """Return the figures as plain JSON values."""
    settings = comparison.settings
    return {
        "model": comparison.model.name,
        "lang": lang,
        "cases": len(settings.cases),
        "seed": settings.seed,
        "notes": settings.notes,
        "long": settings.long,
        "understand": "model" if settings.ask_to_understand else "case",
        "ways": {way: tally.as_dict(settings.seed) for way, tally in comparison.tallies.items()},
        "control": comparison.control.as_dict(settings.seed),
        "counts": comparison.counts,
        "dropped_lines": sum(a.dropped_lines for tally in comparison.tallies.values() for a in tally.answers),
        "ledger": ledger_dict(comparison),
    }


def ledger_dict(comparison: Comparison) -> dict[str, Any] | None:
    """Return the fact ledger of the first case, `None` if no case has run."""
    if comparison.loss is None or comparison.shown_case is None:
        return None
    report = comparison.loss.as_dict()
    return {"case": comparison.shown_case.id, **report["ledger"], "losses": report["losses"], "rates": report["rates"]}


def story(ledger: Ledger) -> Ledger:
    """Return the ledger without the other agents, whose notes nobody reads and which fill the screen."""
    rows = [row for row in ledger.rows if not row.fact.startswith("Notes.")]
    seen = [number for number, step in enumerate(ledger.steps) if step in TEAM]
    return Ledger(
        tuple(ledger.steps[number] for number in seen),
        tuple(type(row)(row.fact, row.value, tuple(row.cells[number] for number in seen)) for row in rows),
    )


def row_of(comparison: Comparison, way: str) -> Sequence[str]:
    """Return one way's figures as text, in the order of `COLUMNS`."""
    settings = comparison.settings
    figures = comparison.tallies[way].as_dict(settings.seed)
    checked = figures["needed"] - figures["unreadable"]
    interval = figures["interval"]
    return (
        way,
        _percent(figures["rate"]),
        f"{interval[0]:.0%}-{interval[1]:.0%}" if interval else "-",
        f"{figures['lost']} of {checked}",
        str(figures["replaced"]),
        str(figures["unreadable"]),
        f"{figures['input_tokens']:,}",
        f"{figures['output_tokens']:,}",
        f"{figures['seconds']:.1f}",
    )


COLUMNS = ("way", "lost", "95 %", "facts", "replaced", "unreadable", "tokens in", "out", "s")


def remarks(comparison: Comparison) -> list[str]:
    """Return what has to be said beside the figures."""
    settings = comparison.settings
    lines = []
    if comparison.model.name.startswith("scripted"):
        lines.append(
            "The scripted model fills each field from what stands in its prompt and leaves it empty when it does not:"
            " this shows what was delivered, not how a model behaves. Try --model local."
        )
    if not settings.ask_to_understand:
        lines.append("The first step takes the complaint's true facts, so that nothing here measures understanding.")
    control = comparison.control.rate
    if comparison.counts is False and control is not None:
        lines.append(
            f"This run does not count: with everything in front of it and no notes, the model lost {control:.0%} of the"
            " facts. Its other losses are then not losses of state."
        )
    elif control is not None:
        lines.append(
            f"Control: with everything in front of it and no notes, the model lost {control:.0%} of the facts."
        )
    dropped = sum(a.dropped_lines for tally in comparison.tallies.values() for a in tally.answers)
    if dropped:
        lines.append(f"{dropped} lines did not fit the model's window and were dropped from the front, oldest first.")
    statepact, transcript = comparison.tallies["statepact"], comparison.tallies["transcript"]
    if statepact.answers and transcript.answers:
        ours, theirs = (sum(a.input_tokens for a in t.answers) for t in (statepact, transcript))
        if ours and statepact.rate is not None and transcript.rate is not None and statepact.rate <= transcript.rate:
            same = "as few facts as" if statepact.rate == transcript.rate else "fewer facts than"
            lines.append(f"statepact lost {same} the whole transcript, at {ours / theirs:.0%} of its input tokens.")
    lines.append("A fact is kept if its exact value stands in its field of the record, outside a negation.")
    return lines


def result_page(comparison: Comparison, *, lang: str) -> str:
    """Return the comparison as one self-contained page."""
    settings = comparison.settings
    body = [
        "<h1>What each way of passing state lost</h1>",
        f'<p class="soft">{escape(comparison.model.name)} · {len(settings.cases)} complaints ({lang}) ·'
        f" {settings.notes} notes of other agents · seed {settings.seed}{' · long' if settings.long else ''}</p>",
        '<div class="figures">',
        *(figure(_percent(tally.rate), f"of the facts lost: {way}") for way, tally in comparison.tallies.items()),
        "</div>",
        "<h2>The ways</h2>",
        table(
            [*COLUMNS, "what the last step is shown"],
            (_way_cells(comparison, way) for way in comparison.tallies),
            numbers=COLUMNS[1:],
        ),
        *(f"<p>{escape(line)}</p>" for line in remarks(comparison)),
    ]
    if comparison.loss is not None and comparison.shown_case is not None:
        case = comparison.shown_case
        body += [
            f"<h2>One complaint, fact by fact: {escape(case.id)}</h2>",
            f'<p class="soft">{escape(case.text)}</p>',
            ledger_html(story(comparison.loss.ledger)),
            "<h2>What was lost in it</h2>",
            losses_html(comparison.loss),
        ]
    return page("statepact demo", body, lang=lang)


def _way_cells(comparison: Comparison, way: str) -> Sequence[str]:
    name, *figures = row_of(comparison, way)
    return (
        f"<th scope=row>{escape(name)}</th>",
        *(f'<td class="number">{escape(cell)}</td>' for cell in figures),
        f"<td>{escape(WAY_MEANS[way])}</td>",
    )


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"
