"""What the workers of a simulation do: workflows and a script whose results can be checked.

Each step does its work as a model does, differently every time: `by` names the worker and the
execution that made a value. What was committed first must be what everybody goes on from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Literal

from statepact import Context, Contract, Pinned, Run, Store, Workflow, open_session
from statepact.workflow import Each
from statepact.workflow._clock import Clock

OWNER = "acme"

JobKind = Literal["gather", "relay", "script", "pay", "whole"]


class Job(Contract, version="1.0"):
    number: Pinned[int]


class Plan(Contract, version="1.0"):
    number: int
    topics: list[str]
    by: str


class Piece(Contract, version="1.0"):
    value: int
    by: str


class Note(Contract, version="1.0"):
    text: str
    by: str


class Total(Contract, version="1.0"):
    value: int
    pieces: list[str]
    by: str


class Paid(Contract, version="1.0"):
    value: int
    by: str


work: ContextVar[Callable[[], Awaitable[str]]] = ContextVar("work")
"""Does what a step does: takes a while, fails sometimes, returns who did it."""


pay: ContextVar[Callable[[str], Awaitable[str]]] = ContextVar("pay")
"""Does for a run what must not be done twice; returns who did it."""


async def _by() -> str:
    return await work.get()()


def _sum(plan: Plan, pieces: list[Piece], by: str) -> Total:
    return Total(value=plan.number + sum(piece.value for piece in pieces), pieces=[p.by for p in pieces], by=by)


gather = Workflow("gather", takes=Job, results=[Total])


@gather.step(name="plan", retries=2)
async def _gather_plan(job: Job) -> Plan:
    return Plan(number=job.number, topics=[f"t{n}" for n in range(job.number % 4)], by=await _by())


@gather.step(name="look", retries=1)
async def _gather_look(topic: Annotated[str, Each(Plan, "topics")], plan: Plan) -> Piece:
    return Piece(value=plan.number * int(topic[1:]), by=await _by())


@gather.step(name="left", retries=1)
async def _gather_left(plan: Plan) -> Piece:
    return Piece(value=plan.number + 1, by=await _by())


@gather.step(name="right")
async def _gather_right(plan: Plan) -> Piece:
    return Piece(value=plan.number + 2, by=await _by())


@gather.step(name="total", retries=1)
async def _gather_total(plan: Plan, pieces: list[Piece]) -> Total:
    return _sum(plan, pieces, await _by())


relay = Workflow("relay", takes=Job, results=[Total, Note])


@relay.step(name="plan", retries=1)
async def _relay_plan(job: Job) -> Plan:
    return Plan(number=job.number, topics=[], by=await _by())


@relay.step(name="note", timeout=1.0, fallback=Note(text="none", by="nobody"))
async def _relay_note(plan: Plan) -> Note:
    return Note(text=str(plan.number), by=await _by())


@relay.step(name="left", retries=2)
async def _relay_left(plan: Plan, note: Note) -> Piece:
    return Piece(value=plan.number * 10, by=await _by())


@relay.step(name="total")
async def _relay_total(plan: Plan, pieces: list[Piece]) -> Total:
    return _sum(plan, pieces, await _by())


payment = Workflow("payment", takes=Job, results=[Total])


@payment.step(name="plan", retries=1)
async def _payment_plan(job: Job) -> Plan:
    return Plan(number=job.number, topics=[], by=await _by())


@payment.step(name="pay", effect=True, retries=1)
async def _payment_pay(ctx: Context, plan: Plan) -> Paid:
    return Paid(value=plan.number * 7, by=await pay.get()(ctx.run))


@payment.step(name="left")
async def _payment_left(plan: Plan) -> Piece:
    return Piece(value=plan.number * 2, by=await _by())


@payment.step(name="total", retries=1)
async def _payment_total(plan: Plan, paid: Paid, pieces: list[Piece]) -> Total:
    return _sum(plan, [*pieces, Piece(value=paid.value, by=paid.by)], await _by())


whole = Workflow("whole", takes=Job, results=[Total, Note])


@whole.step(name="note", retries=1)
async def _whole_note(job: Job) -> Note:
    return Note(text=str(job.number), by=await _by())


whole.step(gather)


WORKFLOWS = {"gather": gather, "relay": relay, "pay": payment, "whole": whole}


@dataclass(frozen=True, slots=True)
class Task:
    """A run that has to be done, by whoever comes to it."""

    kind: JobKind
    run: str
    session: str
    number: int
    lease: float | None


@dataclass(frozen=True, slots=True)
class Returned:
    """What somebody was told that a run has come to."""

    task: Task
    total: Total


def run_of_pieces(task: Task) -> str:
    """Return the run in which the pieces of a task's total are committed."""
    return f"{task.run}//gather" if task.kind == "whole" else task.run


def undisturbed(task: Task) -> int:
    """Return what a run comes to if nothing goes wrong."""
    number = task.number
    if task.kind in ("gather", "whole"):
        return number + (number + 1) + (number + 2) + sum(number * n for n in range(number % 4))
    if task.kind == "pay":
        return number + number * 2 + number * 7
    return number + number * 10 if task.kind == "relay" else number + sum(number * n for n in range(3))


async def do(
    task: Task, store: Store, clock: Clock, *, patience: float | None, again: bool, settled: Mapping[str, Paid | None]
) -> Returned | Run:
    """Do a run, or continue it, and return what it came to; the run itself if it has failed."""
    if task.kind == "script":
        return await _script(task, store, clock, patience)
    workflow = WORKFLOWS[task.kind]
    if again or settled:
        run = await workflow.resume(
            task.run, session=task.session, owner=OWNER, store=store, lease=task.lease, patience=patience,
            clock=clock, settled=settled,
        )  # fmt: skip
    else:
        run = await workflow.run(
            Job(number=task.number), id=task.run, session=task.session, owner=OWNER, store=store,
            lease=task.lease, patience=patience, clock=clock,
        )  # fmt: skip
    if not run.ok:
        return run
    # Not `run[Total]`: its values may have to be read, which a store behind a network cannot do at once.
    cells = run._scope.snapshot().cells("Total")
    await run._scope.log.fetch(cells)
    return Returned(task, run[Total])


async def _script(task: Task, store: Store, clock: Clock, patience: float | None) -> Returned:
    """Do the same with single steps: a plan, three branches at once, a total."""
    request = Job(number=task.number)
    async with open_session(
        task.session, owner=OWNER, store=store, run=task.run, request=request, lease=task.lease,
        patience=patience, clock=clock,
    ) as session:  # fmt: skip
        async with session.step("plan", reads=[Job]) as step:
            if not step.is_stored:
                await step.commit(Plan(number=step[Job].number, topics=[], by=await _by()))

        async def look(number: int) -> None:
            async with session.step("look", reads=[Plan], branch=f"b{number}") as step:
                if not step.is_stored:
                    await step.commit(Piece(value=step[Plan].number * number, by=await _by()))

        ended = await asyncio.gather(*(look(n) for n in range(3)), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error
        async with session.step("total", reads=[Plan, list[Piece]]) as step:
            if not step.is_stored:
                await step.commit(_sum(step[Plan], step.all(Piece), await _by()))
        total = await session.get(Total)
    assert total is not None
    return Returned(task, total)
