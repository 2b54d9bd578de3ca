"""`statepact retain`: the oldest runs of sessions go, by a rule."""

from __future__ import annotations

import asyncio
from pathlib import Path

from statepact.cli._output import Exit, ExitCode, console, print_json
from statepact.cli._show import reading
from statepact.cli._verify import log_key_of
from statepact.errors import SetupError
from statepact.stores import Keep, Retention, open_store, retain


def retain_runs(
    *,
    session: str | None,
    all_sessions: bool,
    starts_with: str | None,
    store: str,
    cache: str | None,
    owner: str,
    keep_days: float | None,
    keep_runs: int | None,
    unfinished_days: float | None,
    dry_run: bool,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Remove runs, say what went and what stays; exit 1 if old bytes could not be written over yet."""
    if (session is not None) + all_sessions + (starts_with is not None) != 1:
        raise SetupError(
            "a retention is of one session or of several",
            hint="name a SESSION, or --all-sessions, or --starts-with TEXT",
        )
    if keep_days is None and keep_runs is None:
        raise SetupError("a retention says how much is kept", hint="--keep-days 90, --keep-runs 20, or both")
    keep = Keep(days=keep_days, runs=keep_runs, unfinished_days=unfinished_days)
    log_key = log_key_of(key_file)

    def rule(name: str) -> Keep | None:
        return keep if starts_with is None or name.startswith(starts_with) else None

    async def done() -> Retention:
        async with open_store(reading(store) if dry_run else store, cache=cache) as opened:
            return await retain(opened, rule, owner=owner, session=session, log_key=log_key, dry_run=dry_run)

    retention = asyncio.run(done())
    if as_json:
        print_json(retention.as_dict())
    else:
        console().print(str(retention), markup=False)
    if not retention.scrubbed:
        raise Exit(ExitCode.NOT_WELL)
