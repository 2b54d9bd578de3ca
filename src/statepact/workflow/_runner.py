"""Runs the steps of a checked graph: each as soon as its inputs are there, failures contained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from statepact.contracts import Contract
from statepact.errors import (
    ContextTooLarge,
    Deleted,
    EffectUnknown,
    MissingInput,
    SetupError,
    SharedConflict,
    StateError,
    StatepactError,
    StepTimeout,
    StoreError,
)
from statepact.ledger import Entry
from statepact.ledger._header import Kind
from statepact.ledger._lifetime import LIFETIMES
from statepact.models._base import Model
from statepact.workflow._attempt import attempt_record
from statepact.workflow._body import as_problem, outputs_of
from statepact.workflow._context import Context
from statepact.workflow._effect import begin
from statepact.workflow._fan_out import Awaited
from statepact.workflow._outcome import BROKEN, StepOutcome, together
from statepact.workflow._reach import Wiring
from statepact.workflow._run_scope import RunScope
from statepact.workflow._step import MOST_RERUNS, Settled, Step
from statepact.workflow._step_scope import StepScope
from statepact.workflow._wiring import EachInput, Input, Wanted

if TYPE_CHECKING:
    import asyncio

LONGEST_WAIT = 5.0
"""Most seconds between two attempts; the first wait is 0.1 s, each further one twice as long."""

_PERMANENT = (SetupError, ContextTooLarge, MissingInput, StateError, StoreError)
"""What another attempt cannot change."""


class Runner:
    """Runs one workflow on one run scope."""

    def __init__(
        self, graph: Wiring, scope: RunScope, model: Model | None, settled: Mapping[str, Settled] | None = None
    ) -> None:
        self._graph = graph
        self._scope = scope
        self._model = model
        self._settled = dict(settled or {})
        """What a person has said about effects, by `step` or `step/branch`."""
        self.outcomes: dict[str, StepOutcome] = {}
        self._turns: asyncio.Lock | None = None
        """Held by the step that runs again because a shared value changed under it."""

    async def run(self) -> Mapping[str, StepOutcome]:
        """Run every step that can run, and return how each ended."""
        import asyncio

        waiting = list(self._graph.steps)
        running: dict[asyncio.Task[StepOutcome], Step] = {}
        try:
            while waiting or running:
                ready = self._take_ready(waiting)
                if len(ready) == 1 and not running:
                    self.outcomes[ready[0].name] = await self._run_step(ready[0])
                    continue
                for step in ready:
                    running[asyncio.create_task(self._run_step(step), name=step.name)] = step
                if running:
                    ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    # In the order of their starts: a set has none, and the first problem is the run's.
                    for task in [task for task in running if task in ended]:
                        self.outcomes[running.pop(task).name] = task.result()
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.gather(*running, return_exceptions=True)
        return self.outcomes

    def _take_ready(self, waiting: list[Step]) -> list[Step]:
        """Take out of `waiting` every step whose sources have ended; settle those that cannot run."""
        ready: list[Step] = []
        again = True
        while again:
            again = False
            for step in list(waiting):
                if not self._graph.sources[step.name] <= self.outcomes.keys():
                    continue
                waiting.remove(step)
                outcome = self._cannot_run(step)
                if outcome is None:
                    ready.append(step)
                else:
                    self.outcomes[step.name] = outcome
                    again = True
        return ready

    def _cannot_run(self, step: Step) -> StepOutcome | None:
        if self._scope.log.lost is not None:
            return StepOutcome("blocked", self._scope.log.lost)  # the run goes on elsewhere
        for wire in step.wires.inputs:
            writers = self._graph.writers[wire.contract]
            ended = [self.outcomes[name] for name in writers if name in self.outcomes]
            written = len(ended) < len(writers) or any(wire.contract.contract_name in o.wrote for o in ended)
            broken = [name for name in writers if name in self.outcomes and self.outcomes[name].ending in BROKEN]
            # A writer that failed is not a value that is absent: if a reader went on without it, the
            # writer could never be resumed, because the reader has already committed from less.
            came = any(wire.contract.contract_name in o.wrote for o in ended)
            if broken and not (written and wire.wanted is Wanted.ONE) and not (came and wire.wanted is Wanted.SOME):
                problem = MissingInput(
                    f"step {step.name!r} did not run: {wire.contract.contract_name} from"
                    f" {', '.join(map(repr, broken))} never came",
                    hint="see the problem of that step",
                )
                return StepOutcome("blocked", problem)
            if wire.wanted is Wanted.ONE and not written:
                return StepOutcome("skipped")
        return None

    # -- one step --------------------------------------------------------------------------------

    async def _run_step(self, step: Step) -> StepOutcome:
        if step.wires.each is None:
            return await self._run_branch(step, "")
        return await self._run_each(step, step.wires.each)

    async def _run_each(self, step: Step, each: EachInput) -> StepOutcome:
        """Run a step once for each value of a committed list."""
        import asyncio

        scope = StepScope(self._scope, step.name, [Input("", each.contract)])
        try:
            await scope.load()
        except Exception as error:
            return StepOutcome("failed", as_problem(step, error))
        names = [str(number) for number in range(len(_items(scope, each)))]
        outcomes = await asyncio.gather(*(self._run_branch(step, name) for name in names))
        return together(dict(zip(names, outcomes, strict=True)))

    async def _run_branch(self, step: Step, branch: str, reruns: int = 0) -> StepOutcome:
        rules = step.rules
        problem: StatepactError | None = None
        attempt = 0
        while attempt <= rules.retries:
            if attempt:
                await self._scope.clock.sleep(min(0.1 * 2 ** (attempt - 1), LONGEST_WAIT))
            attempt += 1
            scope = self._opened(step, branch)
            began = False
            try:
                if rules.covers:
                    scope.extra["covers"] = [f"{c.contract_name}.{field}" for c, field in rules.covers]
                try:
                    await scope.load()
                except Deleted as gone:
                    # As if its writer had failed: what it needs will not come.
                    await self._note(step, gone, scope)
                    return StepOutcome("blocked", gone)
                if (entry := await scope.stored()) is not None:
                    return StepOutcome("stored", wrote=_written(entry), gathered=await self._gathered(step, entry))
                if step.wires.shared:
                    await scope.hold(held.contract for held in step.wires.shared)
                if rules.effect and (ended := await self._begin(step, scope)) is not None:
                    return StepOutcome("stored", wrote=_written(ended))
                began = rules.effect
                output = await self._call(step, scope)
                scope.acted = True
                entry = await scope.commit(outputs_of(step, output))
                outcome = StepOutcome("done", attempts=attempt, wrote=_written(entry))
                return replace(outcome, gathered=await self._gathered(step, entry)) if scope.awaited else outcome
            except Exception as error:
                problem = as_problem(step, error)
                acted = rules.effect and scope.acted
                if _is_unknown(problem, began=began, acted=acted):
                    problem = EffectUnknown(step.name, run=self._scope.run, branch=branch)
                    problem.__cause__ = error
                # A failed attempt ends what has begun: so only the one that began may say so, and only
                # if its body has not got to its end. What it did would otherwise be done again.
                if not isinstance(problem, EffectUnknown) and not acted and began is rules.effect:
                    await self._note(step, problem, scope)
                if isinstance(problem, SharedConflict) and not rules.effect and reruns < MOST_RERUNS:
                    return await self._run_again(step, branch, reruns + 1)
                if isinstance(problem, _PERMANENT):
                    break
        assert problem is not None
        if rules.fallback is not None and not isinstance(problem, (SetupError, StateError, StoreError)):
            return await self._fall_back(step, problem, attempt, branch)
        return StepOutcome("failed", problem, attempt)

    async def _run_again(self, step: Step, branch: str, reruns: int) -> StepOutcome:
        """Run a step on the new value of what it had read when somebody changed it."""
        if reruns > 1:
            return await self._run_branch(step, branch, reruns)
        # One after another: together they would make each other run again as often as there are steps.
        if self._turns is None:
            import asyncio

            self._turns = asyncio.Lock()
        async with self._turns:
            return await self._run_branch(step, branch, reruns)

    async def _begin(self, step: Step, scope: StepScope) -> Entry | None:
        """Record that an effect begins; return the entry that ends it, if there is one already."""
        name = f"{step.name}/{scope.branch}" if scope.branch else step.name
        if name in self._settled:
            output = self._settled.pop(name)
            if output is not None:
                scope.extra["settled"] = True
                return await scope.commit(outputs_of(step, output))
            await self._scope.note(Kind.ATTEMPT, step.name, {"settled": True}, branch=scope.branch)
        return await begin(scope)

    def _settled_inside(self, step: Step) -> Mapping[str, Settled]:
        """Return what was said about steps of a workflow that is this step: `refunds/pay` there is `pay`."""
        start = f"{step.name}/"
        return {name.removeprefix(start): said for name, said in self._settled.items() if name.startswith(start)}

    def _opened(self, step: Step, branch: str) -> StepScope:
        scope = StepScope(self._scope, step.name, step.wires.inputs, branch=branch)
        scope.keep = LIFETIMES.keep(step.rules.priority)
        scope.awaited = {
            wire.contract: self._awaited(wire.contract) for wire in step.wires.inputs if wire.wanted is Wanted.SOME
        }
        return scope

    def _awaited(self, contract: type[Contract]) -> Awaited:
        """Return who could have committed a value, and who of them failed."""
        names: list[str] = []
        missing: list[str] = []
        for writer in self._graph.writers[contract]:
            outcome = self.outcomes.get(writer)
            parts = outcome.branches if outcome is not None else {}
            for name, part in {f"{writer}/{branch}": part for branch, part in parts.items()}.items():
                names.append(name)
                missing += [name] * (part.ending in BROKEN)
            if outcome is None or not (parts or outcome.runs_over):
                names.append(writer)
                missing += [writer] * (outcome is not None and outcome.ending in BROKEN)
        return Awaited(tuple(names), tuple(missing))

    async def _gathered(self, step: Step, entry: Entry) -> Mapping[str, tuple[int, int]]:
        """Return what a committed step has recorded about what it gathered."""
        if not any(wire.wanted is Wanted.SOME for wire in step.wires.inputs):
            return {}
        recorded = (await self._scope.log.record(entry)).get("gathered", {})
        return {name: (came, len(names)) for name, (came, *names) in recorded.items()}

    async def _call(self, step: Step, scope: StepScope) -> Any:
        import asyncio

        arguments = _arguments(step, scope)
        if step.wires.context is not None:
            context = Context(scope, self._model, asyncio.get_running_loop(), budget=step.rules.budget)
            context._settled = self._settled_inside(step)
            arguments[step.wires.context] = context
        if step.rules.timeout is None:
            return await self._body(step, arguments)
        limit = asyncio.timeout(step.rules.timeout)
        try:
            async with limit:
                return await self._body(step, arguments)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise StepTimeout(
                f"step {step.name!r} took longer than {step.rules.timeout:g} s",
                hint="raise its timeout, give it retries or a fallback",
            ) from error

    async def _body(self, step: Step, arguments: dict[str, Any]) -> Any:
        if step.is_async:
            output = step.body(**arguments)
        else:
            import asyncio

            output = await asyncio.to_thread(step.body, **arguments)
        # A decorator may turn either kind of function into the other.
        return await output if hasattr(output, "__await__") else output

    async def _fall_back(self, step: Step, problem: StatepactError, attempts: int, branch: str) -> StepOutcome:
        scope = self._opened(step, branch)
        scope.extra["degraded"] = problem.code
        fallback = step.rules.fallback
        try:
            await scope.load()
            await scope.hold(held.contract for held in step.wires.shared)
            output = fallback
            if callable(fallback):
                # Only here: a fixed value was made from nothing, so nothing was delivered to it.
                output = fallback(**_arguments(step, scope))
                if hasattr(output, "__await__"):
                    output = await output
            entry = await scope.commit(outputs_of(step, output))
        except Exception as error:
            second = as_problem(step, error)
            await self._note(step, second, scope)
            return StepOutcome("failed", second, attempts)
        return StepOutcome("degraded", problem, attempts, _written(entry))

    async def _note(self, step: Step, problem: StatepactError, scope: StepScope) -> None:
        """Record a failed attempt: code and place, never a value."""
        record = attempt_record(problem, usage=scope.extra.get("usage"))
        try:
            await self._scope.note(Kind.ATTEMPT, step.name, record, branch=scope.branch)
        except StoreError:
            # The store is what failed, or it has failed since; the outcome carries the problem.
            return


def _is_unknown(problem: StatepactError, *, began: bool, acted: bool) -> bool:
    """Whether nobody knows what an effect has come to, or somebody knows that it must not be done again."""
    if acted:
        return not isinstance(problem, (StateError, StoreError))  # those say themselves why it has no record
    # The body was stopped somewhere: nobody knows where. What it did may go on.
    return began and isinstance(problem, StepTimeout)


def _items(scope: StepScope, each: EachInput) -> Sequence[Any]:
    wire = next(wire for wire in scope.inputs if wire.contract is each.contract)
    values: Sequence[Any] = getattr(scope.value(wire), each.field)
    return values


def _arguments(step: Step, scope: StepScope) -> dict[str, Any]:
    """Return what the body of a step is called with, beside the context."""
    arguments = {wire.parameter: scope.value(wire) for wire in step.wires.inputs if wire.parameter}
    if (each := step.wires.each) is not None:
        arguments[each.parameter] = _items(scope, each)[int(scope.branch)]
    for held in step.wires.shared:
        arguments[held.parameter] = scope.held(held.contract)
    return arguments


def _written(entry: Entry) -> tuple[str, ...]:
    return tuple(cell.contract.name for cell in entry.outputs)
