"""`statepact verify`: is the log what was committed?"""

from __future__ import annotations

import asyncio
from pathlib import Path

from statepact.cli._output import Exit, ExitCode, console, print_json
from statepact.cli._show import reading
from statepact.errors import SetupError, UnknownSession
from statepact.ledger import KeyRing, session_key
from statepact.stores import open_store
from statepact.stores._verify import Verdict, verify
from statepact.workflow._store_choice import chosen_log_key


def verify_session(
    *,
    session: str | None,
    store: str,
    owner: str,
    keys: Path | None,
    key_file: Path | None,
    anchor: str | None,
    proof: Path | None,
    old: str | None,
    as_json: bool,
) -> None:
    """Check a session's log, or a proof, and exit 1 if it is not what was committed."""
    from statepact.cli._prove import head_of, verify_proof

    if (session is None) is (proof is None):
        raise SetupError("what is checked is a session or a proof", hint="name a SESSION, or --proof FILE")
    if proof is not None:
        verify_proof(proof, head=anchor, old=old, as_json=as_json)
        return
    assert session is not None
    anchor = head_of(anchor) if anchor is not None else None
    log_key = log_key_of(key_file)
    verdict = asyncio.run(_verify(session, store=store, owner=owner, keys=keys, log_key=log_key, anchor=anchor))
    if as_json:
        print_json(verdict.as_dict())
    else:
        console().print(str(verdict), markup=False)
    if not verdict.ok:
        raise Exit(ExitCode.NOT_WELL)


def log_key_of(key_file: Path | None) -> bytes | None:
    """Return the key of logs: from a file, else from the environment, else none."""
    if key_file is None:
        return chosen_log_key(None)
    try:
        return chosen_log_key(key_file.read_bytes())
    except OSError as error:
        raise SetupError(f"{key_file} cannot be read: {error.strerror}", hint="name the file with the key") from None


async def _verify(
    session: str, *, store: str, owner: str, keys: Path | None, log_key: bytes | None, anchor: str | None
) -> Verdict:
    ring = KeyRing.from_file(keys) if keys is not None else None
    async with open_store(reading(store)) as opened:
        verdict = await verify(opened, session_key(owner, session), keys=ring, log_key=log_key, anchor=anchor)
        if not verdict.size and not verdict.anchored and verdict.ok:
            raise UnknownSession(
                f"owner {owner!r} has no session {session!r} in {store.partition('?')[0]}",
                hint="check the name, --store and --owner",
            )
        return verdict
