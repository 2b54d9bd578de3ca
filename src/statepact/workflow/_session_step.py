"""One governed step in code that keeps its own control flow: a `with` block, or a decorator."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, TypeVar

from statepact.contracts import Contract
from statepact.errors import (
    ConflictingValues,
    ContractViolation,
    MissingInput,
    SetupError,
    SharedConflict,
    StateError,
    StatepactError,
    StepFailed,
    StoreError,
)
from statepact.ledger import check_name
from statepact.ledger._cells import Entry
from statepact.ledger._header import Kind
from statepact.ledger._lifetime import LIFETIMES, USUAL_PRIORITY
from statepact.models._base import Prompt
from statepact.workflow._attempt import attempt_record
from statepact.workflow._body import outputs_of
from statepact.workflow._effect import begin
from statepact.workflow._portal import wait_for
from statepact.workflow._run_scope import RunScope, value_of
from statepact.workflow._shared import Shared
from statepact.workflow._step import MOST_RERUNS, Step, StepRules, checked_priority
from statepact.workflow._step_scope import StepScope
from statepact.workflow._wiring import Input, input_of, wires_of

C = TypeVar("C", bound=Contract)
F = TypeVar("F", bound=Callable[..., Any])


class Uncommitted(UserWarning):
    """A step ended without an error and without having committed anything."""


class _StepValues:
    """What both faces of an open step can do."""

    def __init__(self, scope: StepScope, stored: Entry | None) -> None:
        self._scope = scope
        self._entry = stored
        self._by_contract: Mapping[type[Contract], Input] = {wire.contract: wire for wire in scope.inputs}

    @property
    def is_stored(self) -> bool:
        """Whether this step had committed before: its body need not be done again."""
        return self._entry is not None

    def __getitem__(self, contract: type[C]) -> C:
        """Return a value that the step reads. Raises `MissingInput` for an optional one that is absent."""
        value = self.get(contract)
        if value is None:
            raise MissingInput(f"step {self._scope.name!r} has no {contract.__name__}")
        return value

    def get(self, contract: type[C]) -> C | None:
        """Return a value that the step reads, `None` for an optional one that is absent."""
        values = self.all(contract)
        return values[-1] if values else None

    def all(self, contract: type[C]) -> list[C]:
        """Return all values of a kind that the step reads."""
        if contract not in self._by_contract:
            raise SetupError(
                f"step {self._scope.name!r} does not read {contract.__name__}",
                hint=f"declare it: session.step({self._scope.name!r}, reads=[{contract.__name__}])",
            )
        value = self._scope.value(self._by_contract[contract])
        return value if isinstance(value, list) else [] if value is None else [value]

    def because(self, reason: str) -> None:
        """Record why this step decided as it did; stored beside its output."""
        self._scope.extra["reason"] = reason

    def sent(self, text: str | Sequence[Mapping[str, Any]]) -> None:
        """Report what you sent to a model: text, or the messages as you passed them on.

        Delivery is measured on it. Without a report, a step that showed a prompt counts as unchecked.
        """
        if not isinstance(text, str):
            text = "\n".join(_text_of(message.get("content")) for message in text)
        self._scope.extra["own_prompt"] = True
        self._scope.sent(text)


def _text_of(content: Any) -> str:
    """Return the text of a message's content, which providers also write as a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _text_of(content.get("text") or content.get("content"))
    if isinstance(content, Sequence):
        return "\n".join(map(_text_of, content))
    return ""


class OpenStep(_StepValues):
    """A step inside `with session.step(...)`."""

    def shared(self, contract: type[C]) -> Shared[C]:
        """Return a shared value of the session, to read and to change; see `Shared`.

        Changes are committed with `commit`, which raises `SharedConflict` if somebody else has
        changed what was read: then open the step again.
        """
        wait_for(self._scope.hold([contract]))
        return self._scope.held(contract)

    def prompt(self, instruction: str) -> Prompt:
        """Return what the step reads as framed data, then the instruction."""
        self._scope.used = False
        return wait_for(self._scope.prompt(instruction))

    def commit(self, *values: Contract) -> None:
        """Commit the step's outputs, all or none; a repeat of the same step changes nothing.

        Raises `ContractViolation`, `NotExact`, `StepIdReused` and `StoreError`.
        """
        self._entry = wait_for(self._scope.commit(values))


