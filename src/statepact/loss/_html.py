"""A loss report as one self-contained page: no script, no request to anywhere, both colour schemes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from statepact.loss._report import SIGNS, Ledger, LossReport

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #667085; --line: #d9dee5; --paper: #ffffff;
  --good: #14713d; --goodbg: #e3f4e9; --bad: #a4161a; --badbg: #fde7e7; --new: #1c4f8c; --newbg: #e4eefa;
  --warn: #7a5200; --warnbg: #fbf1d9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #98a2b3; --line: #333a44; --paper: #14171c;
  --good: #7bd8a0; --goodbg: #123322; --bad: #ff9b9b; --badbg: #431a1d; --new: #9cc5f8; --newbg: #17304f;
  --warn: #f0cd84; --warnbg: #3a2d0e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", "PingFang SC", "Noto Sans CJK SC", "Microsoft YaHei", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2.4rem 0 .6rem; }
p { max-width: 62rem; margin: .4rem 0; } .soft { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.4rem 0; }
.figure { border: 1px solid var(--line); border-radius: .6rem; padding: .7rem 1rem; min-width: 11rem; }
.figure b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; } caption { text-align: left; }
th, td { text-align: start; padding: .45rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td, tr:last-child th { border-bottom: 0; } thead th { white-space: nowrap; color: var(--soft); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.value { max-width: 18rem; overflow-wrap: anywhere; } tbody th { font-weight: 600; white-space: nowrap; }
.cell { white-space: nowrap; border-radius: .35rem; padding: .05rem .4rem; color: var(--soft); }
.born { color: var(--new); background: var(--newbg); } .delivered { color: var(--good); }
.proven { color: var(--good); background: var(--goodbg); }
.claimed, .unchecked { color: var(--warn); background: var(--warnbg); }
.lost, .contradicted { color: var(--bad); background: var(--badbg); font-weight: 600; }
"""


def page(title: str, body: Iterable[str], *, lang: str = "en") -> str:
    """Return a whole page; `body` is HTML that is already escaped."""
    return (
        f'<!doctype html>\n<html lang="{escape(lang)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> str:
    """Return a table that scrolls by itself where it is too wide; cells are HTML already escaped.

    `numbers` are the headings of columns that hold numbers.
    """
    header = "".join(f"<th scope=col{' class=number' if cell in numbers else ''}>{escape(cell)}</th>" for cell in head)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def figure(value: str, label: str) -> str:
    """Return one large figure with what it counts."""
    return f'<div class="figure"><b>{escape(value)}</b>{escape(label)}</div>'


def ledger_html(ledger: Ledger) -> str:
    """Return the fact ledger as a table."""
    rows = (
        (
            f"<th scope=row>{escape(row.fact)}</th>",
            f'<td class="value">{escape(row.value)}</td>',
            *(f'<td><span class="cell {word.split()[0]}">{SIGNS[word]} {word}</span></td>' for word in row.cells),
        )
        for row in ledger.rows
    )
    return table(["fact", "value", *ledger.steps], rows)


def losses_html(report: LossReport) -> str:
    """Return the losses as a table, or a sentence if there are none."""
    if not report.losses:
        return "<p>Nothing was lost in what was checked.</p>"
    rows = (
        (
            f"<th scope=row>{escape(loss.fact)}</th>",
            f"<td>{loss.form}</td>",
            f"<td>{escape(loss.step)}</td>",
            f"<td>{escape(loss.cause)}</td>",
        )
        for loss in report.losses
    )
    return table(["fact", "form", "at step", "what happened"], rows)


def loss_page(report: LossReport) -> str:
    """Return the page of one run."""
    title = f"{report.workflow or report.session}: what was lost"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">session {escape(report.session)} · run {escape(report.run)} · {escape(report.status)}</p>',
        '<div class="figures">',
        figure(f"{report.delivered} of {report.checked_deliveries}", "facts reached their readers"),
        figure(f"{report.open} of {len(report.obligations)}", "obligations open"),
        figure(
            f"{report.contradicted + len(report.changed_ids)} of {report.links_checked + report.ids_checked}",
            "links and identifiers contradicted",
        ),
        figure(f"{report.checked_handoffs} of {report.handoffs}", "handoffs checked on what was sent"),
        "</div>",
        "<h2>Losses</h2>",
        losses_html(report),
        "<h2>Fact ledger</h2>",
        ledger_html(report.ledger),
    ]
    if report.conflicts:
        rows = (
            (f"<th scope=row>{escape(one.fact)}</th>", f"<td>{escape(writer)}</td>", f"<td>{escape(value)}</td>")
            for one in report.conflicts
            for writer, value in one.values
        )
        body += ["<h2>Conflicts</h2>", table(["fact", "writer", "wrote"], rows)]
    if report.suspicious:
        body.append(f"<p>A text that may mean no value: {escape(', '.join(report.suspicious))}</p>")
    if report.unclaimed:
        body.append(f"<p>No later step declares: {escape(', '.join(report.unclaimed))}</p>")
    if report.locked:
        body.append(f"<p>Encrypted, and no key was given to look at it: {escape(', '.join(report.locked))}</p>")
    body.append(
        '<p class="soft">Three questions, three denominators, never added up. A delivered fact was in front of the'
        " step; whether the step used it is only known where a link or a pinned fact says what the answer owes.</p>"
    )
    return page(title, body)
