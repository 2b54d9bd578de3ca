"""Steps that do something outside: pay, send, order.

A body runs at least once, its result is recorded exactly once. For a step with an effect that is not
enough: if its worker dies between the effect and the record, nobody knows whether it happened. So such
a step records that it begins, and who finds a beginning without an end does not do it again: it waits
while the other one lives, and otherwise says that this is unknown and stops for a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from statepact.errors import EffectUnknown
from statepact.ledger import Entry
from statepact.ledger._header import Kind
from statepact.stores._draft import Draft
from statepact.workflow._turn import LEASE, LONGEST_LOOK, has_died, holder_name

if TYPE_CHECKING:
    from statepact.workflow._step_scope import StepScope


async def begin(scope: StepScope) -> Entry | None:
    """Record that the effect of a step begins; return its result if another one has just finished it.

    Raises `EffectUnknown` if another one has begun it and will not finish.
    """
    run = scope.run
    us = holder_name()
    draft = Draft(
        kind=Kind.ATTEMPT,
        at=run.clock.now(),
        run=run.run,
        step=scope.name,
        branch=scope.branch,
        input_digest=scope.digest,
        extra=orjson.dumps({"began": us}),
    )
    while True:
        entry = await run.log.append(draft)
        if entry.header.kind is Kind.COMMIT:
            return entry
        them = str((await run.log.record(entry)).get("began", ""))
        if them == us:
            return None
        if not await _ended(scope, entry, them):
            raise EffectUnknown(scope.name, run=run.run, branch=scope.branch)


async def _ended(scope: StepScope, begun: Entry, holder: str) -> bool:
    """Wait for the end of what somebody else has begun; return whether it came."""
    import asyncio

    log, cell = scope.run.log, (scope.name, scope.branch)
    if log.hold is not None:
        return False  # the session is ours alone: who began it is gone
    loop = asyncio.get_running_loop()
    give_up = loop.time() + LEASE
    while loop.time() < give_up and not has_died(holder):
        await log.store.changed(log.key, after=log.log.revision, within=LONGEST_LOOK)
        await log.refresh()
        if log.log.runs[scope.run.run].begun.get(cell) is not begun:
            return True
    return False
