"""C8 and C10 on real stores: two workers on the same sessions, and one that freezes and wakes up late."""

import asyncio
import os
import signal
import time
from collections.abc import Callable

from faults._checker import check
from faults._children import Child
from faults._facts import Cell, Plan, value_of
from faults._ledger import Witness
from faults._place import Place, nothing
from faults._stores import Target
from faults._tally import Tally
from faults._worker import OWNER, Job, run_worker
from statepact import Contract, Request, Workflow
from statepact.stores import open_store

AT_ONCE = 5
"""Frozen workers on one store at a time, each with a session of its own."""
RUN = "r0"
LEASE = 0.15
"""Seconds after which a frozen worker is succeeded."""


def two_at_once(place: Place, target: Target, rounds: int, *, bug: Callable[[], None] = nothing) -> Tally:
    """Let two workers write the same sessions, kill one in the middle, and look at what both were told."""
    tally = Tally(target.store, target.mode, "two workers on the same sessions, one killed", seeds=place.seeds(rounds))
    for _ in range(rounds):
        with target.opened(place) as url:
            place.ledger.clear()
            children = []
            ready, go = os.pipe()
            for name in ("x", "y"):
                job = Job(url, place.ledger.path, ("s0", "s1"), batches=(), runs=6, worker=name, patience=3)

                def live(job: Job = job, ready: int = ready) -> None:
                    bug()
                    os.read(ready, 1)  # both begin together, or there is nothing to be seen
                    run_worker(job)

                children.append(Child(live))
            os.write(go, b"xy")
            give_up = time.monotonic() + 10
            while not _both_at_work(place) and time.monotonic() < give_up:
                time.sleep(0.005)
            os.close(ready)
            os.close(go)
            flying = place.ledger.read().flying_now
            children[0].kill()
            children[1].wait(20)
            children[1].kill()
            books = place.ledger.read()
            found = check(url, books)
            for name, record in books.records.items():
                if record.error:  # nothing is broken here: whoever is behind is to read on, not to fail
                    found.remark(f"{name} failed with {record.error}")
            tally.add(found, hit=flying > 0)
            tally.count(found)
    return tally.done()


def _both_at_work(place: Place) -> bool:
    committed = [name.split("/")[2][-1] for name in place.ledger.read().committed]
    return min(committed.count("x"), committed.count("y")) >= 15


def frozen_worker(place: Place, target: Target, rounds: int, *, bug: Callable[[], None] = nothing) -> Tally:
    """Stop a worker inside a step, let another one take its run over and finish, then wake it up."""
    tally = Tally(target.store, target.mode, "a frozen worker wakes up late", seeds=place.seeds(rounds))
    for start in range(0, rounds, AT_ONCE):
        with target.opened(place) as url:
            place.ledger.clear()
            numbers = range(start, min(start + AT_ONCE, rounds))
            sleepers = []
            for number in numbers:
                sleepers.append(Child(_work_in_turn, url, place.ledger.path, f"s{number}", "frozen", bug))
                if not _begun(place, f"s{number}"):
                    tally.trouble("the worker did not begin")
                sleepers[-1].signal(signal.SIGSTOP)
            others = [Child(_work_in_turn, url, place.ledger.path, f"s{n}", "healthy", bug) for n in numbers]
            ends = [child.wait(30) for child in others]
            for sleeper in sleepers:
                sleeper.signal(signal.SIGCONT)
            ends += [child.wait(30) for child in sleepers]
            books = place.ledger.read()
            begun = [name for name in books.records if "/begun/" in name]
            books.records = {name: record for name, record in books.records.items() if "/begun/" not in name}
            late = [name for name, record in books.records.items() if name.endswith("/late") and record.acked]
            found = check(url, books)
            for name in late:
                found.surplus(name, "committed by a worker that had been succeeded")
            found.lost -= {name for name in found.lost if name.endswith("/late")}
            if any(ends):
                tally.trouble(f"the workers ended with {ends}")
            tally.add(found, hit=False)
            tally.hits += len(begun)
            tally.count(found)
    return tally.done()


def _begun(place: Place, session: str) -> bool:
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        if f"{OWNER}/{session}/{RUN}/begun/frozen" in place.ledger.read().records:
            return True
        time.sleep(0.005)
    return False


class Late(Contract):
    """What a second step commits: the frozen worker must not get that far."""

    id: str


def _work_in_turn(url: str, ledger: str, session: str, who: str, bug: Callable[[], None]) -> None:
    bug()
    witness = Witness(ledger)
    workflow = Workflow("turns")
    plan, late = str(Cell(OWNER, session, RUN, "plan")), str(Cell(OWNER, session, RUN, who, "late"))

    @workflow.step(name="plan")
    async def first(request: Request) -> Plan:
        witness.intent(plan)
        return Plan(**value_of(plan))

    @workflow.step(name="second")
    async def second(given: Plan) -> Late:
        # Where the frozen one is stopped: it has its inputs, and commits when it wakes up.
        if who == "frozen":
            witness.intent(f"{OWNER}/{session}/{RUN}/begun/frozen")
            await asyncio.sleep(1.0)
        return Late(id=who)

    async def work() -> None:
        async with open_store(url) as store:
            ended = await workflow.run("go", owner=OWNER, session=session, id=RUN, store=store, lease=LEASE)
            if ended.steps["plan"].ending == "done":
                witness.ack(plan)
            if who == "frozen" and ended.steps["second"].ending == "done":
                witness.intent(late)
                witness.ack(late)

    asyncio.run(work())
