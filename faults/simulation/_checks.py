"""What must hold after a simulation, whatever has happened in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from faults.simulation._jobs import Paid, Piece, Task, Total, run_of_pieces, undisturbed
from statepact import Contract
from statepact.errors import StatepactError
from statepact.ledger import Entry, SessionKey
from statepact.ledger._codec import decode
from statepact.ledger._header import Kind
from statepact.stores._base import Hold
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify
from statepact.testing import contradiction
from statepact.testing._operations import Operation
from statepact.testing._simulated_store import Accepted

if TYPE_CHECKING:
    from faults.simulation._world import World

C = TypeVar("C", bound=Contract)


async def wrong_with(world: World) -> Counter[Kind]:
    """Add to `world.wrong` what does not hold. Returns how many entries of each kind there are."""
    kinds: Counter[Kind] = Counter()
    for key in world.keys:
        wrong: list[str] = []
        try:
            log = await OpenLog.open(world.store.inside, key)
            verdict = await verify(world.store.inside, key)
            wrong += [] if verdict.ok else [f"verify says {verdict}"]
            wrong += _twice(log.log.entries)
            wrong += _followed(world, key, len(log.log.entries))
            wrong += _unclaimed(world, key, log.log.entries)
            for task in world.tasks:
                if task.session == key.session:
                    wrong += await _results(world, task, log)
            kinds.update(entry.header.kind for entry in log.log.entries)
        except StatepactError as error:
            wrong.append(f"cannot be read: {error!r}")
        # The store's clock jumps, so when claims end is judged by what the store itself has taken.
        history = list(_checkable(world, world.history.of(key)))
        if (contradicts := contradiction(history, clock_error=math.inf)) is not None:
            wrong.append(str(contradicts))
        world.wrong += [f"{key.session}: {one}" for one in wrong]
    if world.store.synced_every is None:
        world.wrong += _wrong_claims(world.store.accepted)
    return kinds


def _checkable(world: World, operations: Iterable[Operation]) -> Iterator[Operation]:
    """Leave claims out where requests are repeated: one that arrives again is a claim that nobody has made."""
    for one in operations:
        if not world.repeats:
            yield one
        elif one.kind != "hold" and one.result not in ("held", "lost"):
            yield replace(one, hold=None)


def _twice(entries: Iterable[Entry]) -> Iterator[str]:
    cells: Counter[tuple[str, str, str]] = Counter()
    digests: Counter[bytes] = Counter()
    for entry in entries:
        digests[entry.header.digest] += 1
        if entry.header.kind is Kind.COMMIT:
            cells[entry.header.run, entry.header.step, entry.header.branch] += 1
    for cell, count in cells.items():
        if count > 1:
            yield f"{cell} was committed {count} times"
    if max(digests.values(), default=0) > 1:
        yield "an entry is there twice"


def _followed(world: World, key: SessionKey, revision: int) -> Iterator[str]:
    for followed, seen in world.followed:
        if followed == key and seen != list(range(1, revision + 1)):
            yield f"a follower saw revisions {seen} of {revision}"


def _unclaimed(world: World, key: SessionKey, entries: list[Entry]) -> Iterator[str]:
    """Yield commits that were made without holding the session, where everybody takes turns."""
    lossy = world.store.synced_every is not None  # what was accepted is not what is there
    if lossy or any(task.lease is None for task in world.tasks if task.session == key.session):
        return
    for accepted in world.store.accepted:
        if accepted.key == key and accepted.hold is None:
            for entry in entries[accepted.after : accepted.after + accepted.entries]:
                if entry.header.kind is Kind.COMMIT:
                    yield f"revision {entry.revision} was committed without holding the session"


async def _results(world: World, task: Task, log: OpenLog) -> list[str]:
    """Compare what a run came to with what it comes to undisturbed, and with what anybody was told."""
    totals = await _values(log, task.run, Total)
    run = run_of_pieces(task)
    pieces = [piece.by for piece in await _values(log, run, Piece)]
    pieces += [paid.by for paid in await _values(log, run, Paid)]
    if [total.value for total in totals] != [undisturbed(task)]:
        return [f"{task.run} came to {totals}, undisturbed to {undisturbed(task)}"]
    wrong = []
    paid = world.effects.get(task.run, [])
    if task.kind == "pay" and len(paid) != 1:
        wrong.append(f"{task.run} was paid by {paid}, which must happen once")
    if sorted(totals[0].pieces) != sorted(pieces):
        wrong.append(f"the total of {task.run} was made from {totals[0].pieces}, committed are {pieces}")
    told = [one.total for one in world.returned if one.task == task and one.total != totals[0]]
    return [*wrong, *(f"somebody was told that {task.run} has come to {one}, committed is {totals}" for one in told)]


async def _values(log: OpenLog, run: str, contract: type[C]) -> list[C]:
    found = log.log.runs.get(run)
    values = []
    for cell in found.by_contract.get(contract.contract_name, ()) if found else ():
        await log.fetch([cell])
        values.append(decode(contract, cell.document or b""))
    return values


def _wrong_claims(accepted: Iterable[Accepted]) -> Iterator[str]:
    """Yield claims that were granted while somebody else held the session, and renewals of what was lost."""
    held: dict[SessionKey, tuple[Hold, float]] = {}
    for one in accepted:
        hold = one.hold
        if hold is None:
            continue
        other, until = held.get(one.key, (None, 0.0))
        ours = other is not None and other.holder == hold.holder
        if hold.seconds <= 0 and not ours and one.entries == 0:
            continue  # giving up what one has not
        if not ours and not hold.claim:
            yield f"at {one.at:g} somebody renewed {one.key.session}, which was not his any more"
        elif other is not None and not ours and one.at < until and other.holder != hold.succeeds:
            yield f"at {one.at:g} {one.key.session} was taken from somebody who held it until {until:g}"
        if hold.seconds <= 0:
            held.pop(one.key, None)
        else:
            held[one.key] = hold, one.at + hold.seconds
