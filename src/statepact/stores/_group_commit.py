"""One writer thread that puts whatever has queued up into one commit.

With `synchronous=FULL` a commit costs a flush of the disk, and the flush costs the same for one
record and for sixty. So the writer takes everything that is waiting and flushes once. Three rules
keep that safe: the writer has a connection of its own; a batch that fails is done again one job at
a time, so that a bad job fails alone; and a writer that dies fails everybody who waits or comes later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

from statepact.errors import InternalError, StoreError, StoreTimeout
from statepact.stores._sqlite_schema import InDoubt

if TYPE_CHECKING:
    import asyncio

    from statepact.stores._sqlite_tail import Tail

LARGEST_BATCH = 256


@dataclass(slots=True, eq=False)
class Job:
    """A write that somebody waits for."""

    work: Callable[[Tail], None]
    """What is to be done inside the transaction."""
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    error: BaseException | None = None


class GroupCommit:
    """The writer thread. `write` puts all jobs of a batch into one transaction or raises.

    `write` sets `job.error` for a job that it refused without harm to the others.
    """

    def __init__(self, write: Callable[[Sequence[Job]], None], finish: Callable[[], None]) -> None:
        self._write = write
        self._finish = finish
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._death: BaseException | None = None
        self._closed = False

    def submit(self, job: Job) -> None:
        """Queue a job; its future is settled once it is durable or has failed."""
        with self._start_lock:
            if self._closed:
                raise StoreError("the store is closed", hint="keep it open until every run has ended")
            if self._death is not None:
                raise InternalError("the writer of the store has died") from self._death
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="statepact-writer", daemon=True)
                self._thread.start()
            self._queue.put(job)

    def close(self) -> None:
        """Write what is queued, then stop. Blocks until that is done."""
        with self._start_lock:
            self._closed = True
            thread = self._thread
            if thread is not None:
                self._queue.put(None)
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        batch: list[Job] = []
        try:
            while (first := self._queue.get()) is not None:
                batch, ended = self._drain(first)
                self._commit(batch)
                _settle(batch)
                if ended:
                    break
        except BaseException as death:
            self._die(death, batch)
        finally:
            self._finish()

    def _drain(self, first: Job) -> tuple[list[Job], bool]:
        batch = [first]
        while len(batch) < LARGEST_BATCH and not self._queue.empty():
            job = self._queue.get()
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False

    def _commit(self, batch: list[Job], doubt: StoreTimeout | None = None) -> None:
        """Write a batch; `doubt` is why nobody knows what has become of a first try."""
        try:
            self._write(batch)
        except Exception as error:
            in_doubt = isinstance(error.__cause__, InDoubt)
            if len(batch) == 1 or (isinstance(error, StoreTimeout) and not in_doubt):
                # All of them have waited for the lock; a wait for each, one after the other, helps nobody.
                for job in batch:
                    job.error = doubt or error
                return
            for job in batch:
                job.error = None
                self._commit([job], error if isinstance(error, StoreTimeout) else None)

    def _die(self, death: BaseException, batch: list[Job]) -> None:
        with self._start_lock:
            self._death = death
            while not self._queue.empty():
                job = self._queue.get()
                if job is not None:
                    batch.append(job)
        for job in batch:
            job.error = InternalError("the writer of the store has died; whether this commit was kept is not known")
            job.error.__cause__ = death
        _settle(batch)


def _settle(batch: list[Job]) -> None:
    """Wake the waiters, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in batch:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_here, jobs)
        except RuntimeError:
            # The loop was closed while its jobs were written: nobody is left to be told.
            continue


def _settle_here(jobs: list[Job]) -> None:
    for job in jobs:
        if job.done.done():
            continue
        if job.error is None:
            job.done.set_result(None)
        else:
            job.done.set_exception(job.error)
