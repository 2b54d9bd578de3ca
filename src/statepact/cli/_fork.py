"""`statepact fork`: a session that begins as another one was."""

from __future__ import annotations

import asyncio
from pathlib import Path

from statepact.cli._output import console, print_json
from statepact.cli._verify import log_key_of
from statepact.stores import Fork, fork, open_store


def fork_session(
    *, session: str, new: str, store: str, owner: str, at: int | None, key_file: Path | None, as_json: bool
) -> None:
    """Fork, and say up to where the two sessions are the same."""
    log_key = log_key_of(key_file)

    async def done() -> Fork:
        async with open_store(store) as opened:
            return await fork(opened, session, new, owner=owner, at=at, log_key=log_key)

    made = asyncio.run(done())
    if as_json:
        print_json(made.as_dict())
    else:
        console().print(f"{made}, with head {made.revision}:{made.head}", markup=False)
