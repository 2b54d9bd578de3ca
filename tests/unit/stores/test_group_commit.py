"""What waits together is flushed together; what fails, fails alone; nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from statepact.errors import Behind, InternalError, StoreError, StoreFull, StoreTimeout
from statepact.stores._group_commit import LARGEST_BATCH, GroupCommit, Job

SOON = 10
"""Seconds after which a wait counts as one for ever."""


class Writer:
    """Stands for the transaction: records batches, can be held up, and fails as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.jobs: list[Job] = []
        self.names: dict[int, str] = {}
        self.threads: set[str] = set()
        self.busy = threading.Event()
        self.open = threading.Event()
        self.open.set()
        self.fail: Callable[[list[str]], BaseException | None] = lambda names: None
        self.finished = 0
        self.group = GroupCommit(self._write, self._finish)

    def _write(self, batch: Sequence[Job]) -> None:
        self.threads.add(threading.current_thread().name)
        names = [self.names[id(job)] for job in batch]
        self.batches.append(names)
        self.busy.set()
        self.open.wait(SOON)
        if (error := self.fail(names)) is not None:
            raise error

    def _finish(self) -> None:
        self.finished += 1

    def submit(self, name: str) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        job = Job(lambda tail: None, loop, loop.create_future())
        self.jobs.append(job)
        self.names[id(job)] = name
        self.group.submit(job)
        return job.done

    async def submit_behind_a_first(self, *names: str) -> list[asyncio.Future[None]]:
        """Queue jobs while the writer is busy with one, so that they wait together."""
        self.open.clear()
        first = self.submit("first")
        await asyncio.to_thread(self.busy.wait, SOON)
        others = [self.submit(name) for name in names]
        self.open.set()
        return [first, *others]


@pytest.fixture
def writer() -> Writer:
    return Writer()


async def outcomes(futures: Sequence[asyncio.Future[None]]) -> list[type[BaseException] | None]:
    async with asyncio.timeout(SOON):
        done = await asyncio.gather(*futures, return_exceptions=True)
    return [None if one is None else type(one) for one in done]


async def test_what_waits_together_shares_one_transaction(writer: Writer) -> None:
    """Sixteen commits that came while the first was being flushed cost one flush more."""
    waiting = await writer.submit_behind_a_first(*map(str, range(16)))

    assert await outcomes(waiting) == [None] * 17
    assert writer.batches == [["first"], [str(n) for n in range(16)]]
    assert writer.threads == {"statepact-writer"}
    writer.group.close()


async def test_batch_is_bounded(writer: Writer) -> None:
    """A flood is written in portions, in order."""
    names = [str(n) for n in range(LARGEST_BATCH + 10)]
    waiting = await writer.submit_behind_a_first(*names)

    assert set(await outcomes(waiting)) == {None}
    assert [len(batch) for batch in writer.batches] == [1, LARGEST_BATCH, 10]
    assert writer.batches[1] + writer.batches[2] == names
    writer.group.close()


async def test_bad_commit_fails_alone(writer: Writer) -> None:
    """A batch that fails is done again one by one: only the bad one is told."""
    writer.fail = lambda names: StoreFull("no room") if "bad" in names else None
    waiting = await writer.submit_behind_a_first("a", "bad", "b")

    assert await outcomes(waiting) == [None, None, StoreFull, None]
    assert writer.batches[1:] == [["a", "bad", "b"], ["a"], ["bad"], ["b"]]
    writer.group.close()


async def test_refusal_without_harm_needs_no_second_transaction(writer: Writer) -> None:
    """A job that the write function has refused by itself leaves the batch as it is."""

    def refuse(batch: Sequence[Job]) -> None:
        for job in batch:
            if job is jobs[1]:
                job.error = Behind("late")

    group = GroupCommit(refuse, lambda: None)
    loop = asyncio.get_running_loop()
    jobs = [Job(lambda tail: None, loop, loop.create_future()) for _ in range(3)]
    for job in jobs:
        group.submit(job)

    assert await outcomes([job.done for job in jobs]) == [None, Behind, None]
    group.close()


async def test_lock_that_does_not_open_is_waited_for_once(writer: Writer) -> None:
    """Forty commits behind another process's lock give up together, not one after the other."""
    writer.fail = lambda names: StoreTimeout("locked") if names != ["first"] else None
    waiting = await writer.submit_behind_a_first(*map(str, range(40)))

    assert await outcomes(waiting) == [None, *[StoreTimeout] * 40]
    assert len(writer.batches) == 2
    writer.group.close()


async def test_dead_writer_fails_those_who_wait_and_those_who_come_later(writer: Writer) -> None:
    """A bug that kills the thread is an error for everybody at once, never silence."""
    writer.fail = lambda names: SystemExit("a bug") if "deadly" in names else None
    waiting = await writer.submit_behind_a_first("a", "deadly", "b")

    assert await outcomes(waiting) == [None, InternalError, InternalError, InternalError]
    with pytest.raises(InternalError, match="has died"):
        writer.submit("later")
    writer.group.close()
    assert writer.finished == 1


async def test_those_queued_behind_a_dying_batch_are_told_too(writer: Writer) -> None:
    """Jobs that the thread had not even taken yet do not wait for ever."""
    writer.open.clear()
    dying = writer.submit("deadly")
    await asyncio.to_thread(writer.busy.wait, SOON)
    queued = [writer.submit(str(n)) for n in range(5)]
    writer.fail = lambda names: KeyboardInterrupt()
    writer.open.set()

    assert await outcomes([dying, *queued]) == [InternalError] * 6
    writer.group.close()


async def test_closing_writes_what_is_queued_and_refuses_the_rest(writer: Writer) -> None:
    """Close returns when everything that was submitted has been written; the connection is let go."""
    waiting = await writer.submit_behind_a_first("a", "b")
    await asyncio.to_thread(writer.group.close)

    assert await outcomes(waiting) == [None, None, None]
    assert writer.finished == 1
    with pytest.raises(StoreError, match="closed"):
        writer.submit("late")
    writer.group.close()


def test_closing_a_writer_that_never_wrote() -> None:
    """No thread was started, none is waited for."""
    writer = Writer()
    writer.group.close()
    assert writer.batches == []


def test_closed_event_loop_is_no_problem(writer: Writer) -> None:
    """A loop that ended while its commit was written is skipped; later loops are served."""

    async def leave() -> None:
        writer.open.clear()
        writer.submit("abandoned")
        await asyncio.to_thread(writer.busy.wait, SOON)

    asyncio.run(leave())
    writer.open.set()

    async def later() -> list[type[BaseException] | None]:
        return await outcomes([writer.submit("later")])

    assert asyncio.run(later()) == [None]
    assert writer.batches == [["abandoned"], ["later"]]
    writer.group.close()


def test_loops_of_several_threads_share_the_writer(writer: Writer) -> None:
    """Each waiter is woken on its own loop."""
    ended: list[list[type[BaseException] | None]] = []

    async def work(who: int) -> None:
        ended.append(await outcomes([writer.submit(f"{who}.{n}") for n in range(20)]))

    threads = [threading.Thread(target=lambda who=who: asyncio.run(work(who))) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)

    assert ended == [[None] * 20] * 4
    assert sum(map(len, writer.batches)) == 80
    writer.group.close()


async def test_waiter_that_was_cancelled_is_skipped(writer: Writer) -> None:
    """Whoever has gone away does not disturb the others of the batch."""
    waiting = await writer.submit_behind_a_first("a", "b")
    waiting[1].cancel()

    assert await outcomes([waiting[0], waiting[2]]) == [None, None]
    writer.group.close()
