"""`statepact verify`: is the log what was committed?"""

from __future__ import annotations

import asyncio
from pathlib import Path

from statepact.cli._output import Exit, ExitCode, console, print_json
from statepact.cli._show import reading
from statepact.errors import UnknownSession
from statepact.ledger import KeyRing, session_key
from statepact.stores import open_store
from statepact.stores._verify import Verdict, verify


def verify_session(*, session: str, store: str, owner: str, keys: Path | None, as_json: bool) -> None:
    """Check a session's log and exit 1 if an entry is not what was committed."""
    verdict = asyncio.run(_verify(session, store=store, owner=owner, keys=keys))
    if as_json:
        print_json(verdict.as_dict())
    else:
        console().print(str(verdict), markup=False)
    if not verdict.ok:
        raise Exit(ExitCode.NOT_WELL)


async def _verify(session: str, *, store: str, owner: str, keys: Path | None) -> Verdict:
    ring = KeyRing.from_file(keys) if keys is not None else None
    async with open_store(reading(store)) as opened:
        verdict = await verify(opened, session_key(owner, session), keys=ring)
        if not verdict.size and verdict.ok:
            raise UnknownSession(
                f"owner {owner!r} has no session {session!r} in {store.partition('?')[0]}",
                hint="check the name, --store and --owner",
            )
        return verdict
