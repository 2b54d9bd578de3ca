"""A workflow as a step of another one.

Inside, it is a run of its own in the same session, named after the step (`outer-run//step`): its cells
are its own, so two parts may use the same names. It inherits what the whole is about: the request, the
pinned facts and limits, the owner, the model, the turn. Outside, it is one step that reads what it is
asked with and writes what it results in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statepact.contracts import Contract
from statepact.errors import SetupError
from statepact.ledger._key import INSIDE
from statepact.workflow._context import Context
from statepact.workflow._step import Step, StepRules
from statepact.workflow._wiring import Input, Wires

if TYPE_CHECKING:
    from statepact.workflow._workflow import Workflow

ASKED = "asked"
CONTEXT = "ctx"


def sub_step(name: str, inner: Workflow, rules: StepRules) -> Step:
    """Return the step that runs a workflow. Raises what `inner.check()` raises."""
    graph = inner.check()
    if not graph.results:
        raise SetupError(f"workflow {inner.name!r} is a step, but it results in nothing", hint="name its results=")

    async def run_inner(**arguments: Any) -> list[Contract]:
        context: Context = arguments[CONTEXT]
        return await _run(inner, context, arguments[ASKED])

    wires = Wires((Input(ASKED, inner.takes),), CONTEXT, graph.results, some_outputs=True)
    return Step(name, run_inner, wires, rules)


async def _run(inner: Workflow, context: Context, asked: Contract) -> list[Contract]:
    from statepact.workflow._run_scope import RunScope
    from statepact.workflow._runner import Runner
    from statepact.workflow._start import start

    graph = inner.check()
    outer = context._scope.run
    scope = RunScope(
        outer.log,
        outer.run + INSIDE + context._scope.writer,
        clock=outer.clock,
        budget=inner.budget or outer.budget,
        entities=inner.entities or outer.entities,
    )
    before = outer.log.log.revision
    await start(scope, asked, workflow=inner.name, results=[one.contract_name for one in graph.results])
    # What the whole is asked stays what is asked; the part sees what it was given as a value.
    scope.request, scope.open_request = outer.request, outer.open_request
    scope.request_cell = outer.request_cell
    outcomes = await Runner(graph, scope, context._model, context._settled).run()
    outer.usage += scope.usage
    problem = next((one.problem for one in outcomes.values() if one.ending in ("failed", "blocked")), None)
    if outer.log.lost is None and outer.log.log.revision != before:
        await scope.close("done" if problem is None else "failed")
    if problem is not None:
        raise problem
    values: list[Contract] = []
    for contract in graph.results:
        values += await scope.values(contract)
    return values
