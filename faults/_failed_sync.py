"""C4 with an end: a sync fails, and then the process is killed or the power goes.

What was in the file when the sync failed is in doubt: SQLite has undone the commit, and still its frames
stand in the log, where recovery finds them. So a commit that was called "not kept" could come back, and
one that was acknowledged after the failure could stand on what the disk has never got.
"""

import asyncio
import errno
import os
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from faults._checker import check
from faults._children import Child
from faults._disk import HOWS, MARK, SYNC_FAILED, Disk, How, Op, read_trace
from faults._kill_server import compared
from faults._place import Place, nothing
from faults._power import Heard, MarkingReceipts, MarkingWitness
from faults._receipts import Remembering, named_as_lost
from faults._shim import ON_SYNC, Shim
from faults._tally import Tally
from faults._worker import Job, work


def end_after_failed_sync(
    place: Place, mode: str, most: int, *, step: int = 1, bug: Callable[[], None] = nothing
) -> Tally:
    """Fail every n-th sync up to `most`; then end the process or the machine at moments from there on."""
    tally = Tally("sqlite", mode, f"kill or power loss after the n-th sync fails (EIO), n to {most}")
    tally.seeds = f"every n, step {step}"
    named = missed = false = 0
    for n in range(1, most + 1, step):
        ops = _recorded(place, mode, n, most, bug)
        chance = random.Random(place.seed * 1_000 + n)
        disk, heard = Disk(), Heard()
        moments = set(_moments(ops, chance))
        if bug is not nothing and tally.found_something:
            break  # a planted bug is found once
        if not moments and n > 20:
            break  # the script has no more syncs than that
        for at, op in enumerate(ops):
            disk.apply(op)
            heard.hear(op)
            if at not in moments:
                continue
            ends: tuple[How, How] = ("everything", chance.choice(HOWS))
            for how in ends:
                with place.folder() as folder:
                    for name, data in disk.after_power_loss(how, chance).items():
                        Path(folder, name).write_bytes(data)
                    url = place.sqlite(folder, mode)
                    found = check(url, heard.books)
                    found.remarks = [f"n={n}, {how}: {remark}" for remark in found.remarks]
                    tally.add(found, hit=True)
                    tally.count(found)
                    exact = compared(asyncio.run(named_as_lost(url, heard.receipts)), found, heard.books)
                    named, missed, false = named + exact[0], missed + exact[1], false + exact[2]
    tally.inexact = missed + false
    return tally.done()


def _recorded(place: Place, mode: str, n: int, most: int, bug: Callable[[], None]) -> list[Op]:
    with place.folder() as folder:
        trace = folder.parent / "trace"

        def script() -> None:
            bug()
            shim = Shim()
            shim.watch(folder, trace=os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
            shim.arm(ON_SYNC, n, errno.EIO)
            wrap = partial(Remembering, receipts=MarkingReceipts(shim))
            # One writer alone leaves its failed commit at the end of the log. Several write over it at once,
            # and so does a step, whose failure is an entry of its own.
            job = Job(place.sqlite(folder, mode), "", (), runs=most // 8 + 1, wrap=wrap)
            if n % 2:
                job = replace(job, sessions=("s0", "s1"), runs=most // 16 + 1)
            asyncio.run(work(job, witness=MarkingWitness(shim)))

        child = Child(script, quiet=False)
        child.wait(60)
        child.kill()
        return read_trace(trace)


def _moments(ops: list[Op], chance: random.Random) -> list[int]:
    """Return when it ends: at the failure, at what is said of it right after, and at three moments of later."""
    failed = next((at for at, op in enumerate(ops) if op.kind == SYNC_FAILED), None)
    if failed is None:
        return []
    told = [at for at in range(failed, len(ops)) if ops[at].kind == MARK]
    later = range(failed, len(ops))
    return sorted({failed, *told[:3], *chance.sample(later, min(3, len(later)))})
