"""One execution of a workflow on an open store, from the request to the seal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from statepact.contracts import Contract
from statepact.errors import UnknownRun
from statepact.ledger import SessionKey
from statepact.ledger._vault import KeyRing
from statepact.models._base import Model
from statepact.stores._base import Store
from statepact.stores._open_log import OpenLog
from statepact.workflow._clock import Clock
from statepact.workflow._entities import FindEntities
from statepact.workflow._reach import Wiring
from statepact.workflow._run import Run
from statepact.workflow._run_scope import RunScope
from statepact.workflow._runner import Runner
from statepact.workflow._start import start
from statepact.workflow._step import Settled
from statepact.workflow._turn import Turn


@dataclass(frozen=True, slots=True)
class TurnRules:
    """How a run takes its turn in its session; seconds."""

    lease: float
    patience: float | None


async def execute(
    graph: Wiring,
    store: Store,
    key: SessionKey,
    *,
    workflow: str,
    id: str,
    request: str | Contract | None,
    model: Model | None,
    clock: Clock,
    budget: int | None,
    must_exist: bool,
    settled: Mapping[str, Settled],
    turn: TurnRules | None,
    entities: FindEntities | None,
    keys: KeyRing | None = None,
    log_key: bytes | None = None,
) -> Run:
    """Run, or continue, one run and return how it went. Raises what `Workflow.run` and `resume` say.

    `turn=None` is for a session that nobody else can know.
    """
    log = await OpenLog.open(store, key, keys=keys, log_key=log_key)
    log.must_not_be_removed(id)
    if must_exist and id not in log.log.runs:
        raise UnknownRun(
            f"session {key.session!r} of owner {key.owner!r} has no run {id!r}",
            hint="check id, session, owner and store; a run that never committed anything does not exist",
        )
    scope = RunScope(log, id, clock=clock, budget=budget, entities=entities)
    results = [contract.contract_name for contract in graph.results]

    async def begin() -> None:
        await start(scope, request, workflow=workflow, results=results)

    if turn is None:
        await begin()
        return await _ran(graph, scope, model, settled)
    ours = Turn(log, id, lease=turn.lease, patience=turn.patience)
    try:
        await ours.begin(begin)
        return await _ran(graph, scope, model, settled)
    finally:
        await ours.end()


async def _ran(graph: Wiring, scope: RunScope, model: Model | None, settled: Mapping[str, Settled]) -> Run:
    log = scope.log
    before = log.log.revision
    outcomes = await Runner(graph, scope, model, settled).run()
    broken = any(outcome.ending in ("failed", "blocked") for outcome in outcomes.values())
    status: Literal["done", "failed"] = "failed" if broken else "done"
    run = Run(scope, outcomes, status)
    if log.lost is None:  # otherwise the run is somebody else's to close
        await run._close(changed=log.log.revision != before)
    return run
