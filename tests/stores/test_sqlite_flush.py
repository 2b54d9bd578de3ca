"""A disk that cannot flush a commit: what the caller is told, and what may be there after a crash."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults._shim import NoCompiler, compiled
from statepact import SqliteStore
from statepact.ledger import SessionKey
from statepact.stores import NewEntry

KEY = SessionKey("acme", "s0")
ROOT = Path(__file__).parent.parent.parent

FAILING = """
import asyncio, errno, os, signal, sys
from pathlib import Path
from faults._shim import ON_SYNC, Shim
from statepact import SqliteStore
from statepact.errors import StoreError
from statepact.ledger import SessionKey
from statepact.stores import NewEntry

KEY = SessionKey("acme", "s0")

async def main():
    path = Path(sys.argv[1])
    store = SqliteStore(path)
    await store.append(KEY, [NewEntry(b"1", b"first")], after=0)
    shim = Shim()
    shim.arm(ON_SYNC, 1, errno.EIO)
    try:
        await store.append(KEY, [NewEntry(b"2", b"second")], after=1)
    except StoreError as error:
        print(type(error).__name__, error, flush=True)
    print([stored.revision for stored in await store.headers(KEY)], flush=True)
    if sys.argv[2] == "again":
        await store.append(KEY, [NewEntry(b"3", b"third")], after=1)
    os.kill(os.getpid(), signal.SIGKILL)

Shim().watch(Path(sys.argv[1]).parent)
asyncio.run(main())
"""


def _killed_after_failed_flush(path: Path, then: str) -> list[str]:
    try:
        library = compiled()
    except NoCompiler as missing:
        pytest.skip(str(missing))
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    command = [sys.executable, "-c", FAILING, str(path), then]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == -9, done.stderr
    return done.stdout.splitlines()


async def _found(path: Path) -> list[bytes]:
    async with SqliteStore(path) as store:
        return [stored.header for stored in await store.headers(KEY)]


def test_commit_that_could_not_be_flushed_is_not_called_refused(tmp_path: Path) -> None:
    """Nobody can read it, and yet recovery after a crash finds it: so its end is not known."""
    said, *_, readable = _killed_after_failed_flush(tmp_path / "state.db", "die")

    assert said.startswith("StoreTimeout")
    assert "whether it was kept is not known" in said
    assert readable == "[1]"
    assert asyncio.run(_found(tmp_path / "state.db")) in ([b"1"], [b"1", b"2"])


def test_commit_after_one_that_could_not_be_flushed_takes_its_place(tmp_path: Path) -> None:
    """What is acknowledged after a failure stands, and what failed never comes back beside it."""
    _killed_after_failed_flush(tmp_path / "state.db", "again")

    assert asyncio.run(_found(tmp_path / "state.db")) == [b"1", b"3"]
    asyncio.run(_append_fourth(tmp_path / "state.db"))
    assert asyncio.run(_found(tmp_path / "state.db")) == [b"1", b"3", b"4"]


async def _append_fourth(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.append(KEY, [NewEntry(b"4", b"fourth")], after=2)
