"""Runs the steps of a checked graph: each as soon as its inputs are there, failures contained."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from statepact.contracts import Contract, label, validate
from statepact.contracts._check import violation
from statepact.errors import (
    ContextTooLarge,
    ContractViolation,
    MissingInput,
    SetupError,
    StateError,
    StatepactError,
    StepFailed,
    StepTimeout,
    StoreError,
    Violation,
)
from statepact.ledger import Entry
from statepact.ledger._header import Kind
from statepact.models._base import Model
from statepact.workflow._context import Context
from statepact.workflow._reach import Wiring
from statepact.workflow._run_scope import RunScope
from statepact.workflow._step import Step
from statepact.workflow._step_scope import StepScope
from statepact.workflow._wiring import Wanted

if TYPE_CHECKING:
    import asyncio

Ending = Literal["done", "stored", "degraded", "skipped", "blocked", "failed"]
"""How a step ended. `stored`: its result was already in the log. `degraded`: its fallback was
committed. `skipped`: the branch it belongs to was not taken. `blocked`: an input never came."""

LONGEST_WAIT = 5.0
"""Most seconds between two attempts; the first wait is 0.1 s, each further one twice as long."""

_PERMANENT = (SetupError, ContextTooLarge, MissingInput, StateError, StoreError)
"""What another attempt cannot change."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of a step."""

    ending: Ending
    problem: StatepactError | None = None
    """What went wrong, also for a degraded step."""
    attempts: int = 0
    wrote: tuple[str, ...] = ()
    """Names of the contracts that it committed."""


class Runner:
    """Runs one workflow on one run scope."""

    def __init__(self, graph: Wiring, scope: RunScope, model: Model | None) -> None:
        self._graph = graph
        self._scope = scope
        self._model = model
        self.outcomes: dict[str, StepOutcome] = {}

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
            broken = [name for name in writers if name in self.outcomes and self.outcomes[name].ending in _BROKEN]
            # A writer that failed is not a value that is absent: if a reader went on without it, the
            # writer could never be resumed, because the reader has already committed from less.
            if broken and not (written and wire.wanted is Wanted.ONE):
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
        rules = step.rules
        problem: StatepactError | None = None
        attempt = 0
        while attempt <= rules.retries:
            if attempt:
                await self._scope.clock.sleep(min(0.1 * 2 ** (attempt - 1), LONGEST_WAIT))
            attempt += 1
            scope = StepScope(self._scope, step.name, step.wires.inputs)
            try:
                if rules.covers:
                    scope.extra["covers"] = [f"{c.contract_name}.{field}" for c, field in rules.covers]
                await scope.load()
                if (entry := await scope.stored()) is not None:
                    return StepOutcome("stored", wrote=_written(entry))
                entry = await scope.commit(outputs_of(step, await self._call(step, scope)))
                return StepOutcome("done", attempts=attempt, wrote=_written(entry))
            except Exception as error:
                problem = as_problem(step, error)
                await self._note(step, problem, scope)
                if isinstance(problem, _PERMANENT):
                    break
        assert problem is not None
        if rules.fallback is not None and not isinstance(problem, (SetupError, StateError, StoreError)):
            return await self._fall_back(step, problem, attempt)
        return StepOutcome("failed", problem, attempt)

    async def _call(self, step: Step, scope: StepScope) -> Any:
        import asyncio

        arguments = {wire.parameter: scope.value(wire) for wire in step.wires.inputs}
        if step.wires.context is not None:
            arguments[step.wires.context] = Context(
                scope, self._model, asyncio.get_running_loop(), budget=step.rules.budget
            )
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

    async def _fall_back(self, step: Step, problem: StatepactError, attempts: int) -> StepOutcome:
        scope = StepScope(self._scope, step.name, step.wires.inputs)
        scope.extra["degraded"] = problem.code
        fallback = step.rules.fallback
        try:
            await scope.load()
            output = fallback
            if callable(fallback):
                # Only here: a fixed value was made from nothing, so nothing was delivered to it.
                output = fallback(**{wire.parameter: scope.value(wire) for wire in step.wires.inputs})
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
        record = {"error": problem.code, "usage": scope.extra.get("usage")}
        if isinstance(problem, ContractViolation):
            record["violations"] = [[v.path, v.kind] for v in problem.violations[:20]]
        for attribute in ("writers", "fields", "contract"):
            if value := getattr(problem, attribute, None):
                record[attribute] = value
        try:
            await self._scope.note(Kind.ATTEMPT, step.name, record)
        except StoreError:
            # The store is what failed, or it has failed since; the outcome carries the problem.
            return


_BROKEN = ("failed", "blocked")


def _written(entry: Entry) -> tuple[str, ...]:
    return tuple(cell.contract.name for cell in entry.cells)


def outputs_of(step: Step, output: Any) -> Sequence[Contract]:
    """Return what a body returned as the values to commit. Raises `ContractViolation`."""
    wires = step.wires
    side = f"step {step.name!r} returned an output that"
    if output is None and (wires.maybe_none or not wires.outputs):
        return ()
    if wires.all_outputs and len(wires.outputs) > 1:
        if isinstance(output, tuple) and len(output) == len(wires.outputs):
            return [_output(contract, value, side) for contract, value in zip(wires.outputs, output, strict=True)]
    elif len(wires.outputs) == 1:
        return [_output(wires.outputs[0], output, side)]
    elif type(output) in wires.outputs:
        return [output]
    wanted = " or ".join(contract.__name__ for contract in wires.outputs) or "None"
    if wires.all_outputs and len(wires.outputs) > 1:
        wanted = f"tuple[{', '.join(contract.__name__ for contract in wires.outputs)}]"
    problem = Violation("", f"Output should be {wanted}", found=type(output).__name__, kind="output_type")
    raise ContractViolation(wanted, [problem], side=side)


def _output(contract: type[Contract], value: Any, side: str) -> Contract:
    if type(value) is contract:
        return value
    if isinstance(value, Mapping):
        return validate(contract, value, side=side)
    problem = Violation("", f"Output should be {contract.__name__}", found=type(value).__name__, kind="output_type")
    raise ContractViolation(label(contract), [problem], side=side)


def as_problem(step: Step, error: Exception) -> StatepactError:
    """Return the error of a body as one of ours. Values that an exception's text may hold stay out."""
    from pydantic import ValidationError

    if isinstance(error, StatepactError):
        return error
    if isinstance(error, ValidationError):
        built = next((one for one in step.wires.outputs if one.__name__ == error.title), error.title)
        problem = violation(built, error, side=f"step {step.name!r} built a value that")
        problem.__cause__ = error
        return problem
    frame = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    where = f" at {PurePath(frame.filename).name}:{frame.lineno}" if frame else ""
    failed = StepFailed(
        f"step {step.name!r} failed with {type(error).__name__}{where}",
        hint="see __cause__ for the error itself",
    )
    failed.__cause__ = error
    return failed
