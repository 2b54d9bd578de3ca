"""`statepact erase`: values of a fact, a session or an owner, for good."""

from __future__ import annotations

import asyncio
from pathlib import Path

from statepact.cli._output import Exit, ExitCode, console, print_json
from statepact.cli._verify import log_key_of
from statepact.errors import SetupError
from statepact.stores import Erasure, erase, open_store


def erase_values(
    *,
    session: str | None,
    all_sessions: bool,
    store: str,
    cache: str | None,
    owner: str,
    fact: str | None,
    by: str,
    reason: str,
    keep_derived: bool,
    forks: bool,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Erase, say what is gone and what is left; exit 1 if that is old bytes, or copies in other sessions."""
    if (session is None) is not all_sessions:
        raise SetupError("an erasure is of one session or of all", hint="name a SESSION, or --all-sessions")
    log_key = log_key_of(key_file)

    async def done() -> Erasure:
        async with open_store(store, cache=cache) as opened:
            return await erase(
                opened, owner=owner, session=session, fact=fact, by=by, reason=reason, keep_derived=keep_derived,
                forks=forks, log_key=log_key,
            )  # fmt: skip

    erasure = asyncio.run(done())
    if as_json:
        print_json(erasure.as_dict())
    else:
        console().print(str(erasure), markup=False)
    if not erasure.scrubbed or erasure.copies:
        raise Exit(ExitCode.NOT_WELL)
