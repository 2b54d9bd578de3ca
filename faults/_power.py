"""C3, power loss under SQLite: one recorded run, and hundreds of moments at which the power goes.

Each commit leaves a receipt, and after each loss the product has to name from them exactly what is lost.
"""

import asyncio
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from faults._checker import Findings, check
from faults._children import Child
from faults._disk import HOWS, MARK, SYNCED, Disk, Op, read_trace
from faults._kill_server import compared
from faults._ledger import Books, Witness
from faults._place import Place, nothing
from faults._receipts import Remembering, line_of, named_as_lost, receipt_in
from faults._shim import Shim
from faults._tally import Tally
from faults._worker import Job, work
from statepact.errors import StatepactError
from statepact.ledger import Receipt


class MarkingWitness(Witness):
    """Puts what the ledger should hear between the writes, so that both have one order."""

    def __init__(self, shim: Shim) -> None:
        self._shim = shim

    def _say(self, line: str) -> None:
        self._shim.mark(line)

    def close(self) -> None:
        pass


class MarkingReceipts:
    """Puts the receipts there, too: the client has those of commits that had returned, and no others."""

    def __init__(self, shim: Shim) -> None:
        self._shim = shim

    def keep(self, receipt: Receipt, name: str) -> None:
        self._shim.mark(f"{RECEIPT}\t{line_of(receipt, name)}\n")


RECEIPT = "r"


@dataclass
class Heard:
    """What the world outside knew at a moment of a recorded run."""

    books: Books = field(default_factory=Books)
    receipts: dict[Receipt, str] = field(default_factory=dict)

    def hear(self, op: Op) -> None:
        if op.kind != MARK:
            return
        word, *rest = op.data.decode().strip("\n").split("\t")
        if word == RECEIPT:
            self.receipts.update([receipt_in(*rest)])
        else:
            self.books.say(word, *rest)


def power_loss(
    place: Place, mode: str, seeds: int, *, control: bool = False, bug: Callable[[], None] = nothing
) -> Tally:
    """Lose the power at `seeds` moments of recorded runs."""
    tally = Tally("sqlite", mode, "power loss (nothing, prefix, subset, torn)", control, seeds=place.seeds(seeds))
    runs = max(1, seeds // 100)
    named = missed = false = 0
    for number in range(runs):
        ops = recorded(place, mode, bug, shape=number)
        chance = random.Random(place.seed * 1_000 + number)
        for found, (one_named, one_missed, one_false) in crashes(
            place, ops, mode, moments(ops, seeds // runs, chance), chance
        ):
            tally.add(found, hit=True)
            tally.count(found)
            named, missed, false = named + one_named, missed + one_missed, false + one_false
    tally.also = f"own report: {named:,} of {named + missed:,} lost facts named, {false} false alarms"
    tally.inexact = missed + false
    return tally.done()


def recorded(place: Place, mode: str, bug: Callable[[], None], *, shape: int) -> list[Op]:
    """Return the record of one scripted run on an empty folder; odd shapes have one session only."""
    with place.folder() as folder:
        trace = folder.parent / f"{folder.name}.trace"

        def script() -> None:
            bug()
            shim = Shim()
            shim.watch(folder, trace=os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
            sessions = ("s0",) if shape % 2 else ("s0", "s1", "s2", "s3")
            job = Job(
                place.sqlite(folder, mode),
                "",
                sessions,
                batches=("b0",),
                runs=24 // len(sessions) + 6,
                wrap=partial(Remembering, receipts=MarkingReceipts(shim)),
            )
            asyncio.run(work(job, witness=MarkingWitness(shim)))

        child = Child(script, quiet=False)
        if child.wait(60) != 0:
            child.kill()
        ops = read_trace(trace)
        trace.unlink()
        return ops


def moments(ops: list[Op], count: int, chance: random.Random) -> list[int]:
    """Return moments at which something was in flight: half of them right before or after a sync."""
    flying, heard = [], Heard()
    for index, op in enumerate(ops):
        heard.hear(op)
        if heard.books.flying_now:
            flying.append(index)
    syncs = [index for index in flying if ops[index].kind == SYNCED or ops[index - 1].kind == SYNCED]
    return sorted(chance.choice(syncs if n % 2 and syncs else flying) for n in range(count)) if flying else []


def crashes(
    place: Place, ops: list[Op], mode: str, when: list[int], chance: random.Random
) -> Iterable[tuple[Findings, tuple[int, int, int]]]:
    """Yield what is found after a power loss right after each of these moments, and how exact the product is."""
    disk, heard, at = Disk(), Heard(), 0
    for number, moment in enumerate(when):
        for op in ops[at : moment + 1]:
            disk.apply(op)
            heard.hear(op)
        at = moment + 1
        with place.folder() as folder:
            for name, data in disk.after_power_loss(HOWS[number % len(HOWS)], chance).items():
                Path(folder, name).write_bytes(data)
            url = place.sqlite(folder, mode)
            found = check(url, heard.books)
            try:
                report = asyncio.run(named_as_lost(url, heard.receipts))
            except StatepactError as error:
                found.remark(f"the product cannot say what is lost: {error}")
                report = set()
            yield found, compared(report, found, heard.books)
