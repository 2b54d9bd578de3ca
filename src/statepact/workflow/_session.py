"""Sessions for code that keeps its own control flow: `with open_session(...) as session`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, tzinfo
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from statepact.contracts import Contract
from statepact.errors import StatepactError
from statepact.ledger import DEFAULT_OWNER, check_name, session_key
from statepact.ledger._cells import Cell
from statepact.ledger._lifetime import USUAL_PRIORITY
from statepact.ledger._shared import shared_value
from statepact.ledger._vault import KeyRing, at_rest
from statepact.ledger._view import EntryView
from statepact.loss import LossReport, measure
from statepact.stores._base import Store
from statepact.stores._log_reader import LogReader
from statepact.stores._open_log import OpenLog
from statepact.workflow._at_once import read_now
from statepact.workflow._clock import SYSTEM_CLOCK, Clock
from statepact.workflow._past import AsyncPast, Past
from statepact.workflow._portal import wait_for
from statepact.workflow._run_scope import RunScope, erased_for, value_of
from statepact.workflow._session_step import AsyncStepOpener, StepOpener
from statepact.workflow._start import start
from statepact.workflow._store_choice import chosen_log_key, chosen_store
from statepact.workflow._turn import Turn
from statepact.workflow._watch import entries_of
from statepact.workflow._workflow import new_run_id

if TYPE_CHECKING:
    from statepact.workflow._recalled import Recalled

C = TypeVar("C", bound=Contract)
F = TypeVar("F", bound=Callable[..., Any])


def open_session(
    name: str,
    *,
    owner: str = DEFAULT_OWNER,
    store: Store | str | None = None,
    run: str | None = None,
    request: str | Contract | None = None,
    lease: float | None = None,
    patience: float | None = None,
    keys: KeyRing | None = None,
    log_key: bytes | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> SessionOpener:
    """Open a session for single steps: `with open_session("s-1") as session`, or `async with`.

    `store` is a `Store`, a URL such as `sqlite:///state.db`, or `None` for a memory of its own, gone
    at the end. Steps belong to `run`: a new one by default; the id of an earlier one continues it, and
    steps that it has committed are not done twice. `request` is what the run is asked, if anything:
    it is shown to every model that is asked with a step's prompt. `keys` encrypt sensitive values in the
    store; without them these are stored in plain text.

    Several programs may work on one run at the same time, each on steps of its own. With `lease`
    (seconds) this one wants the session for itself, as `Workflow.run` does: it waits for its turn, at
    most `patience` seconds, and once it has said nothing for `lease` seconds another one may take over.

    `log_key` is the key under which the log is kept, as for `Workflow`.

    Raises `SessionHeld` when patience ends, `StoreError` if the store cannot be opened and
    `StepIdReused` if the run was started with another request.
    """
    return SessionOpener(
        name, owner=owner, store=store, run=run, request=request, lease=lease, patience=patience,
        keys=keys, log_key=log_key, clock=clock,
    )  # fmt: skip


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
        lease: float | None,
        patience: float | None,
        keys: KeyRing | None,
        log_key: bytes | None,
        clock: Clock,
    ) -> None:
        self._log_key = chosen_log_key(log_key)
        self._key = session_key(owner, name)
        self._store = store
        self._run = check_name(run, what="run") if run is not None else new_run_id()
        self._request = request
        self._lease = lease
        self._patience = patience
        self._keys = keys
        self._clock = clock
        self._turn: Turn | None = None
        self._opened: AsyncSession | None = None
        self._ours: Store | None = None

    async def __aenter__(self) -> AsyncSession:
        store, ours = chosen_store(self._store)
        self._ours = store if ours else None
        try:
            log = await OpenLog.open(store, self._key, keys=self._keys, log_key=self._log_key)
            scope = RunScope(log, self._run, clock=self._clock)
            if self._lease is None:
                await start(scope, self._request)
            else:
                self._turn = Turn(log, self._run, lease=self._lease, patience=self._patience)
                await self._turn.begin(lambda: start(scope, self._request))
        except BaseException:
            await self._close_store()
            raise
        self._opened = AsyncSession(scope)
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._opened is not None and self._opened._scope.log.lost is None:
                await self._opened._scope.close("done" if error is None else "failed")
        except StatepactError:
            if error is None:
                raise
        finally:
            await self._close_store()

    async def _close_store(self) -> None:
        if self._turn is not None:
            await self._turn.end()
            self._turn = None
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
    def at_rest(self) -> str:
        """Whether sensitive values are encrypted where they are stored, in a few words."""
        return at_rest(self._scope.log.keys)

    @property
    def runs(self) -> Sequence[str]:
        """Ids of all runs of the session, oldest first."""
        return list(self._scope.log.log.runs)


class AsyncSession(_Readable):
    """A session inside `async with open_session(...)`."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope

    def step(
        self,
        name: str,
        *,
        reads: Sequence[Any] = (),
        branch: str = "",
        priority: int = USUAL_PRIORITY,
        effect: bool = False,
    ) -> AsyncStepOpener:
        """Open a step: `async with session.step("answer", reads=[Order]) as step`, or decorate with it.

        `reads` are the contracts it needs (`Order`), may have (`Order | None`) or collects
        (`list[Order]`). `branch` tells repeated steps of one name apart. `priority` and
        `effect` are those of `Workflow.step`. As a decorator, the function's signature is the wiring, as
        in a workflow, and `reads` stays empty.
        """
        return AsyncStepOpener(self._scope, name, reads, branch, sys._getframe(1), priority, effect)

    async def get(self, contract: type[C], *, run: str | None = None) -> C | None:
        """Return the newest value of a kind in a run (by default this one), `None` if there is none.

        Raises `Deleted` if it was erased, `Expired` if a retention rule has removed the run.
        """
        cells = (await self._cells(contract, run))[-1:]
        await self._scope.log.fetch(cells)
        return value_of(cells[0], contract) if cells else None

    async def all(self, contract: type[C], *, run: str | None = None) -> list[C]:
        """Return all values of a kind in a run (by default this one), oldest first, without those erased."""
        cells = await self._cells(contract, run)
        await self._scope.log.fetch(cells)
        return [value_of(cell, contract) for cell in cells if not erased_for(cell, contract)]

    async def _cells(self, contract: type[Contract], run: str | None) -> list[Cell]:
        await self._scope.log.refresh()
        self._scope.log.must_not_be_removed(run or self._scope.run)
        log = self._scope.log.log.runs.get(run or self._scope.run)
        return log.by_contract.get(contract.contract_name, []) if log else []

    async def shared(self, contract: type[C], *, at: int | None = None) -> C | None:
        """Return a shared value of the session, now or as it stood at revision `at`; `None` before its first change.

        Raises `MissingInput` or `Deleted` if a required field of it is not there.
        """
        await self._scope.log.refresh()
        return shared_value(await self._scope.log.shared(contract, at=at))

    async def at(self, revision: int) -> AsyncPast:
        """Return the session as it stood at a revision: its runs and values, without what has been erased since.

        Raises `UnknownRevision`, and `Expired` for one that a retention rule has removed.
        """
        ours = self._scope.log
        return AsyncPast(await LogReader.at(ours.store, ours.key, revision, keys=ours.keys), self._scope.run)

    async def recall(self, contract: type[C], request: str | None = None, *, zone: tzinfo = UTC) -> Recalled[C]:
        """Return which value of earlier runs of this owner a request means, by default this run's request.

        See `Context.recall`.
        """
        from statepact.workflow._recall import recall

        return await recall(self._scope, contract, self._scope.request if request is None else request, zone)

    def watch(self, *, after: int | None = None) -> AsyncIterator[EntryView]:
        """Yield what others commit to the session, as it comes; see `statepact.watch`.

        `after` is the revision from which on, by default the newest that this session has read.
        """
        log = self._scope.log
        return entries_of(log.store, log.key, after=log.log.revision if after is None else after, keys=log.keys)

    async def measure(self, run: str | None = None) -> LossReport:
        """Return what was lost in a run, by default this one."""
        await self._scope.log.refresh()
        return measure(await self._scope.log.view(run or self._scope.run))

    @property
    def loss(self) -> LossReport:
        """What was lost in this run so far. `await session.measure()` does not stand still meanwhile."""
        ours = self._scope.log

        async def measured() -> LossReport:
            # A log of its own, because ours may be in the middle of a commit on this loop.
            log = LogReader(ours.store, ours.key)
            await log.read_on()
            return measure(await log.view(self._scope.run))

        return read_now(ours.store, measured)


