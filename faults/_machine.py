"""C3 for Valkey: the machine stops, and of the append-only file is left what was flushed, and maybe more.

The server runs under the shim, which writes down what it writes and flushes. The server is killed, which
freezes that record, and started again on the files that a machine could have been left with. A file that
is only appended to keeps a prefix on a journaling file system, so nothing else is tried. What the server
did at its start counts as safe.
"""

import asyncio
import random
from functools import partial
from pathlib import Path

from faults import _servers
from faults._checker import check
from faults._children import Child
from faults._disk import Disk, How, Op, read_trace
from faults._kill_server import compared, until_busy
from faults._place import Place
from faults._receipts import Receipts, Remembering
from faults._tally import Tally
from faults._worker import Job, run_worker

LEFT: tuple[How, ...] = ("nothing", "prefix", "prefix")
"""Of what was not flushed; three machines for each stop."""


def machine_stops(
    place: Place, mode: str, count: int, *, control: bool = False, must_hold: bool = True, longest: float = 0.3
) -> Tally:
    """Stop the machine of a Valkey server `count` times under load of up to `longest` seconds."""
    tally = Tally("redis", mode, "the server's machine stops (nothing, prefix)", control, must_hold=must_hold)
    tally.seeds = place.seeds(count)
    chance = random.Random(place.seed)
    named = missed = false = 0
    for _ in range(count):
        with place.folder() as notes, _servers.valkey(place, mode, trace=notes / "trace") as served:
            place.ledger.clear()
            receipts = Receipts(notes / "receipts")
            at_start = len(read_trace(notes / "trace"))
            job = Job(served.url, place.ledger.path, batches=(), wrap=partial(Remembering, receipts=receipts))
            child = Child(partial(run_worker, job))
            until_busy(place, chance, longest)
            flying = place.ledger.read().flying_now
            served.server.kill()
            child.kill()
            books = place.ledger.read()
            disk = _disk_of(read_trace(notes / "trace"), at_start)
            for how in LEFT:
                for name, data in disk.after_power_loss(how, chance).items():
                    if name.endswith(".aof"):  # its folder is opened as well, to be flushed
                        Path(served.folder, name).write_bytes(data)
                served.server.start()
                found = check(served.url, books)
                tally.add(found, hit=flying > 0)
                tally.count(found)
                exact = compared(asyncio.run(receipts.missing(served.url)), found, books)
                named, missed, false = named + exact[0], missed + exact[1], false + exact[2]
                served.server.kill()
    tally.also = f"own report: {named:,} of {named + missed:,} lost facts named, {false} false alarms"
    tally.inexact = missed + false
    return tally.done()


def _disk_of(ops: list[Op], at_start: int) -> Disk:
    disk = Disk()
    for number, op in enumerate(ops):
        if number == at_start:
            disk.settle()
        disk.apply(op)
    return disk
