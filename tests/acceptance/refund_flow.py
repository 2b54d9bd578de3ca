"""A small workflow that the command line runs in these tests; no model, three steps."""

import os
from pathlib import Path

from statepact import Context, Contract, Pinned, Workflow


class Claim(Contract):
    order_id: Pinned[str]
    cents: int


class Decision(Contract):
    granted: bool


class Payment(Contract):
    order_id: str
    cents: int


flow = Workflow("refunds")


def _acknowledged(ctx: Context, contract: str, text: str) -> None:
    """Tell a file outside the process under test what this step can see, so what must never be lost."""
    path = os.environ.get("STATEPACT_TEST_ACKS")
    if path:
        with Path(path).open("a") as file:  # one short line in append mode: whole or not at all
            file.write(f"{ctx.run}\t{contract}\t{text}\n")


@flow.step
async def read(ctx: Context) -> Claim:
    order, _, cents = ctx.request.partition(" ")
    return Claim(order_id=order, cents=int(cents))


@flow.step
async def decide(ctx: Context, claim: Claim) -> Decision:
    _acknowledged(ctx, "Claim", f"{claim.order_id} {claim.cents}")
    return Decision(granted=claim.cents < 10_000)


@flow.step
async def pay(ctx: Context, claim: Claim, decision: Decision) -> Payment:
    _acknowledged(ctx, "Decision", str(decision.granted))
    return Payment(order_id=claim.order_id, cents=claim.cents if decision.granted else 0)
