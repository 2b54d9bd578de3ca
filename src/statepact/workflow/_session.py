"""Governed steps for code that keeps its own control flow: `with session.step(...) as step`."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from statepact.contracts import Contract
from statepact.errors import MissingInput, SetupError, StateError, StatepactError, StepFailed, StoreError
from statepact.ledger import DEFAULT_OWNER, check_name, session_key
from statepact.ledger._header import Kind
from statepact.ledger._log import Cell, Entry
from statepact.loss import LossReport, measure
from statepact.models._base import Prompt
from statepact.stores._base import Store
from statepact.stores._open_log import OpenLog
from statepact.workflow._at_once import at_once
from statepact.workflow._clock import SYSTEM_CLOCK, Clock
from statepact.workflow._portal import wait_for
from statepact.workflow._runner import outputs_of
from statepact.workflow._scope import RunScope, StepScope, value_of
from statepact.workflow._step import Step, StepRules
from statepact.workflow._store_choice import chosen_store
from statepact.workflow._wiring import Input, input_of, wires_of
from statepact.workflow._workflow import new_run_id

C = TypeVar("C", bound=Contract)
F = TypeVar("F", bound=Callable[..., Any])


class Uncommitted(UserWarning):
    """A step ended without an error and without having committed anything."""


def open_session(
    name: str,
    *,
    owner: str = DEFAULT_OWNER,
    store: Store | str | None = None,
    run: str | None = None,
    request: str | Contract | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> SessionOpener:
    """Open a session for single steps: `with open_session("s-1") as session`, or `async with`.

    `store` is a `Store`, a URL such as `sqlite:///state.db`, or `None` for a memory of its own, gone
    at the end. Steps belong to `run`: a new one by default; the id of an earlier one continues it, and
    steps that it has committed are not done twice. `request` is what the run is asked, if anything:
    it is shown to every model that is asked with a step's prompt.

    Raises `StoreError` if the store cannot be opened and `StepIdReused` if the run was started with
    another request.
    """
    return SessionOpener(name, owner=owner, store=store, run=run, request=request, clock=clock)


class SessionOpener:
    """What `open_session` returns: enter it with `with` or with `async with`."""

    def __init__(
        self,
        name: str,
        *,
        owner: str,
        store: Store | str | None,
        run: str | None,
        request: str | Contract | None,
        clock: Clock,
    ) -> None:
        self._key = session_key(owner, name)
        self._store = store
        self._run = check_name(run, what="run") if run is not None else new_run_id()
        self._request = request
        self._clock = clock
        self._opened: AsyncSession | None = None
        self._ours: Store | None = None

    async def __aenter__(self) -> AsyncSession:
        store, ours = chosen_store(self._store)
        self._ours = store if ours else None
        try:
            log = await OpenLog.open(store, self._key)
            scope = RunScope(log, self._run, clock=self._clock)
            if self._request is not None or self._run not in log.log.runs:
                await scope.start(self._request)
            else:
                await scope.start(None)
        except BaseException:
            await self._close_store()
            raise
        self._opened = AsyncSession(scope)
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._opened is not None:
                await self._opened._scope.close("done" if error is None else "failed")
        except StatepactError:
            if error is None:
                raise
        finally:
            await self._close_store()

    async def _close_store(self) -> None:
        if self._ours is not None:
            await self._ours.aclose()
            self._ours = None

    def __enter__(self) -> Session:
        return Session(wait_for(self.__aenter__()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wait_for(self.__aexit__(kind, error, trace))


class _Readable:
    """What both faces of a session can tell."""

    _scope: RunScope

    @property
    def name(self) -> str:
        """Name of the session."""
        return self._scope.log.key.session

    @property
    def owner(self) -> str:
        """Whose session it is."""
        return self._scope.log.key.owner

    @property
    def run(self) -> str:
        """Id of the run that steps belong to: pass it to `open_session(run=...)` to continue."""
        return self._scope.run

    @property
    def runs(self) -> Sequence[str]:
        """Ids of all runs of the session, oldest first."""
        return list(self._scope.log.log.runs)


class AsyncSession(_Readable):
    """A session inside `async with open_session(...)`."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope

    def step(self, name: str, *, reads: Sequence[Any] = (), branch: str = "") -> AsyncStepOpener:
        """Open a step: `async with session.step("answer", reads=[Order]) as step`, or decorate with it.

        `reads` are the contracts it needs (`Order`), may have (`Order | None`) or collects
        (`list[Order]`). `branch` tells repeated steps of one name apart. As a decorator, the
        function's signature is the wiring, as in a workflow, and `reads` stays empty.
        """
        return AsyncStepOpener(self, name, reads, branch, sys._getframe(1).f_locals)

    async def get(self, contract: type[C], *, run: str | None = None) -> C | None:
        """Return the newest value of a kind in a run (by default this one), `None` if there is none."""
        values = await self.all(contract, run=run)
        return values[-1] if values else None

    async def all(self, contract: type[C], *, run: str | None = None) -> list[C]:
        """Return all values of a kind in a run (by default this one), oldest first."""
        await self._scope.log.refresh()
        log = self._scope.log.log.runs.get(run or self._scope.run)
        cells: list[Cell] = log.by_contract.get(contract.contract_name, []) if log else []
        await self._scope.log.fetch(cells)
        return [value_of(cell, contract) for cell in cells]

    async def measure(self, run: str | None = None) -> LossReport:
        """Return what was lost in a run, by default this one."""
        await self._scope.log.refresh()
        return measure(await self._scope.log.view(run or self._scope.run))

    @property
    def loss(self) -> LossReport:
        """What was lost in this run so far. For stores that need a loop use `await session.measure()`."""
        return at_once(self.measure())


