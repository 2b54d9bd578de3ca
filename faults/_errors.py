"""C4, a disk that is full or broken at the n-th write or sync, and a file that cannot be written."""

import asyncio
import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from faults._checker import check
from faults._children import Child
from faults._ledger import Witness
from faults._place import Place, nothing
from faults._shim import ON_SYNC, ON_WRITE, Shim
from faults._tally import Tally
from faults._worker import Job, work
from statepact.errors import StatepactError
from statepact.ledger import session_key
from statepact.stores import NewEntry, open_store

MOST_SYNCS = 300
"""The highest sync that fails: each one needs a run with as many before it, which takes ever longer."""
REFUSED = 3
"""How a worker ends that was refused what it should have been given."""

FAULTS = (
    ("no room left (ENOSPC) from the n-th write on", ON_WRITE, errno.ENOSPC, True),
    ("the n-th write fails (EIO)", ON_WRITE, errno.EIO, False),
    ("the n-th sync fails (EIO)", ON_SYNC, errno.EIO, False),
)


def disk_errors(place: Place, mode: str, most: int, *, bug: Callable[[], None] = nothing, step: int = 1) -> list[Tally]:
    """Fail every n-th write and sync up to `most`; afterwards room returns, and commits go on."""
    tallies = []
    for what, on, error, lasting in FAULTS:
        highest = min(most, MOST_SYNCS) if on == ON_SYNC else most
        tallies.append(_sweep(place, mode, highest, step, bug, what, on, error, lasting))
        if bug is not nothing and tallies[-1].found_something:
            break  # a planted bug is found once
    return tallies


def _sweep(
    place: Place,
    mode: str,
    most: int,
    step: int,
    bug: Callable[[], None],
    what: str,
    on: int,
    error: int,
    lasting: bool,
) -> Tally:
    tally = Tally("sqlite", mode, f"{what}, n to {most}", seeds=f"every n, step {step}")
    numbers = range(1, most + 1, step)
    for n in numbers:
        with place.folder() as folder:
            place.ledger.clear()
            job = Job(
                place.sqlite(folder, mode), place.ledger.path, ("s0", "s1"), runs=2 if on == ON_WRITE else most // 16
            )

            def script(job: Job = job, n: int = n) -> None:
                bug()
                shim = Shim()
                shim.watch(folder)
                asyncio.run(_broken_run(shim, job, (on, n, error, lasting)))

            child = Child(script)
            code = child.wait(20 if bug is nothing else 5)
            child.kill()
            books = place.ledger.read()
            struck = "struck" in books.records
            books.records.pop("struck", None)
            found = check(job.url, books)
            if code != 0:
                tally.trouble(f"n={n}: " + ("hung" if code is None else f"the worker ended with {code}"))
            if struck and not any(name.split("/")[2] == "r900" for name in books.committed):
                tally.remark(f"n={n}: nothing could be committed after room had returned")
            tally.add(found, hit=struck)
            tally.count(found)
            if bug is not nothing and tally.found_something:
                break
            if not struck and n > 20:
                break  # the script has no more writes than that
    return tally.done()


async def _broken_run(shim: Shim, job: Job, fault: tuple[int, int, int, bool]) -> None:
    on, n, error, lasting = fault
    async with open_store(job.url) as store:
        shim.arm(on, n, error, lasting=lasting)
        await work(job, store)
        witness = Witness(job.ledger)
        if shim.struck:
            witness.intent("struck")
        shim.disarm()
        await work(replace(job, first=dict.fromkeys((*job.sessions, *job.batches), 900), runs=1), store)


def next_commit(place: Place, mode: str, *, bug: Callable[[], None] = nothing) -> Tally:
    """Fail one commit for want of a sync; the next one of the same process must not stumble over it."""
    tally = Tally("sqlite", mode, "the next commit after one whose sync failed", seeds="one")
    with place.folder() as folder:
        url = place.sqlite(folder, mode)

        def script() -> None:
            bug()
            shim = Shim()
            shim.watch(folder)
            asyncio.run(_fail_and_go_on(url, shim))

        child = Child(script)
        code = child.wait(20)
        child.kill()
        tally.hits, tally.committed = 1, 2
        if code == REFUSED:
            tally.remark("the next commit was refused")
        elif code != 0:
            tally.trouble("hung" if code is None else f"the worker ended with {code}")
    return tally.done()


async def _fail_and_go_on(url: str, shim: Shim) -> None:
    key = session_key("errors", "s0")
    async with open_store(url) as store:
        await store.append(key, [NewEntry(b"first", b"{}")], after=0)
        shim.arm(ON_SYNC, 1, errno.EIO, lasting=True)
        with contextlib.suppress(StatepactError):
            await store.append(key, [NewEntry(b"failed", b"{}")], after=1)
        if not shim.struck:
            raise AssertionError("no sync was made to fail")
        shim.disarm()
        there = len(await store.headers(key))
        try:
            await store.append(key, [NewEntry(b"next", b"{}")], after=there)
        except StatepactError:
            sys.exit(REFUSED)


def read_only(place: Place, mode: str = "power") -> Tally:
    """Try to write to a file that may only be read, and to one on which the right to write was lost."""
    tally = Tally("sqlite", mode, "read-only file")
    for how in ("option", "permission"):
        with place.folder() as folder:
            place.ledger.clear()
            url = place.sqlite(folder, mode)
            asyncio.run(work(Job(url, place.ledger.path, runs=1)))
            before = place.ledger.read()
            job = Job(url + "&read_only=1" * (how == "option"), place.ledger.path, runs=1)
            job = replace(job, first=dict.fromkeys((*job.sessions, *job.batches), 5))
            if how == "permission":
                for path in folder.iterdir():
                    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
                folder.chmod(0o555)

            def script(job: Job = job, how: str = how) -> None:
                if how == "permission" and os.geteuid() == 0:
                    os.setegid(65534)
                    os.seteuid(65534)  # root may write to everything
                asyncio.run(work(job))

            if how == "permission" and os.geteuid() == 0:
                folder.parent.chmod(0o755)
                Path(place.ledger.path).parent.chmod(0o755)
                Path(place.ledger.path).chmod(0o777)
            child = Child(script, quiet=False)
            child.wait(20)
            child.kill()
            folder.chmod(0o755)
            for path in folder.iterdir():
                path.chmod(0o644)
            books = place.ledger.read()
            found = check(url, books)
            tried = books.records.keys() - before.records.keys()
            if not tried:
                tally.trouble(f"{how}: nothing was tried")
            if any(not books.records[name].refused for name in tried):
                tally.remark(f"{how}: a commit was not refused")
            tally.add(found, hit=bool(tried))
            tally.count(found)
    return tally.done()


__all__ = ["disk_errors", "next_commit", "read_only"]
