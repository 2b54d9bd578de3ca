"""Steps wired by their types."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from statepact.contracts import Contract, is_contract
from statepact.errors import SetupError
from statepact.ledger import DEFAULT_OWNER, REQUEST_STEP, check_name, session_key
from statepact.ledger._lifetime import USUAL_PRIORITY
from statepact.workflow._clock import SYSTEM_CLOCK, Clock
from statepact.workflow._context import AskFunction, as_model
from statepact.workflow._request import Request
from statepact.workflow._step import Fallback, Settled, Step, StepRules, checked_rules

if TYPE_CHECKING:
    from statepact.ledger._vault import KeyRing
    from statepact.models._base import Model
    from statepact.stores._base import Store
    from statepact.workflow._entities import FindEntities
    from statepact.workflow._reach import Wiring
    from statepact.workflow._run import Run
    from statepact.workflow._wiring import Body

F = TypeVar("F", bound=Callable[..., Any])

LEASE = 30.0
"""Seconds after which a worker that says nothing is succeeded."""


class StepDecorator(Protocol):
    """What `workflow.step(...)` returns: it takes a function and gives the same function back."""

    def __call__(self, body: F, /) -> F: ...


class Workflow:
    """Steps that pass contracts to each other; their signatures are the wiring.

    ```python
    after_sales = Workflow("after-sales")

    @after_sales.step
    async def understand(ctx: Context) -> Complaint: ...

    @after_sales.step
    async def answer(ctx: Context, complaint: Complaint) -> Reply: ...
    ```

    `store` is where its runs are kept: a `Store`, a URL such as `sqlite:///state.db`, or `None` for
    the memory of this process. `keys` encrypt sensitive values there; without them these are stored in
    plain text. `takes` is the contract that a run is asked with; by default it is
    asked in words (`Request`). `results` are the contracts that are the outcome, by default what the
    last step returns that no other step reads. `budget` is the most tokens of a prompt, `None` for
    no bound. `entities` finds what a committed value is about, beside its fields marked as ids: a
    function from the value to pairs of kind and id (`[("order", "KX-5512")]`); see `Context.recall`. `log_key`
    is the key with which every entry of a log is tagged, so that `statepact verify` with that key finds
    every edit; by default that of the environment variable STATEPACT_LOG_KEY, if any.
    """

    def __init__(
        self,
        name: str,
        *,
        store: Store | str | None = None,
        takes: type[Contract] = Request,
        results: Sequence[type[Contract]] | None = None,
        budget: int | None = None,
        entities: FindEntities | None = None,
        keys: KeyRing | None = None,
        log_key: bytes | None = None,
    ) -> None:
        self.name = check_name(name, what="workflow")
        if not is_contract(takes):
            raise SetupError(f"workflow {name!r} takes {takes!r}, which is no contract")
        self._store = store
        self.takes = takes
        """The contract that a run is asked with; `Request` for words."""
        self._results = results
        self.budget = budget
        self.entities = entities
        self._keys = keys
        self._log_key = log_key
        self._defined: dict[str, tuple[Body | Workflow, StepRules, _Locals | None]] = {}
        self._checking = False
        self._wiring: Wiring | None = None
        self._memory: Store | None = None

    # -- defining --------------------------------------------------------------------------------

    @overload
    def step(self, body: F, /) -> F: ...

    @overload
    def step(self, body: Workflow, /, *, name: str | None = None, fallback: Fallback | None = None) -> Workflow: ...

    @overload
    def step(
        self,
        *,
        name: str | None = None,
        timeout: float | None = None,
        retries: int = 0,
        fallback: Fallback | None = None,
        covers: Sequence[tuple[type[Contract], str]] = (),
        budget: int | None = None,
        priority: int = USUAL_PRIORITY,
        effect: bool = False,
    ) -> StepDecorator: ...

    def step(
        self,
        body: Any = None,
        *,
        name: str | None = None,
        timeout: float | None = None,
        retries: int = 0,
        fallback: Fallback | None = None,
        covers: Sequence[tuple[type[Contract], str]] = (),
        budget: int | None = None,
        priority: int = USUAL_PRIORITY,
        effect: bool = False,
    ) -> Any:
        """Add a function as a step. It stays an ordinary function that you can call and test.

        Another workflow may be a step, too: `after_sales.step(refunds)`. It reads what it takes, writes
        what it results in, has cells of its own, and inherits the request, pinned facts and limits.

        `name` is the step's name in the log, by default the function's. `timeout` (seconds) bounds
        one attempt, `retries` is how many more follow a failed one, `fallback` is what is committed
        when all have failed: a value, or a function with the step's parameters (not the context).
        `covers` names facts that the output must deal with: `covers=[(Complaint, "demand")]`.
        `budget` replaces the workflow's. `priority` is for a store with a cache: each point keeps the
        session there a minute longer after the step, 0 until it is deleted. `effect` says that the step
        does something outside that must not happen twice, such as a payment: if it is cut off between
        that and its record, it is not done again but ends with `EffectUnknown`, and a person settles it
        with `resume(settled=...)`.
        """
        rules = StepRules(
            timeout=timeout,
            retries=retries,
            fallback=fallback,
            covers=tuple(covers),
            budget=budget,
            priority=priority,
            effect=effect,
        )
        if body is not None:
            return self._add(body, name, rules, sys._getframe(1))
        frame = sys._getframe(1)
        return lambda function: self._add(function, name, rules, frame)

    def _add(self, body: F, name: str | None, rules: StepRules, frame: FrameType) -> F:
        own_name = body.name if isinstance(body, Workflow) else str(getattr(body, "__name__", ""))
        name = check_name(name or own_name, what="step")
        if name == REQUEST_STEP:
            raise SetupError(f"a step cannot be called {name!r}: that name commits what the run was asked")
        if name in self._defined:
            raise SetupError(f"workflow {self.name!r} has two steps called {name!r}", hint="name one: step(name=...)")
        # A frame of a function keeps its local names alive until the workflow is checked, so that a
        # contract defined there, even after the step, can be found. A module's names need no frame.
        # What a name means now counts before what it will mean then: in a loop it changes.
        local = _Locals(frame, dict(frame.f_locals)) if frame.f_locals is not frame.f_globals else None
        self._defined[name] = (body, checked_rules(name, rules), local)
        self._wiring = None
        return body

    def check(self) -> Wiring:
        """Check the wiring; done before the first run, too.

        Raises `SetupError` for a signature that says nothing, `Unreachable` for a fact that cannot
        arrive. Warns with `UnclaimedFacts` about facts that nobody will read.
        """
        from statepact.workflow._reach import UnclaimedFacts, wiring

        if self._wiring is None:
            if self._checking:
                raise SetupError(f"workflow {self.name!r} is a step of itself", hint="let another workflow repeat it")
            self._checking = True
            try:
                steps = [self._step(name, *defined) for name, defined in self._defined.items()]
            finally:
                self._checking = False
            graph = wiring(self.name, steps, request=self.takes, results=self._results)
            self._defined = {name: (body, rules, None) for name, (body, rules, _) in self._defined.items()}
            self._wiring = graph
            if graph.unclaimed:
                names = ", ".join(fact.label for fact in graph.unclaimed)
                warnings.warn(
                    f"in workflow {self.name!r} no later step declares {names}, and not pinned either;"
                    " pin the field, let a step read it, or name the contract in results=",
                    UnclaimedFacts,
                    stacklevel=_levels_to_caller(),
                )
        return self._wiring

    def _step(self, name: str, body: Body | Workflow, rules: StepRules, local: _Locals | None) -> Step:
        if isinstance(body, Workflow):
            from statepact.workflow._sub_workflow import sub_step

            return sub_step(name, body, rules)
        from statepact.workflow._wiring import wires_of

        return Step(name, body, wires_of(name, body, local.names if local else {}), rules)

    # -- running ---------------------------------------------------------------------------------

    async def run(
        self,
        request: str | Contract | None = None,
        *,
        ask: Model | AskFunction | None = None,
        owner: str = DEFAULT_OWNER,
        session: str | None = None,
        id: str | None = None,
        store: Store | str | None = None,
        strict: bool = False,
        lease: float | None = LEASE,
        patience: float | None = None,
        keys: KeyRing | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Run:
        """Run the workflow once and return how it went; a step that fails is a result, not an exception.

        `request` is what the run is asked: words, or an instance of `takes`. `ask` is the model that
        steps ask. `session` groups runs (`None`: a session of its own, named like the run). `id`
        makes the run findable and repeatable: the same id with the same request continues that run
        and repeats nothing that is committed; while somebody runs it, the second call waits and gets
        the same result. `store` and `keys` replace the workflow's. `strict` raises the run's problem instead of
        returning it.

        Runs of a session take turns: one that finds it taken waits, at most `patience` seconds (`None`:
        as long as the other one lives). A worker that has said nothing for `lease` seconds is succeeded,
        and what it commits later is refused. `lease=None` takes no turn: runs of the session then mix.

        Raises `SetupError` and `Unreachable` before anything runs, `ContractViolation` or `TooLarge`
        for a request that cannot be one, `StepIdReused` for another request under an old id,
        `SessionHeld` when patience ends, and `StoreError` if the store cannot be opened.
        """
        if isinstance(request, Contract) and type(request) is not self.takes:
            raise SetupError(
                f"workflow {self.name!r} was asked with {type(request).__name__}, it takes {self.takes.__name__}"
            )
        if self.takes is not Request and not isinstance(request, Contract):
            raise SetupError(f"workflow {self.name!r} must be asked with an instance of {self.takes.__name__}")
        return await self._execute(
            request, ask=ask, owner=owner, session=session, id=id or new_run_id(), store=store, strict=strict,
            clock=clock, must_exist=False, lasting=session is not None or id is not None, lease=lease,
            patience=patience, keys=keys,
        )  # fmt: skip

    async def resume(
        self,
        id: str,
        *,
        ask: Model | AskFunction | None = None,
        owner: str = DEFAULT_OWNER,
        session: str | None = None,
        store: Store | str | None = None,
        settled: Mapping[str, Settled] | None = None,
        strict: bool = False,
        lease: float | None = LEASE,
        patience: float | None = None,
        keys: KeyRing | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Run:
        """Continue a run that was killed or has failed: only steps without a committed result run.

        `settled` answers for steps that ended with `EffectUnknown`, by name (`step/branch` for a
        branch): the result if their effect did happen, `None` if it did not, so that it is done now.

        Raises `UnknownRun` if the session has no such run; otherwise as `run`.
        """
        return await self._execute(
            None, ask=ask, owner=owner, session=session, id=id, store=store, strict=strict, clock=clock,
            must_exist=True, lasting=True, lease=lease, patience=patience, settled=settled or {},
            keys=keys,
        )  # fmt: skip

    def run_sync(self, request: str | Contract | None = None, **options: Any) -> Run:
        """`run` for code without an event loop. Raises `SetupError` inside a running loop."""
        return _run_alone(self.run(request, **options), "run")

    def resume_sync(self, id: str, **options: Any) -> Run:
        """`resume` for code without an event loop."""
        return _run_alone(self.resume(id, **options), "resume")

    async def _execute(
        self,
        request: str | Contract | None,
        *,
        ask: Model | AskFunction | None,
        owner: str,
        session: str | None,
        id: str,
        store: Store | str | None,
        strict: bool,
        clock: Clock,
        must_exist: bool,
        lasting: bool,
        lease: float | None,
        patience: float | None,
        keys: KeyRing | None,
        settled: Mapping[str, Settled] = MappingProxyType({}),
    ) -> Run:
        # What runs steps is loaded with the first run: a program that only defines a workflow, or
        # imports one that does, starts without it.
        from statepact.workflow._execution import TurnRules, execute
        from statepact.workflow._store_choice import chosen_log_key

        graph = self.check()
        opened, ours = self._open(store, lasting=lasting)
        try:
            run = await execute(
                graph,
                opened,
                session_key(owner, session or id),
                workflow=self.name,
                id=id,
                request=request,
                model=as_model(ask),
                clock=clock,
                budget=self.budget,
                entities=self.entities,
                must_exist=must_exist,
                settled=settled,
                turn=TurnRules(lease, patience) if lasting and lease is not None else None,
                keys=keys if keys is not None else self._keys,
                log_key=chosen_log_key(self._log_key),
            )
            if ours:
                await run._measure()  # while the store is still open
        finally:
            if ours:
                await opened.aclose()
        if strict and run.problem is not None:
            raise run.problem
        return run

    def _open(self, store: Store | str | None, *, lasting: bool) -> tuple[Store, bool]:
        """Return the store to use and whether we have to close it."""
        from statepact.workflow._store_choice import chosen_store

        choice = store if store is not None else self._store
        if choice is None and lasting:
            # Runs that name a session, or have a name themselves, want to find each other again.
            if self._memory is None:
                self._memory, _ = chosen_store(None)
            return self._memory, False
        return chosen_store(choice)


@dataclass(frozen=True, slots=True)
class _Locals:
    """The local names around a step's definition, for annotations that are still text."""

    frame: FrameType
    at_definition: dict[str, Any]

    @property
    def names(self) -> dict[str, Any]:
        """Return what each name meant when the step was defined, and those that came later."""
        return {**self.frame.f_locals, **self.at_definition}


def new_run_id() -> str:
    """Return a new id that sorts by time: 12 hex digits of milliseconds, 12 of chance."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(6).hex()}"


def _levels_to_caller() -> int:
    """Return the stack level, for a warning of `check`, of the first frame outside this package."""
    package = f"{Path(__file__).parent.parent}{os.sep}"
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    return level


def _run_alone(coroutine: Coroutine[Any, Any, Run], name: str) -> Run:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    coroutine.close()
    raise SetupError(f"{name}_sync was called inside a running event loop", hint=f"await workflow.{name}(...) there")
