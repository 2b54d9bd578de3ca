"""One simulation: a store, workers, a follower, a storm of faults, and the quiet after it."""

from __future__ import annotations

import asyncio
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from faults.simulation import _jobs
from faults.simulation._checks import wrong_with
from faults.simulation._jobs import OWNER, JobKind, Paid, Returned, Task, do
from statepact import Run
from statepact.errors import (
    EffectUnknown,
    LeaseLost,
    SessionHeld,
    StatepactError,
    StepFailed,
    StepTimeout,
    StoreError,
    UnknownRun,
)
from statepact.ledger import SessionKey
from statepact.ledger._header import Kind
from statepact.testing import History, SimulatedLoop, SimulatedProcess, SimulatedStore, Stuck, Weather
from statepact.workflow import Uncommitted, watch

STORM = 18.0
"""Virtual seconds during which faults happen."""
LONGEST = 4_000.0
"""Virtual seconds after which somebody who still waits counts as hanging."""
MOST_STEPS = 200_000
"""Callbacks after which somebody must be running in a circle; a usual simulation has a thousand."""
BOUND = 15.0
"""Virtual seconds by which a follower may be late."""
EPOCH = 1_767_225_600_000

_EXPECTED = (StoreError, SessionHeld, LeaseLost, StepFailed, StepTimeout, EffectUnknown)
"""What a worker may be told on a bad day. Everything else is a bug."""


class BodyFailed(Exception):
    """The work of a step has failed, as work does."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a simulation."""

    seed: int
    trace: str
    steps: int
    virtual_seconds: float
    commits: int
    """Entries that hold state, in all sessions."""
    refusals: int
    """Late commits of succeeded workers, which were refused."""
    faults: dict[str, int]
    """Faults that were injected, by kind."""
    wrong: tuple[str, ...]
    """Broken invariants, in words."""


