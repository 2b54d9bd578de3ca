"""`statepact rotate`: sensitive values under the current key."""

from __future__ import annotations

import asyncio
from pathlib import Path

from statepact.cli._output import console, print_json
from statepact.errors import SetupError
from statepact.ledger import KeyRing
from statepact.stores import Rotation, open_store, rotate


def rotate_keys(*, store: str, owner: str, session: str | None, keys: Path | None, as_json: bool) -> None:
    """Rotate one session or all of an owner, and print how many values were changed."""
    if keys is None:
        raise SetupError("a rotation needs keys", hint="--keys FILE with the old keys and the new one as current")
    ring = KeyRing.from_file(keys)
    done = asyncio.run(_rotate(ring, store=store, owner=owner, session=session))
    if as_json:
        print_json({"current": ring.current, "changed": done.changed, "kept": done.kept})
    else:
        console().print(f"{done.changed} values now under key {ring.current}, {done.kept} were before", markup=False)


async def _rotate(ring: KeyRing, *, store: str, owner: str, session: str | None) -> Rotation:
    async with open_store(store) as opened:
        return await rotate(opened, ring, owner=owner, session=session)
