"""The team that the demo shows: understand the complaint, look up the order, write the record.

This is the governed way, and nothing in it is special to the demo: contracts, a workflow, a model.
The other ways (`_ways.py`) ask the same model the same question and differ only in what they show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from statepact.contracts import Answers, Contract, Pinned, validate
from statepact.demo._cases import Case, Lang
from statepact.demo._notes import Note
from statepact.meaning import stands_in
from statepact.workflow import Context, Workflow

Text = Annotated[str, Field(max_length=60)]
"""Bounded, because a small model does not always stop by itself."""

Demand = Literal[
    "refund", "replacement", "repair", "exchange", "discount", "spare part",
    "return", "cancellation", "item change", "address change", "payment change",
    "退款", "换新", "维修", "换货", "补偿", "配件",
    "",
]  # fmt: skip
"""What a customer may want, as one choice for the shop in both languages and for the retail set. Empty is for
a model that was not told: without it every model would have to guess."""

RECORD_TOKENS = 160
"""Room for the record: four short fields, also as indented JSON."""


class Complaint(Contract, version="1.0"):
    """What the customer wants, and about what."""

    product: Text
    problem: Pinned[Text] | None = None
    demand: Pinned[Demand]


class Order(Contract, version="1.0"):
    """The order behind the complaint, as the shop's database has it."""

    order_id: Text
    signed: Text | None
    total: Text


class Notes(Contract, version="1.0"):
    """What an agent of another department noted meanwhile, about other cases."""

    agent: str
    lines: list[str]


class Confirmed(Contract, version="1.0"):
    """The complaint after the customer's correction."""

    product: Text
    problem: Pinned[Text] | None = None
    demand: Pinned[Demand]


def holds(fact: str, said: str) -> bool:
    """Whether an answer holds a fact: its exact value, as whole words, outside a negation.

    "refund for order KX-1" holds "refund"; "refunded", another value or "no refund" do not. The score
    of every way is counted with this one rule.
    """
    found = stands_in(fact, said)
    return found is not None and not found.negated


class Record(Contract, version="1.0"):
    """The final record: what the shop will act on."""

    demand: Annotated[Demand, Answers(Complaint, "demand")]
    problem: Annotated[Text, Answers(Complaint, "problem", agrees=holds)]
    product: Annotated[Text, Answers(Complaint, "product", agrees=holds)]
    order_id: Annotated[Text, Answers(Order, "order_id", agrees=holds)]


class CorrectedRecord(Contract, version="1.0", name="Record"):
    """The final record after a correction: it answers what was confirmed, not what was said first."""

    demand: Annotated[Demand, Answers(Confirmed, "demand")]
    problem: Annotated[Text, Answers(Confirmed, "problem", agrees=holds)]
    product: Annotated[Text, Answers(Confirmed, "product", agrees=holds)]
    order_id: Annotated[Text, Answers(Order, "order_id", agrees=holds)]


QUESTION: Mapping[Lang, str] = {
    "en": "Write the final record. Copy demand, problem, product and order_id exactly from the JSON lines above.",
    "zh": "写出最终处理记录。demand、problem、product、order_id 照上面的 JSON 行原样填写。",
}
UNDERSTAND: Mapping[Lang, str] = {
    "en": "Say which product the customer complains about, what the problem is, and what the customer demands.",
    "zh": "写出顾客投诉的商品、问题和诉求。",
}
"""Asked only with `--understand model`."""


def understood(case: Case) -> Complaint:
    """What a perfect first step would understand: the case's own truth."""
    return validate(Complaint, _facts(case))


def confirmed_by(case: Case) -> Confirmed:
    """What stands after the customer's correction."""
    return validate(Confirmed, _facts(case.corrected()))


def _facts(case: Case) -> dict[str, str | None]:
    return {"product": case.product, "problem": case.problem, "demand": case.demand}


def looked_up(case: Case) -> Order:
    """The order as the database has it."""
    signed = case.order.get("signed")
    return Order(order_id=case.order_id, signed=str(signed) if signed else None, total=str(case.order["amount"]))


def departments(notes: Sequence[Note], *, lines: int = 4) -> list[Notes]:
    """Return the notes as other agents would hand them on: a few lines each."""
    groups = [notes[start : start + lines] for start in range(0, len(notes), lines)]
    return [Notes(agent=group[0].agent, lines=[f"{note.agent}: {note.text}" for note in group]) for group in groups]


TEAM = ("understand", "confirm", "look_up", "decide")
"""The steps of the team itself; all others are agents of other departments."""


def team(case: Case, notes: Sequence[Notes], *, ask_to_understand: bool, corrected: bool) -> Workflow:
    """Return the workflow for one case."""
    record = CorrectedRecord if corrected else Record
    # The notes of other departments are results of their own: nobody in this team reads them.
    workflow = Workflow("after-sales", results=(record, Notes) if notes else (record,))

    @workflow.step
    async def understand(ctx: Context) -> Complaint:
        if ask_to_understand:
            return await ctx.ask(Complaint, UNDERSTAND[case.lang], max_tokens=RECORD_TOKENS)
        return understood(case)

    @workflow.step
    async def look_up(complaint: Complaint) -> Order:
        return looked_up(case)

    for number, group in enumerate(notes, 1):
        workflow.step(name=f"{_word(group.agent)}-{number}")(_department(group))

    if corrected:

        @workflow.step
        async def confirm(complaint: Complaint) -> Confirmed:
            return confirmed_by(case)

        @workflow.step(name="decide")
        async def decide_corrected(ctx: Context, confirmed: Confirmed, order: Order) -> CorrectedRecord:
            return await ctx.ask(CorrectedRecord, QUESTION[case.lang], max_tokens=RECORD_TOKENS, again=0)

    else:

        @workflow.step
        async def decide(ctx: Context, complaint: Complaint, order: Order) -> Record:
            return await ctx.ask(Record, QUESTION[case.lang], max_tokens=RECORD_TOKENS, again=0)

    return workflow


def _department(group: Notes) -> Callable[[Order], Coroutine[Any, Any, Notes]]:
    async def note(order: Order) -> Notes:
        return group

    return note


def _word(text: str) -> str:
    return re.sub(r"\W+", "-", text).strip("-")