class _Clock:
    """The clock of one process, which may be wrong."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.shift = 0.0

    def now(self) -> int:
        return EPOCH + round((self._loop.time() + self.shift) * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Worker(SimulatedProcess):
    def __init__(self, world: World, name: str, tasks: list[Task]) -> None:
        super().__init__(world.loop, name)
        self.tasks = tasks
        self.clock = _Clock(world.loop)
        self.done: asyncio.Task[None] | None = None


class World:
    """Everything of one simulation. What happens is decided by the loop's chance alone."""

    def __init__(self, seed: int, *, synced_every: float | None = None) -> None:
        self.seed = seed
        self.loop = SimulatedLoop(seed, longest=LONGEST, most_steps=MOST_STEPS)  # type: ignore[abstract] # has what a simulation needs
        self.chance = self.loop.random
        self.calm = self.chance.random() < 0.1
        """Now and then nothing goes wrong: then nothing may look wrong either."""
        self.store = SimulatedStore(self.loop, self._weather(), synced_every=synced_every)
        self.repeats = self.store.weather.repeated > 0
        self.history = History(self.loop.time)
        self.workers: list[_Worker] = []
        self.returned: list[Returned] = []
        self.followed: list[tuple[SessionKey, list[int]]] = []
        self.wrong: list[str] = []
        self.faults: dict[str, int] = {}
        self.tasks = self._tasks()
        self.keys = [SessionKey(OWNER, name) for name in sorted({task.session for task in self.tasks})]
        self.effects: dict[str, list[str]] = {}
        """Who has done what must not be done twice, by run."""
        self._inside: dict[str, set[_Worker]] = {}
        """Who is at a run, or was when he died."""
        self._executions = 0
        self._body_fails = 0.0 if self.calm else self.chance.choice((0.0, 0.05, 0.2))
        self._bodies_take = self.chance.choice((0.0, 0.05, 0.5, 3.0))
        self._hit_at = set() if self.calm else {self.chance.randrange(1_500) for _ in range(self.chance.randrange(4))}
        self._raining = True

    def _weather(self) -> Weather:
        if self.calm:
            return Weather()
        chance = self.chance

        def sometimes(most: float) -> float:
            return chance.random() * most if chance.random() < 0.6 else 0.0

        return Weather(
            request_lost=sometimes(0.06), answer_lost=sometimes(0.12), repeated=sometimes(0.2),
            notice_lost=sometimes(0.8), refused=sometimes(0.05), slow=sometimes(0.1),
            delay=chance.choice((0.0, 0.002, 0.1)), longest_delay=chance.choice((0.5, 8.0)),
        )  # fmt: skip

    def _tasks(self) -> list[Task]:
        chance = self.chance
        sessions = ["s-1", "s-2"][: chance.randint(1, 2)]
        # Either everybody takes turns in a session or nobody does.
        leases = {name: chance.choice((None, 2.0, 8.0, 30.0)) for name in sessions}
        kinds: tuple[JobKind, ...] = ("gather", "relay", "script", "pay", "whole")
        tasks = []
        for number in range(chance.randint(1, 3)):
            session = chance.choice(sessions)
            tasks.append(Task(chance.choice(kinds), f"r-{number}", session, chance.randrange(1, 9), leases[session]))
        return tasks

    # -- running ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run the simulation to its end and look at what is left."""
        with warnings.catch_warnings():
            # A script whose step was refused leaves it uncommitted, and says so.
            warnings.simplefilter("ignore", Uncommitted)
            main = self.loop.create_task(self._main())
            try:
                self.loop.run_until_complete(main)
                trace, steps, seconds = self.loop.trace, self.loop.steps, self.loop.time()
                kinds = self.loop.run_until_complete(wrong_with(self))
            except Stuck as stuck:
                trace, steps, seconds, kinds = self.loop.trace, self.loop.steps, self.loop.time(), Counter()
                self.wrong.append(f"somebody waits for ever: {stuck}")
            finally:
                main.cancel()  # otherwise one that is stuck would go on hiring
                self._bury()
        self.wrong += [f"an error that nobody looked at: {problem}" for problem in self.loop.problems]
        self.loop.close()
        return Outcome(
            self.seed, trace, steps, seconds, kinds[Kind.COMMIT], kinds[Kind.REFUSAL], self.faults, tuple(self.wrong)
        )

    async def _main(self) -> None:
        chance = self.chance
        for number in range(chance.randint(1, 4)):
            mine = [task for task in self.tasks if chance.random() < 0.75] or [chance.choice(self.tasks)]
            chance.shuffle(mine)
            self._hire(f"w{number}", mine)
        follower = SimulatedProcess(self.loop, "follower")
        following = [follower.start(self._follow(key)) for key in self.keys]
        if not self.calm:
            self.loop.before_step = self._between_steps
            await self._storm()
        self._clear_up()
        await self._all_done()
        janitor = self._hire("janitor", list(self.tasks))
        assert janitor.done is not None
        await janitor.done
        if not {task.run for task in self.tasks} <= {one.task.run for one in self.returned}:
            self.wrong.append("a run neither finished nor could be resumed")
        await asyncio.sleep(BOUND + 10)  # long enough for followers and late messages
        for one in following:
            one.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    def _hire(self, name: str, tasks: list[Task]) -> _Worker:
        worker = _Worker(self, name, tasks)
        self.workers.append(worker)
        worker.done = worker.start(self._worker(worker))
        return worker

    async def _all_done(self) -> None:
        while busy := [one.done for one in self.workers if one.state == "running" and one.done and not one.done.done()]:
            await asyncio.wait(busy)
        for worker in self.workers:
            if worker.done is not None and worker.done.done() and not worker.done.cancelled():
                worker.done.result()

    def _bury(self) -> None:
        """Take apart what the dead have left. Nothing of it counts any more."""
        self.loop.before_step = None
        self.store.cut_off.update(worker.name for worker in self.workers)
        self.loop.longest += 10_000
        self.loop.most_steps += 100_000

        async def bury() -> None:
            for worker in self.workers:
                await worker.bury()

        self.loop.run_until_complete(bury())

    # -- workers ---------------------------------------------------------------------------------------

    async def _work(self) -> str:
        self._executions += 1
        execution = self._executions
        if self._bodies_take:
            await asyncio.sleep(self.chance.random() * self._bodies_take)
        if self._raining and self.chance.random() < self._body_fails:
            raise BodyFailed
        return f"execution {execution}"

    async def _pay(self, run: str) -> str:
        by = await self._work()
        self.effects.setdefault(run, []).append(by)
        self.loop.note(f"{run} is paid by {by}")
        if self._bodies_take:
            await asyncio.sleep(self.chance.random() * self._bodies_take)
        return by

    def _settled(self, worker: _Worker, task: Task) -> dict[str, Paid | None]:
        """Ask a person whether an effect has happened, who looks once nobody else is at it any more."""
        others = [one for one in self._inside.get(task.run, ()) if one is not worker and one.state != "dead"]
        if others:
            return {}
        by = self.effects.get(task.run)
        return {"pay": Paid(value=task.number * 7, by=by[0]) if by else None}

    async def _worker(self, worker: _Worker) -> None:
        _jobs.work.set(self._work)
        _jobs.pay.set(self._pay)
        store = self.history.watch(self.store, worker.name)
        begun: set[str] = set()
        for task in list(worker.tasks):
            inside = self._inside.setdefault(task.run, set())
            unknown = False
            for _ in range(60):
                settled = self._settled(worker, task) if unknown else {}
                unknown = False
                inside.add(worker)
                patience = self.chance.choice((None, None, 0.0, 10.0))
                try:
                    again = task.run in begun and self.chance.random() < 0.5
                    came = await do(task, store, worker.clock, patience=patience, again=again, settled=settled)
                except (*_EXPECTED, BodyFailed):
                    begun.add(task.run)
                except UnknownRun:
                    begun.discard(task.run)  # nothing of it had been kept
                except StatepactError as error:
                    self.wrong.append(f"{worker.name} was told in {task.run}: {error!r}")
                except Exception as error:
                    self.wrong.append(f"{worker.name} crashed in {task.run}: {error!r}")
                else:
                    if isinstance(came, Returned):
                        self.returned.append(came)
                        self.loop.note(f"{worker.name} has done {task.run}")
                        break
                    self._look_at(came, worker, task)
                    unknown = isinstance(came.problem, EffectUnknown)
                    begun.add(task.run)
                finally:
                    inside.discard(worker)
                await asyncio.sleep(self.chance.choice((0.1, 2.0, 8.0)) * self.chance.random())

    def _look_at(self, run: Run, worker: _Worker, task: Task) -> None:
        if not isinstance(run.problem, _EXPECTED):
            self.wrong.append(f"{worker.name} was told in {task.run}: {run.problem!r}")

    async def _follow(self, key: SessionKey) -> None:
        seen: list[int] = []
        self.followed.append((key, seen))
        while True:
            following = watch(
                key.session, store=self.store, owner=key.owner, after=seen[-1] if seen else 0, bound=BOUND
            )
            try:
                async for entry in following:
                    seen.append(entry.revision)  # noqa: PERF401 - it never ends, and may fail at any time
            except StoreError:
                await asyncio.sleep(1)

    # -- faults ----------------------------------------------------------------------------------------

    async def _storm(self) -> None:
        faults: list[Callable[[], Any]] = [
            self._kill, self._kill, self._terminate, self._freeze, self._freeze, self._cut, self._crash,
            self._jump, self._jump_of_the_store,
        ]  # fmt: skip
        # Early rather than late: most runs have ended when the storm has.
        moments = sorted(self.chance.random() ** 2 * STORM for _ in range(self.chance.randrange(8)))
        for moment in moments:
            await asyncio.sleep(max(0.0, moment - self.loop.time()))
            self.chance.choice(faults)()
        await asyncio.sleep(max(0.0, STORM - self.loop.time()))

    def _count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def _victim(self) -> _Worker | None:
        busy = [one for one in self.workers if one.state == "running" and one.done is not None and not one.done.done()]
        return self.chance.choice(busy) if busy else None

    def _between_steps(self) -> None:
        if self.loop.steps in self._hit_at:
            self._hit_at.discard(self.loop.steps)
            self.chance.choice((self._kill, self._stall))()

    def _kill(self) -> None:
        if (victim := self._victim()) is not None:
            self._count("kill")
            victim.kill()
            self._replace(victim)

    def _terminate(self) -> None:
        if (victim := self._victim()) is not None:
            self._count("terminate")
            victim.terminate()
            self._replace(victim)

    def _replace(self, victim: _Worker) -> None:
        if self.chance.random() < 0.8:
            self.loop.call_later(self.chance.random() * 5, self._hire, f"{victim.name}'", victim.tasks)

    def _freeze(self) -> None:
        if (victim := self._victim()) is not None:
            self._count("freeze")
            victim.freeze()
            self.loop.call_later(self.chance.choice((0.5, 5.0, 40.0)) * self.chance.random(), victim.thaw)

    def _stall(self) -> None:
        """Freeze somebody for longer than most leases: whatever he was about to do comes too late."""
        if (victim := self._victim()) is not None:
            self._count("freeze")
            victim.freeze()
            self.loop.call_later(self.chance.uniform(5, 60), victim.thaw)

    def _cut(self) -> None:
        if (victim := self._victim()) is not None:
            self._count("cut")
            self.store.cut_off.add(victim.name)
            self.loop.call_later(self.chance.random() * 15, self.store.cut_off.discard, victim.name)

    def _crash(self) -> None:
        self._count("crash of the store")
        self.store.crash(self.chance.random() * 5)

    def _jump(self) -> None:
        if (victim := self._victim()) is not None:
            self._count("clock of a worker")
            victim.clock.shift += self.chance.choice((-3600, 3600, -5, 1e6))

    def _jump_of_the_store(self) -> None:
        self._count("clock of the store")
        self.store.clock_shift += self.chance.choice((3.0, 60.0, -3.0))

    def _clear_up(self) -> None:
        self.store.weather = Weather()
        self._raining = False
        self._hit_at.clear()
        for worker in self.workers:
            worker.thaw()
