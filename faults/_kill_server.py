"""C2, `kill -9` of a store's server while workers commit; and what the product says about what is lost."""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from faults._checker import Findings, check
from faults._children import Child
from faults._ledger import Books
from faults._place import Place, nothing
from faults._receipts import Receipts, Remembering
from faults._servers import Served
from faults._tally import Tally
from faults._worker import RAW, Job, run_worker

LIVES = 5
"""Kills of one server before the next one is set up."""


def kill_server(
    place: Place,
    store: str,
    mode: str,
    serve: Callable[[Place, str], AbstractContextManager[Served]],
    count: int,
    *,
    control: bool = False,
    must_hold: bool = True,
    longest: float = 0.3,
    lives: int = LIVES,
    what: str = "kill -9 of the server",
    bug: Callable[[], None] = nothing,
) -> Tally:
    """Kill a server `count` times under load, each time on a fresh store, and look at what it has kept.

    The load lasts up to `longest` seconds; a server is killed `lives` times before the next one is set up.
    """
    tally = Tally(store, mode, what, control, seeds=place.seeds(count), must_hold=must_hold)
    chance = random.Random(place.seed)
    missed = false = named = 0
    for start in range(0, count, lives):
        with serve(place, mode) as served:
            for number in range(start, min(start + lives, count)):
                with place.folder() as notes:
                    place.ledger.clear()
                    url, receipts = served.store(number), Receipts(notes / "receipts")
                    job = Job(url, place.ledger.path, batches=(), wrap=partial(Remembering, receipts=receipts))

                    def live(job: Job = job) -> None:
                        bug()
                        run_worker(job)

                    child = Child(live)
                    until_busy(place, chance, longest)
                    flying = place.ledger.read().flying_now
                    served.server.kill()
                    child.kill()
                    served.server.start()
                    books = place.ledger.read()
                    found = check(url, books)
                    tally.add(found, hit=flying > 0)
                    tally.count(found)
                    # Damage that follows from a loss is no second one; in modes that lose, order and index may suffer.
                    exact = compared(asyncio.run(receipts.missing(url)), found, books)
                    named, missed, false = named + exact[0], missed + exact[1], false + exact[2]
    tally.also = f"own report: {named:,} of {named + missed:,} lost facts named, {false} false alarms"
    if missed or false:
        tally.remark(f"the product's own report missed {missed} lost facts and named {false} that are there")
        tally.inexact = missed + false
    return tally.done()


def compared(report: set[str], found: Findings, books: Books) -> tuple[int, int, int]:
    """Return how many lost facts the product has named, how many not, and how many it named that are there."""
    # A fact that is there and not found by what it is about is not a lost entry, which receipts are for.
    # Batches of bare entries leave none.
    gone = {name for name in found.lost - found.present if not name.startswith(f"{RAW}/")}
    # Requests and seals leave receipts, too, and the ledger hears of steps only. A step whose worker
    # died between its receipt and its acknowledgement may be lost or not.
    report = report & books.committed
    return len(report & gone), len(gone - report), len(report - gone)


def until_busy(place: Place, chance: random.Random, longest: float = 0.3) -> None:
    """Wait until commits are acknowledged, and a moment longer."""
    give_up = time.monotonic() + 10
    while place.ledger.acked() < 20 and time.monotonic() < give_up:
        time.sleep(0.005)
    time.sleep(0.05 + chance.random() * (longest - 0.05))
