"""`statepact show`: the fact ledger of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from statepact.cli._ledger_table import print_ledger
from statepact.cli._output import Exit, ExitCode, console, print_json, too_much_loss, write_page
from statepact.errors import Expired, UnknownRun, UnknownSession
from statepact.ledger import KeyRing, session_key
from statepact.loss import LossReport, measure
from statepact.loss._html import loss_page
from statepact.stores import open_store
from statepact.stores._log_reader import LogReader


def show_session(
    *,
    session: str,
    store: str,
    cache: str | None,
    owner: str,
    run: str | None,
    at: int | None,
    max_loss: float | None,
    html: Path | None,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Print the ledger of a run, and exit 1 if more than `max_loss` is lost."""
    report, runs = asyncio.run(_read(session, store=store, cache=cache, owner=owner, run=run, at=at, keys=keys))
    if html is not None:
        write_page(html, loss_page(report))
    if as_json:
        print_json({**report.as_dict(), "runs": list(runs)})
    else:
        out = console()
        seen = f" at revision {at}" if at is not None else ""
        print_ledger(out, report.ledger, title=f"session {session}{seen} · run {report.run} · {report.status}")
        out.print()
        out.print(str(report), markup=False)
        for conflict in report.conflicts:
            out.print(f"\n{conflict.fact}, of which {conflict.reader} was to read one value:", markup=False)
            for writer, value in conflict.values:
                out.print(f"  {writer} wrote {value}", markup=False)
        if len(runs) > 1:
            out.print(
                f"\n{len(runs)} runs in this session; --run ID shows another: {', '.join(runs[-5:])}", markup=False
            )
    if too_much_loss(report.rates, max_loss):
        raise Exit(ExitCode.NOT_WELL)


async def _read(
    session: str, *, store: str, cache: str | None, owner: str, run: str | None, at: int | None, keys: Path | None
) -> tuple[LossReport, Sequence[str]]:
    ring = KeyRing.from_file(keys) if keys is not None else None
    async with open_store(reading(store), cache=cache) as opened:
        try:
            log = await LogReader.at(opened, session_key(owner, session), at, keys=ring)
        except UnknownSession as error:
            known = [info.session for info in await opened.sessions(owner)]
            raise UnknownSession(
                f"{error.message} in {store.partition('?')[0]}",
                hint=f"it has: {', '.join(known[-10:])}" if known else "it has none there; check --store and --owner",
            ) from None
        runs = list(log.log.runs)
        if not runs and run is None and log.log.base is not None:
            raise Expired(
                f"all runs of session {session!r} are older than what is kept",
                hint="a retention rule has removed them; the next run goes on with the shared values of the session",
            )
        if not runs and run is None:
            raise UnknownRun(f"session {session!r} has no run at revision {log.log.revision}")
        return measure(await log.view(run or runs[-1])), runs


def reading(url: str) -> str:
    """Return a store URL that opens a file without the right to change or create it."""
    if not url.startswith("sqlite:") or "read_only=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}read_only=1"