class AsyncOpenStep(_StepValues):
    """A step inside `async with session.step(...)`."""

    async def shared(self, contract: type[C]) -> Shared[C]:
        """Return a shared value of the session, to read and to change; see `Shared`.

        Changes are committed with `commit`, which raises `SharedConflict` if somebody else has
        changed what was read: then open the step again.
        """
        await self._scope.hold([contract])
        return self._scope.held(contract)

    async def prompt(self, instruction: str) -> Prompt:
        """Return what the step reads as framed data, then the instruction."""
        self._scope.used = False
        return await self._scope.prompt(instruction)

    async def commit(self, *values: Contract) -> None:
        """Commit the step's outputs, all or none; a repeat of the same step changes nothing.

        Raises `ContractViolation`, `NotExact`, `StepIdReused` and `StoreError`.
        """
        self._entry = await self._scope.commit(values)


class _Opener:
    """A step that is about to be opened, or a decorator."""

    def __init__(
        self,
        run: RunScope,
        name: str,
        reads: Sequence[Any],
        branch: str,
        caller: FrameType,
        priority: int,
        effect: bool,
    ) -> None:
        self._run = run
        self._name = check_name(name, what="step")
        self._branch = check_name(branch, what="branch") if branch else ""
        self._inputs = tuple([input_of(name, f"reads[{n}]", hint) for n, hint in enumerate(reads)])
        self._priority = checked_priority(name, priority)
        self._effect = effect
        self._caller: FrameType | None = caller
        """Who opens the step. Collecting its local names takes time, so only a decorator does."""
        self._names: Mapping[str, Any] = {}
        self._open: _StepValues | None = None

    def _decorate(self) -> None:
        """Keep the names that the annotations of the decorated function may use."""
        caller, self._caller = self._caller, None
        if caller is not None:
            self._names = caller.f_locals

    async def _enter(self) -> tuple[StepScope, Entry | None]:
        self._caller = None
        scope = await self._loaded(self._inputs)
        return scope, await self._ended(scope)

    async def _ended(self, scope: StepScope) -> Entry | None:
        """Return what the step has committed before; for an effect, record that it begins now if not."""
        entry = await scope.stored()
        if entry is None and self._effect:
            entry = await begin(scope)
        return entry

    async def _loaded(self, inputs: Sequence[Input]) -> StepScope:
        """Return the scope of the step with its inputs; what keeps it from running is recorded."""
        scope = StepScope(self._run, self._name, inputs, branch=self._branch)
        if self._priority != USUAL_PRIORITY:
            scope.keep = LIFETIMES.keep(self._priority)
        if self._run.log.hold is None:
            # Who holds the session need not look for others before each step: should somebody have
            # committed without asking, the store says so when this step commits.
            await self._run.log.refresh()
        try:
            await scope.load()
        except (ConflictingValues, StepFailed, ContractViolation) as error:
            if not self._effect:  # only the one that began an effect may say how it ended
                await self._note(error, scope)
            raise
        return scope

    def _warn_if_forgotten(self, error: BaseException | None) -> None:
        if error is None and self._open is not None and self._open._entry is None:
            warnings.warn(
                f"step {self._name!r} ended without step.commit(...): later steps will not see its work",
                Uncommitted,
                stacklevel=3,
            )

    async def _exit(self, error: BaseException | None) -> None:
        opened, self._open = self._open, None
        if opened is not None and opened._entry is None and isinstance(error, Exception):
            await self._note(error, opened._scope)

    async def _note(self, error: Exception, scope: StepScope) -> None:
        """Record a failed attempt: its code, never a value."""
        if self._effect and scope.acted:
            return  # it would end what has begun, and what was done would be done again
        record = attempt_record(error) if isinstance(error, StatepactError) else {"error": StepFailed.code}
        try:
            await self._run.note(Kind.ATTEMPT, self._name, record, branch=self._branch)
        except StoreError:
            # The store is what failed, or has failed since; the caller needs the first error.
            return

    # -- as a decorator: the body runs where its caller runs, only the rest on our loop ----------

    async def _begin(self, body: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Step, StepScope, Entry | None]:
        """Fill the inputs of a decorated function; with the entry if it has committed before."""
        wires = wires_of(self._name, body, self._names)
        if wires.context is not None:
            raise SetupError(f"step {self._name!r} takes a Context, which only a workflow gives")
        if arguments:
            raise StateError(
                f"step {self._name!r} was called with arguments",
                hint="its inputs come from what earlier steps committed",
            )
        scope = await self._loaded(wires.inputs)
        entry = await self._ended(scope)
        if entry is None:
            await scope.hold(held.contract for held in wires.shared)
        return Step(self._name, body, wires, StepRules()), scope, entry

    def _may_rerun(self, error: Exception, reruns: int) -> bool:
        return isinstance(error, SharedConflict) and not self._effect and reruns < MOST_RERUNS

    async def _returned(self, step: Step, entry: Entry) -> Any:
        """Return what a decorated function gives its caller: the values as they were committed."""
        await self._run.log.fetch(entry.outputs)
        by_name = {contract.contract_name: contract for contract in step.wires.outputs}
        values = tuple(value_of(cell, by_name[cell.contract.name]) for cell in entry.outputs)
        return values if len(values) > 1 else values[0] if values else None