class Session(_Readable):
    """A session inside `with open_session(...)`, for code without an event loop."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._scope = session._scope

    def step(
        self,
        name: str,
        *,
        reads: Sequence[Any] = (),
        branch: str = "",
        priority: int = USUAL_PRIORITY,
        effect: bool = False,
    ) -> StepOpener:
        """Open a step: `with session.step("answer", reads=[Order]) as step`, or decorate with it.

        See `AsyncSession.step`.
        """
        return StepOpener(self._scope, name, reads, branch, sys._getframe(1), priority, effect)

    def get(self, contract: type[C], *, run: str | None = None) -> C | None:
        """Return the newest value of a kind in a run (by default this one), `None` if there is none."""
        return wait_for(self._session.get(contract, run=run))

    def all(self, contract: type[C], *, run: str | None = None) -> list[C]:
        """Return all values of a kind in a run (by default this one), oldest first."""
        return wait_for(self._session.all(contract, run=run))

    def shared(self, contract: type[C], *, at: int | None = None) -> C | None:
        """Return a shared value of the session, now or as it stood at revision `at`; see `AsyncSession.shared`."""
        return wait_for(self._session.shared(contract, at=at))

    def at(self, revision: int) -> Past:
        """Return the session as it stood at a revision; see `AsyncSession.at`."""
        return Past(wait_for(self._session.at(revision)))

    def recall(self, contract: type[C], request: str | None = None, *, zone: tzinfo = UTC) -> Recalled[C]:
        """Return which value of earlier runs of this owner a request means, by default this run's request.

        See `Context.recall`.
        """
        return wait_for(self._session.recall(contract, request, zone=zone))

    @property
    def loss(self) -> LossReport:
        """What was lost in this run so far."""
        return wait_for(self._session.measure())
