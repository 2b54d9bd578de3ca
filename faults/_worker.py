"""The system under test: steps of runs by the public interface, as fast as it can, until it is killed.

Several sessions at once; 1 KB payloads, some of 20 KB with large values beside the document, fan-outs,
entities; and beside them batches of bare entries, which must land whole or not at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from faults._facts import Cell, Plan, contract_of, order_of, value_of
from faults._ledger import Books, Witness
from statepact import open_session
from statepact.errors import Behind, StatepactError
from statepact.ledger import session_key
from statepact.stores import Entity, Hold, NewEntry, Store, open_store

OWNER = "acme"
RAW = "batches"
"""Owner of the batches."""
STEPS = 8
"""Steps of a run after its plan."""
HELD = 3600.0


@dataclass(frozen=True)
class Job:
    """What one worker does."""

    url: str
    ledger: str
    sessions: Sequence[str] = ("s0", "s1", "s2")
    batches: Sequence[str] = ("b0",)
    first: Mapping[str, int] = field(default_factory=dict)
    """Number of the first run of a session, or of its first batch; 0 by default. See `after`."""
    runs: int = 1_000_000
    worker: str = ""
    """Added to the names of runs, where several workers share a session."""
    pause: float = 0.0
    """Seconds between two steps."""
    patience: int = 0
    """How often a step that failed is tried again; its name stays the same, so it may not land twice."""
    wrap: Callable[[Store], Any] = lambda store: store
    """Put around the store, under the index."""

    def after(self, books: Books) -> "Job":
        """Return the job of who comes after a dead worker: it does the last run of each session again."""
        last: dict[str, int] = {}
        for name in books.records:
            owner, session, run, _, _ = name.split("/")
            if run.endswith(self.worker):
                number = int(run.removeprefix("r").removesuffix(self.worker) or 0)
                last[session] = max(last.get(session, 0), number + (owner == RAW))
        return replace(self, first=last)


class Indexed:
    """Adds the entities of a fact to its entry, by what stands in the payload."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, key: Any, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None) -> None:
        await self._store.append(key, [_indexed(entry) for entry in entries], after=after, hold=hold)


def _indexed(entry: NewEntry) -> NewEntry:
    _, found, rest = entry.payload.partition(b'"order":"KX')
    if not found:
        return entry
    order = "KX" + rest.partition(b'"')[0].decode()
    return replace(entry, entities=(*entry.entities, Entity("order", order)), at=1_767_225_600_000)


def run_worker(job: Job) -> None:
    """Work until all runs are done, or killed."""
    asyncio.run(work(job))


async def work(job: Job, store: Store | None = None, witness: Witness | None = None) -> None:
    witness = witness or Witness(job.ledger)
    opened = store or open_store(job.url)
    try:
        indexed: Any = Indexed(job.wrap(opened))
        await asyncio.gather(
            *(_session(indexed, witness, job, name) for name in job.sessions),
            *(_batches(indexed, witness, job, name) for name in job.batches),
        )
    finally:
        if store is None:
            await opened.aclose()
        witness.close()


# -- steps of runs -----------------------------------------------------------------------------------


async def _session(store: Any, witness: Witness, job: Job, session: str) -> None:
    first = job.first.get(session, 0)
    for number in range(first, first + job.runs):
        run = f"r{number}{job.worker}"
        # A request of its own for each run; the session seals it at the end, which is a commit as well.
        try:
            with _told(witness, str(Cell(OWNER, session, run, "open"))):
                async with open_session(session, owner=OWNER, store=store, run=run) as opened:
                    await _run(opened, witness, job, Cell(OWNER, session, run, ""))
        except _Failed:
            await asyncio.sleep(0.02)


async def _run(opened: Any, witness: Witness, job: Job, place: Cell) -> None:
    await _step(opened, witness, job, place._replace(step="plan"), ())
    done: Iterator[int] = iter(range(STEPS))
    for number in done:
        cell = place._replace(step=f"s{number}")
        if number % 4 == 3:
            branches = [cell._replace(branch=f"b{n}") for n in range(3)]
            await asyncio.gather(*(_step(opened, witness, job, one, (Plan,)) for one in branches))
        else:
            await _step(opened, witness, job, cell, (Plan,))
        if job.pause:
            await asyncio.sleep(job.pause)


async def _step(opened: Any, witness: Witness, job: Job, cell: Cell, reads: Sequence[Any]) -> None:
    name = str(cell)
    value = contract_of(name)(**value_of(name))

    async def commit() -> None:
        async with opened.step(cell.step, reads=list(reads), branch=cell.branch) as step:
            await step.commit(value)

    await _tried(witness, name, commit, job.patience)


# -- batches of bare entries -------------------------------------------------------------------------


async def _batches(store: Store, witness: Witness, job: Job, session: str) -> None:
    key = session_key(RAW, session)
    # One holder for all who follow each other here, as after a restart under the same name.
    hold = Hold(run="batches", holder=f"holder of {session}{job.worker}", seconds=HELD) if not job.worker else None
    first = job.first.get(session, 0)
    for number in range(first, first + job.runs * STEPS):
        name = str(Cell(RAW, session, f"r{number}{job.worker}", "batch"))
        entries = batch_of(name)

        async def commit(entries: Sequence[NewEntry] = entries) -> None:
            while True:
                headers = await store.headers(key)
                with suppress(Behind):
                    await store.append(key, entries, after=len(headers), hold=hold)
                    return

        try:
            await _tried(witness, name, commit, 0)
        except _Failed:
            await asyncio.sleep(0.02)
        await asyncio.sleep(job.pause)


def batch_of(name: str) -> list[NewEntry]:
    """Return three entries that belong together, with a large value and an entity."""
    block = b"address of " + name.encode()
    return [
        NewEntry(
            f"header of {name}#{n}".encode(),
            f"{name}#{n}".encode() + b"." * 300,
            blocks=((block, name.encode() * 100),) if n == 1 else (),
            entities=(Entity("batch", name),) if n == 2 else (),
            at=1_767_225_600_000,
        )
        for n in range(3)
    ]


# -- what the ledger hears ----------------------------------------------------------------------------


class _Failed(Exception):
    """The ledger knows already."""


async def _tried(witness: Witness, name: str, commit: Callable[[], Awaitable[None]], patience: int) -> None:
    for left in range(patience, -1, -1):
        witness.intent(name)
        try:
            await commit()
        except StatepactError as error:
            witness.fail(name, error, strange=error.code == "ERR_INTERNAL")
            if not left:
                raise _Failed from error
            await asyncio.sleep(0.05)
        except Exception as error:
            witness.fail(name, error, strange=True)
            raise _Failed from error
        else:
            witness.ack(name)
            return


@contextmanager
def _told(witness: Witness, name: str) -> Iterator[None]:
    """Tell the ledger about an error of opening or closing a session, if no user should see it."""
    try:
        yield
    except _Failed:
        raise
    except StatepactError as error:
        if error.code == "ERR_INTERNAL":
            witness.fail(name, error, strange=True)
        raise _Failed from error
    except Exception as error:
        witness.fail(name, error, strange=True)
        raise _Failed from error


__all__ = ["OWNER", "RAW", "Indexed", "Job", "batch_of", "order_of", "run_worker", "work"]