def _output_of(step: Step, scope: StepScope) -> Any:
    arguments = {wire.parameter: scope.value(wire) for wire in step.wires.inputs}
    return step.body(**arguments, **{held.parameter: scope.held(held.contract) for held in step.wires.shared})


async def _awaited(output: Any) -> Any:
    return await output if inspect.isawaitable(output) else output


class AsyncStepOpener(_Opener):
    """`async with session.step(...)`, or `@session.step(...)` over a coroutine function."""

    async def __aenter__(self) -> AsyncOpenStep:
        opened = AsyncOpenStep(*await self._enter())
        self._open = opened
        return opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._warn_if_forgotten(error)
        await self._exit(error)

    def __call__(self, body: F) -> F:
        self._decorate()

        @functools.wraps(body)
        async def call(*arguments: Any) -> Any:
            reruns = 0
            while True:
                step, scope, entry = await self._begin(body, arguments)
                try:
                    if entry is None:
                        output = await _awaited(_output_of(step, scope))
                        scope.acted = True
                        entry = await scope.commit(outputs_of(step, output))
                except Exception as error:
                    await self._note(error, scope)
                    if not self._may_rerun(error, reruns):
                        raise
                    reruns += 1
                else:
                    return await self._returned(step, entry)

        return call  # type: ignore[return-value]


class StepOpener(_Opener):
    """`with session.step(...)`, or `@session.step(...)` over a plain function."""

    def __enter__(self) -> OpenStep:
        opened = OpenStep(*wait_for(self._enter()))
        self._open = opened
        return opened

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._warn_if_forgotten(error)
        wait_for(self._exit(error))

    def __call__(self, body: F) -> F:
        self._decorate()

        @functools.wraps(body)
        def call(*arguments: Any) -> Any:
            reruns = 0
            while True:
                step, scope, entry = wait_for(self._begin(body, arguments))
                try:
                    if entry is None:
                        output = _output_of(step, scope)
                        if inspect.isawaitable(output):
                            output = wait_for(_awaited(output))
                        scope.acted = True
                        entry = wait_for(scope.commit(outputs_of(step, output)))
                except Exception as error:
                    wait_for(self._note(error, scope))
                    if not self._may_rerun(error, reruns):
                        raise
                    reruns += 1
                else:
                    return wait_for(self._returned(step, entry))

        return call  # type: ignore[return-value]
