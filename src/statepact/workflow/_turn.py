"""Whose turn it is: runs of a session follow each other, and a run is done by one worker at a time.

A worker claims the session with the first entry of its run, renews the claim while it works, and gives
it up with the last one, so that in the usual case it costs no write of its own. Who finds the session
taken waits. A worker that is frozen or cut off for too long is succeeded; it learns that from the store
with its next commit, which is refused. The store's clock decides, never a worker's.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from statepact.errors import LeaseLost, SessionHeld, StoreError
from statepact.stores._base import Hold
from statepact.stores._open_log import OpenLog

if TYPE_CHECKING:
    import asyncio

LEASE = 30.0
"""Seconds after which a worker that says nothing is succeeded."""

LONGEST_LOOK = 1.0
"""Most seconds between two looks at a session that somebody else holds."""


class Turn:
    """The claim of one execution on its session; `lease` and `patience` are in seconds.

    `patience=None` waits as long as the holder lives.
    """

    def __init__(self, log: OpenLog, run: str, *, lease: float, patience: float | None) -> None:
        self._log = log
        self._hold = Hold(run=run, holder=holder_name(), seconds=lease)
        self._patience = patience
        self._renewing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, start: Callable[[], Awaitable[None]]) -> None:
        """Wait for the turn, then start the run. Raises `SessionHeld` if patience ends first."""
        import asyncio

        loop = asyncio.get_running_loop()
        give_up = None if self._patience is None else loop.time() + self._patience
        while True:
            try:
                # The first entry of a run claims the session; a run that has one already claims by itself.
                self._log.hold = self._hold
                if self._hold.run in self._log.log.runs:
                    await self._claim()
                await start()
                if self._log.hold.claim:
                    await self._claim()  # somebody else had started it a moment earlier
                break
            except SessionHeld as held:
                self._log.hold = None
                if held.run and has_died(held.holder):
                    self._hold = _succeeding(self._hold, held.holder)
                    continue
                left = None if give_up is None else give_up - loop.time()
                if left is not None and left <= 0:
                    raise
                look = min(held.seconds, LONGEST_LOOK, *(() if left is None else (left,)))
                await self._log.store.changed(self._log.key, after=self._log.log.revision, within=max(look, 0.01))
                await self._log.refresh()
        self._renew_later(loop)

    async def _claim(self) -> None:
        await self._log.claim(self._hold)
        # Whoever had it before us may have committed after our last look, and given it up since.
        await self._log.refresh()

    def _renew_later(self, loop: asyncio.AbstractEventLoop) -> None:
        # A timer and not a task that sleeps: most runs end before it rings.
        self._timer = loop.call_later(self._hold.seconds / 3, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._renewing = loop.create_task(self._renew(loop), name=f"lease of {self._hold.run}")

    async def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        hold = self._log.hold
        if hold is None:
            return
        try:
            await self._log.store.hold(self._log.key, hold)
        except LeaseLost as lost:
            self._log.lost = lost
            return
        except StoreError:
            pass  # the store is away: perhaps it is back in time, and commits will tell if not
        self._renew_later(loop)

    async def end(self) -> None:
        """Give the session up, if the last entry of the run has not done so."""
        import asyncio

        if self._timer is not None:
            self._timer.cancel()
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
            if self._timer is not None:
                self._timer.cancel()
        hold, self._log.hold = self._log.hold, None
        if hold is not None and not hold.claim and self._log.lost is None:
            with suppress(StoreError, LeaseLost):  # it then ends by itself when its time is up
                await self._log.store.hold(self._log.key, _given_up(hold))


def _given_up(hold: Hold) -> Hold:
    return Hold(run=hold.run, holder=hold.holder, seconds=0.0, claim=False)


def _succeeding(hold: Hold, dead: str) -> Hold:
    return Hold(run=hold.run, holder=hold.holder, seconds=hold.seconds, succeeds=dead)


def holder_name() -> str:
    """Return a name for one execution that no other one has: where, which process, which one."""
    return f"{_machine()} pid {os.getpid()} {os.urandom(4).hex()}"


def has_died(holder: str) -> bool:
    """Whether a holder was a process of this machine that is not there any more."""
    machine, _, rest = holder.rpartition(" pid ")
    process = rest.partition(" ")[0]
    if machine != _machine() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


@cache
def _machine() -> str:
    """Return what tells this machine apart, and on it this space of process numbers."""
    import hashlib
    import socket

    name = socket.gethostname()
    marks = [name]
    with suppress(OSError):
        marks.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        marks.append(str(Path("/proc/self/ns/pid").readlink()))
    return f"{name[:64]} {hashlib.sha256(chr(0).join(marks).encode()).hexdigest()[:8]}"