class Session(_Readable):
    """A session inside `with open_session(...)`, for code without an event loop."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._scope = session._scope

    def step(self, name: str, *, reads: Sequence[Any] = (), branch: str = "") -> StepOpener:
        """Open a step: `with session.step("answer", reads=[Order]) as step`, or decorate with it.

        See `AsyncSession.step`.
        """
        return StepOpener(self._session, name, reads, branch, sys._getframe(1).f_locals)

    def get(self, contract: type[C], *, run: str | None = None) -> C | None:
        """Return the newest value of a kind in a run (by default this one), `None` if there is none."""
        return wait_for(self._session.get(contract, run=run))

    def all(self, contract: type[C], *, run: str | None = None) -> list[C]:
        """Return all values of a kind in a run (by default this one), oldest first."""
        return wait_for(self._session.all(contract, run=run))

    @property
    def loss(self) -> LossReport:
        """What was lost in this run so far."""
        return wait_for(self._session.measure())


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

    def prompt(self, instruction: str) -> Prompt:
        """Return what the step reads as framed data, then the instruction."""
        self._scope.used = False
        return wait_for(self._scope.prompt(instruction))

    def commit(self, *values: Contract) -> None:
        """Commit the step's outputs, all or none; a repeat of the same step changes nothing.

        Raises `ContractViolation`, `NotExact`, `StepIdReused` and `StoreError`.
        """
        self._entry = wait_for(_commit(self._scope, values))


class AsyncOpenStep(_StepValues):
    """A step inside `async with session.step(...)`."""

    async def prompt(self, instruction: str) -> Prompt:
        """Return what the step reads as framed data, then the instruction."""
        self._scope.used = False
        return await self._scope.prompt(instruction)

    async def commit(self, *values: Contract) -> None:
        """Commit the step's outputs, all or none; a repeat of the same step changes nothing.

        Raises `ContractViolation`, `NotExact`, `StepIdReused` and `StoreError`.
        """
        self._entry = await _commit(self._scope, values)


async def _commit(scope: StepScope, values: Sequence[Contract]) -> Entry:
    return await scope.commit(values)


class _Opener:
    """A step that is about to be opened, or a decorator."""

    def __init__(
        self, session: AsyncSession, name: str, reads: Sequence[Any], branch: str, names: Mapping[str, Any]
    ) -> None:
        self._session = session
        self._name = check_name(name, what="step")
        self._branch = check_name(branch, what="branch") if branch else ""
        self._inputs = tuple(input_of(name, f"reads[{n}]", hint) for n, hint in enumerate(reads))
        self._names = names
        self._open: _StepValues | None = None

    async def _enter(self) -> tuple[StepScope, Entry | None]:
        scope = StepScope(self._session._scope, self._name, self._inputs, branch=self._branch)
        await self._session._scope.log.refresh()
        await scope.load()
        return scope, await scope.stored()

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
            await self._note(error)

    async def _note(self, error: Exception) -> None:
        """Record a failed attempt: its code, never a value."""
        code = error.code if isinstance(error, StatepactError) else StepFailed.code
        try:
            await self._session._scope.note(Kind.ATTEMPT, self._name, {"error": code})
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
        scope = StepScope(self._session._scope, self._name, wires.inputs, branch=self._branch)
        await self._session._scope.log.refresh()
        await scope.load()
        return Step(self._name, body, wires, StepRules()), scope, await scope.stored()

    async def _returned(self, step: Step, entry: Entry) -> Any:
        """Return what a decorated function gives its caller: the values as they were committed."""
        await self._session._scope.log.fetch(entry.cells)
        by_name = {contract.contract_name: contract for contract in step.wires.outputs}
        values = tuple(value_of(cell, by_name[cell.contract.name]) for cell in entry.cells)
        return values if len(values) > 1 else values[0] if values else None


def _output_of(step: Step, scope: StepScope) -> Any:
    return step.body(**{wire.parameter: scope.value(wire) for wire in step.wires.inputs})


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
        @functools.wraps(body)
        async def call(*arguments: Any) -> Any:
            step, scope, entry = await self._begin(body, arguments)
            if entry is None:
                try:
                    output = await _awaited(_output_of(step, scope))
                    entry = await scope.commit(outputs_of(step, output))
                except Exception as error:
                    await self._note(error)
                    raise
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
        @functools.wraps(body)
        def call(*arguments: Any) -> Any:
            step, scope, entry = wait_for(self._begin(body, arguments))
            if entry is None:
                try:
                    output = _output_of(step, scope)
                    if inspect.isawaitable(output):
                        output = wait_for(_awaited(output))
                    entry = wait_for(scope.commit(outputs_of(step, output)))
                except Exception as error:
                    wait_for(self._note(error))
                    raise
            return wait_for(self._returned(step, entry))

        return call  # type: ignore[return-value]
