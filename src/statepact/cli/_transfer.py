"""`statepact export` and `statepact import`: a session as one file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.text import Text

from statepact.cli._output import console, print_json
from statepact.cli._prove import head_of
from statepact.cli._show import reading
from statepact.cli._verify import log_key_of
from statepact.ledger._shown import visible
from statepact.stores import Transfer, export_session, import_session, open_store


def export_to(*, session: str, path: Path, store: str, owner: str, at: int | None, clear: bool, as_json: bool) -> None:
    """Write the file, and say what is in it and what was masked."""

    async def done() -> Transfer:
        async with open_store(reading(store)) as opened:
            return await export_session(opened, session, path, owner=owner, at=at, clear=clear)

    _tell(asyncio.run(done()), f"{path} holds", as_json=as_json)


def import_from(
    *, path: Path, store: str, owner: str, key_file: Path | None, name: str | None, head: str | None, as_json: bool
) -> None:
    """Make the session, and say what it is and what is missing."""
    log_key = log_key_of(key_file)

    async def done() -> Transfer:
        async with open_store(store) as opened:
            kept = head_of(head) if head is not None else None
            return await import_session(opened, path, owner=owner, name=name, head=kept, log_key=log_key)

    _tell(asyncio.run(done()), "imported", as_json=as_json)


def _tell(found: Transfer, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found.as_dict())
        return
    out = console()
    where = f"session {found.session} of {found.owner} up to revision {found.revision}"
    out.print(Text(visible(f"{what} {where}, with head {found.revision}:{found.head}")))
    if found.masked:
        out.print(f"{found.masked} sensitive values were stored in plain text and are masked: not in the file")
