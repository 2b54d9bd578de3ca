"""An event loop without a world: virtual time, chance from a seed, no sockets, no threads.

The same seed runs the same program in the same order, whatever the machine does, and an hour passes as
fast as nobody has anything to do. Where asyncio runs what is ready first come, first served, this loop
draws lots: a program that is right only in one order is found out.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from hashlib import blake2b
from typing import Any, Literal, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_process: ContextVar[SimulatedProcess | None] = ContextVar("statepact_simulated_process", default=None)


class Stuck(RuntimeError):
    """Somebody waits, and nothing will ever happen again, or not within the time that was allowed."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An asyncio event loop for one simulation.

    ```python
    loop = SimulatedLoop(seed=7)
    loop.run_until_complete(main())
    ```

    `longest` is how many virtual seconds, and `most_steps` how many callbacks, there may be before `Stuck`
    is raised. What is run inside must take
    its chance from `loop.random` and its time from `loop.time()`, or it is not the seed's doing.
    """

    def __init__(self, seed: int, *, longest: float = 86_400.0, most_steps: int = 1_000_000) -> None:
        self.random = random.Random(seed)
        self.longest = longest
        self.most_steps = most_steps
        self.steps = 0
        """How many callbacks have run."""
        self.before_step: Callable[[], None] | None = None
        """Called before each callback: the place for faults that hit between any two of them."""
        self._now = 0.0
        self._ready: list[tuple[asyncio.Handle, SimulatedProcess | None]] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle, SimulatedProcess | None]] = []
        self._numbers = 0
        self._running = False
        self._stopping = False
        self._closed = False
        self._trace = blake2b(digest_size=16)
        self._problems: list[dict[str, Any]] = []

    # -- what happened -------------------------------------------------------------------------------

    def note(self, what: str) -> None:
        """Add to the trace what a step alone does not tell."""
        self._trace.update(f"{self._now!r} {what}\n".encode())

    @property
    def trace(self) -> str:
        """Digest of everything that has happened, in order: equal for equal seeds."""
        return self._trace.hexdigest()

    @property
    def problems(self) -> list[str]:
        """What asyncio had to complain about: errors that nobody has looked at."""
        return [f"{one.get('message')}: {one.get('exception')!r}" for one in self._problems]

    # -- time and turns ------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((handle, _process_of(context)))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_open()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, handle, _process_of(context)))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing: it is dropped when its time comes."""

    def _step(self) -> None:
        if self.before_step is not None:
            self.before_step()
        if self.steps >= self.most_steps:
            raise Stuck(f"after {self.most_steps} steps somebody runs in a circle, at {self._now:g} virtual seconds")
        while not self._ready:
            self._let_time_pass()
        ready = self._ready
        place = self.random.randrange(len(ready)) if len(ready) > 1 else 0
        handle, process = ready[place]
        ready[place] = ready[-1]
        ready.pop()
        if handle.cancelled():
            return
        if process is not None and process.state != "running":
            process.held.append(handle)
            return
        self.steps += 1
        self._trace.update(f"{self._now!r} {place} {process.name if process else ''}\n".encode())
        handle._run()

    def _let_time_pass(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise Stuck(f"after {self._now:g} virtual seconds everybody waits for somebody else")
        when = self._timers[0][0]
        if when > self.longest:
            raise Stuck(f"after {self.longest:g} virtual seconds somebody still waits")
        self._now = max(self._now, when)
        while self._timers and self._timers[0][0] <= self._now:
            _, _, handle, process = heapq.heappop(self._timers)
            if not handle.cancelled():
                self._ready.append((handle, process))

    # -- running -------------------------------------------------------------------------------------

    def run_forever(self) -> None:
        self._check_open()
        if self._running:
            raise RuntimeError("this simulated loop is running already")
        self._running, self._stopping = True, False
        asyncio._set_running_loop(self)
        try:
            while not self._stopping:
                self._step()
        finally:
            self._running = False
            asyncio._set_running_loop(None)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        task = asyncio.ensure_future(cast("Awaitable[T]", future), loop=self)
        task.add_done_callback(self._stop_with)
        try:
            self.run_forever()
        finally:
            task.remove_done_callback(self._stop_with)
        return task.result()

    def _stop_with(self, _: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("this simulated loop is closed")

    async def shutdown_asyncgens(self) -> None:
        """Nothing: what a simulation leaves open ends with it."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Nothing: there are no threads."""

    # -- what asyncio needs --------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self, name=name or "simulated", context=context)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        raise RuntimeError("a simulated loop has no threads: use coroutines only")

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Nothing: a simulation always runs the same way."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._problems.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self._problems.append(context)


class SimulatedProcess:
    """A process of a simulation: its tasks are frozen, thawed and killed together.

    Whatever is started by its tasks belongs to it.
    """

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.name = name
        self.state: Literal["running", "frozen", "dead"] = "running"
        self.held: list[asyncio.Handle] = []
        """What would have run, had the process not been stopped."""
        self._loop = loop
        self._tasks: list[asyncio.Task[Any]] = []
        self._coroutines: list[Coroutine[Any, Any, Any]] = []

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as a task of this process."""
        context = copy_context()
        context.run(_process.set, self)
        task = context.run(self._loop.create_task, coroutine, name=self.name, context=context)
        self._tasks.append(task)
        self._coroutines.append(coroutine)
        return task

    def freeze(self) -> None:
        """Stop it as SIGSTOP does: it notices nothing, and time goes on."""
        if self.state == "running":
            self._set("frozen")

    def thaw(self) -> None:
        """Let a frozen process go on, late for everything."""
        if self.state == "frozen":
            self._set("running")
            self._release()

    def kill(self) -> None:
        """End it as SIGKILL does: not one line of it runs any more, no `finally` either."""
        self._set("dead")

    def terminate(self) -> None:
        """Ask it to end as SIGTERM does: its tasks are cancelled and may clean up."""
        self.thaw()
        self._loop.note(f"{self.name} terminates")
        for task in self._tasks:
            task.cancel()

    async def bury(self) -> None:
        """Let Python take apart what a dead process has left, so that nothing is destroyed while it waits.

        Call it when everything has been looked at: from here on its code runs again, to be cancelled.
        """
        self._set("running")
        for task in self._tasks:
            task.cancel()
        self._release()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for coroutine in self._coroutines:
            coroutine.close()  # one that was killed before its first line has not begun yet

    def _set(self, state: Literal["running", "frozen", "dead"]) -> None:
        self.state = state
        self._loop.note(f"{self.name} {state}")

    def _release(self) -> None:
        self._loop._ready += [(handle, self) for handle in self.held]
        self.held.clear()


def current_process() -> SimulatedProcess | None:
    """Return the simulated process that the running code belongs to, `None` outside of all."""
    return _process.get()


def _process_of(context: Context | None) -> SimulatedProcess | None:
    return _process.get() if context is None else context.get(_process)
