"""Loss in small runs whose every figure can be computed by hand."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from statepact import (
    Answers,
    Context,
    Contract,
    Limit,
    LossReport,
    MemoryStore,
    Pinned,
    Sensitive,
    Workflow,
    open_session,
)
from statepact.models import AnswersModel, Prompt, Reply


class Complaint(Contract):
    product: str
    problem: Pinned[str]


class Order(Contract):
    order_id: str
    signed: bool


class Answer(Contract):
    text: str


def shop(text: str = "We are sorry.") -> Workflow:
    """The twenty lines of the README: three steps, two contracts before the answer."""
    workflow = Workflow("after-sales")

    @workflow.step
    async def understand() -> Complaint:
        return Complaint(product="grinder", problem="the blade broke")

    @workflow.step
    async def look_up(complaint: Complaint) -> Order:
        return Order(order_id="KX-5512", signed=True)

    @workflow.step
    async def answer(ctx: Context, complaint: Complaint, order: Order) -> Answer:
        return await ctx.ask(Answer, "Answer the customer.")

    return workflow


async def measured(workflow: Workflow, *answers: Any, **options: Any) -> LossReport:
    run = await workflow.run("My grinder broke.", ask=AnswersModel(answers), **options)
    assert run.ok, run.problem
    return run.loss


# -- delivery --------------------------------------------------------------------------------------


async def test_deliveries_by_argument_and_by_prompt_are_counted_per_fact_and_reader() -> None:
    """look_up is handed 2 facts as values, answer is sent 4: 6 of 6."""
    loss = await measured(shop(), {"text": "The blade broke? We send a new one."})

    assert loss.delivered == loss.checked_deliveries == len(loss.deliveries) == 6
    assert [(d.fact, d.writer, d.reader) for d in loss.deliveries] == [
        ("Complaint.product", "understand", "look_up"),
        ("Complaint.problem", "understand", "look_up"),
        ("Complaint.product", "understand", "answer"),
        ("Complaint.problem", "understand", "answer"),
        ("Order.order_id", "look_up", "answer"),
        ("Order.signed", "look_up", "answer"),
    ]
    assert (loss.checked_handoffs, loss.handoffs) == (3, 3)
    assert loss.steps == 3
    assert loss.status == "done"


async def test_what_the_client_cut_on_the_way_is_lost_with_form_and_place() -> None:
    """The client sends the second half only: Complaint stood in the first."""

    async def short_memory(prompt: Prompt) -> Reply:
        sent = prompt.text[prompt.text.index("Order (from") :]
        return Reply(text='{"text": "ok, the blade broke"}', sent=sent)

    run = await shop().run("My grinder broke.", ask=short_memory)
    loss = run.loss

    assert (loss.delivered, loss.checked_deliveries) == (4, 6)
    assert loss.rates["delivery"] == pytest.approx(2 / 6)
    assert [(one.fact, one.form, one.step) for one in loss.losses] == [
        ("Complaint.product", "time", "answer"),
        ("Complaint.problem", "time", "answer"),
    ]
    assert not loss.is_complete
    words = {row.fact: row.cells[2] for row in loss.ledger.rows}
    assert words["Complaint.product"] == "lost"
    assert words["Order.order_id"] == "delivered"


async def test_a_value_that_was_rewritten_by_the_client_counts_field_by_field() -> None:
    """Pretty-printed JSON and prose with the text of a field are other forms of the same fact."""

    async def rewriting(prompt: Prompt) -> Reply:
        sent = 'The problem: the blade broke.\n{\n  "order_id": "KX-5512",\n  "signed": true\n}'
        return Reply(text='{"text": "the blade broke"}', sent=sent)

    run = await shop().run("My grinder broke.", ask=rewriting)

    states = {d.fact: d.state for d in run.loss.deliveries if d.reader == "answer"}
    assert states == {
        "Complaint.product": "lost",
        "Complaint.problem": "delivered",
        "Order.order_id": "delivered",
        "Order.signed": "delivered",
    }


async def test_nothing_to_check_is_not_zero_percent() -> None:
    """One step, nothing read, nothing owed: no rate at all, as text and as JSON."""
    workflow = Workflow("w")

    @workflow.step
    async def answer() -> Answer:
        return Answer(text="hi")

    loss = (await workflow.run("hello")).loss

    assert loss.rates == {"delivery": None, "obligation": None, "contradiction": None}
    assert json.loads(json.dumps(loss.as_dict()))["rates"]["delivery"] is None
    assert "%" not in str(loss)


async def test_an_unchecked_handoff_is_in_no_rate_and_stands_beside_them() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def understand() -> Complaint:
        return Complaint(product="grinder", problem="the blade broke")

    @workflow.step
    async def secretive(ctx: Context, complaint: Complaint) -> Order:
        await ctx.prompt("Look it up.")
        return Order(order_id="KX-5512", signed=True)

    @workflow.step
    async def answer(complaint: Complaint, order: Order) -> Answer:
        return Answer(text="the blade broke")

    loss = (await workflow.run("hello")).loss

    assert [d.state for d in loss.deliveries].count("unchecked") == 2
    assert (loss.delivered, loss.checked_deliveries) == (4, 4)
    assert loss.rates["delivery"] == 0
    assert (loss.checked_handoffs, loss.handoffs) == (2, 3)
    assert not loss.losses
    assert not loss.is_complete
    assert "checked 2 of 3 handoffs" in str(loss)


async def test_the_words_of_the_request_are_not_a_fact_of_a_contract() -> None:
    from statepact import Request

    workflow = Workflow("w")

    @workflow.step
    async def answer(request: Request) -> Answer:
        return Answer(text=request.text or "")

    loss = (await workflow.run("hello")).loss

    assert loss.deliveries == ()
    assert [row.fact for row in loss.ledger.rows] == ["Answer.text"]


async def test_a_pinned_fact_of_the_request_contract_is_delivered_owed_and_in_the_ledger() -> None:
    """Readers that do not declare it get it with the request; a client that cuts it there loses it."""

    class Ticket(Contract):
        order: Pinned[str]
        mood: str

    workflow = Workflow("w", takes=Ticket)

    @workflow.step
    async def look_up(ticket: Ticket) -> Order:
        return Order(order_id="KX-1", signed=True)

    @workflow.step
    async def answer(ctx: Context, order: Order) -> Answer:
        return await ctx.ask(Answer, "Answer.")

    async def whole(prompt: Prompt) -> Reply:
        return Reply(text='{"text": "About order 55-A: yes."}', sent=prompt.text)

    async def cut(prompt: Prompt) -> Reply:
        sent = "\n".join(line for line in prompt.text.splitlines() if not line.startswith("request"))
        return Reply(text='{"text": "Yes."}', sent=sent)

    ticket = Ticket(order="55-A", mood="furious")
    good = (await workflow.run(ticket, ask=whole)).loss
    bad = (await workflow.run(ticket, ask=cut)).loss

    assert [(d.reader, d.fact) for d in good.deliveries] == [
        ("look_up", "Ticket.order"),
        ("look_up", "Ticket.mood"),
        ("answer", "Order.order_id"),
        ("answer", "Order.signed"),
        ("answer", "Ticket.order"),
    ]
    assert good.is_complete
    assert [(o.fact, o.standing) for o in good.obligations] == [("Ticket.order", "proven")]
    assert [(one.fact, one.form) for one in bad.losses] == [("Ticket.order", "time")]
    assert [(row.fact, row.cells) for row in good.ledger.rows[:2]] == [
        ("Ticket.order", ("delivered", "proven")),
        ("Ticket.mood", ("delivered", "not declared")),
    ]


# -- obligation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "standing"),
    [
        ("the blade broke, we send one", "proven"),
        ("THE  BLADE\nbroke", "proven"),
        ("It is not true that the blade broke.", "open"),
        ("the blades broke", "open"),
        ("We are sorry.", "open"),
        ("", "open"),
    ],
)
async def test_a_pinned_fact_is_owed_and_proven_only_by_itself(text: str, standing: str) -> None:
    loss = await measured(shop(), {"text": text})

    (owed,) = loss.obligations
    assert (owed.fact, owed.owed_by, owed.standing, owed.writer) == (
        "Complaint.problem",
        "answer",
        standing,
        "understand",
    )
    assert owed.where == ("Answer.text" if standing == "proven" else "")
    assert loss.open == (standing == "open")
    if standing == "open":
        (lost,) = loss.losses
        assert (lost.fact, lost.form, lost.step) == ("Complaint.problem", "semantic", "answer")
        assert lost.cause == "delivered to answer, not dealt with in its output"


async def test_what_did_not_arrive_is_one_loss_and_not_two() -> None:
    """Cut on the way, so it could not be dealt with: the place is the cut."""

    async def forgetful(prompt: Prompt) -> Reply:
        return Reply(text='{"text": "We are sorry."}', sent="Answer the customer.")

    run = await shop().run("?", ask=forgetful)

    assert [one.fact for one in run.loss.losses].count("Complaint.problem") == 1
    assert run.loss.open == 1


async def test_covers_is_owed_by_the_step_that_says_so_also_in_the_middle() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def understand() -> Complaint:
        return Complaint(product="grinder", problem="the blade broke")

    @workflow.step(covers=[(Complaint, "product")])
    async def look_up(complaint: Complaint) -> Order:
        return Order(order_id="grinder/KX-1", signed=True)

    @workflow.step(covers=[(Complaint, "product")])
    async def answer(complaint: Complaint, order: Order) -> Answer:
        return Answer(text="the blade broke")

    loss = (await workflow.run("?")).loss

    assert {(o.fact, o.owed_by, o.standing) for o in loss.obligations} == {
        ("Complaint.problem", "answer", "proven"),
        ("Complaint.product", "answer", "open"),
        ("Complaint.product", "look_up", "proven"),
    }
    assert loss.rates["obligation"] == pytest.approx(1 / 3)


async def test_two_writers_of_a_pinned_fact_are_two_obligations() -> None:
    """One of two demands is answered: one is open, and it says whose."""

    class Demand(Contract):
        what: Pinned[str]

    workflow = Workflow("w")

    @workflow.step
    async def customer() -> Demand:
        return Demand(what="a refund")

    @workflow.step
    async def partner() -> Demand:
        return Demand(what="a new lid")

    @workflow.step
    async def answer(demands: list[Demand]) -> Answer:
        return Answer(text="You get a new lid.")

    loss = (await workflow.run("?")).loss

    assert {(o.writer, o.standing) for o in loss.obligations} == {("customer", "open"), ("partner", "proven")}
    assert loss.open == 1
    cells = {(row.value, row.cells[loss.ledger.steps.index("answer")]) for row in loss.ledger.rows}
    assert {("a refund", "lost"), ("a new lid", "proven")} <= cells


async def test_a_limit_is_delivered_but_need_not_be_repeated() -> None:
    class Rules(Contract):
        never: Limit[str]

    workflow = Workflow("w")

    @workflow.step
    async def rules() -> Rules:
        return Rules(never="do not phone")

    @workflow.step
    async def answer(rules: Rules) -> Answer:
        return Answer(text="We write to you.")

    loss = (await workflow.run("?")).loss

    assert loss.delivered == 1
    assert loss.obligations == ()


async def test_an_empty_pinned_fact_owes_nothing() -> None:
    class Wish(Contract):
        demand: Pinned[str] | None = None
        several: Pinned[list[str]] = []

    workflow = Workflow("w")

    @workflow.step
    async def wish() -> Wish:
        return Wish()

    @workflow.step
    async def answer(wish: Wish) -> Answer:
        return Answer(text="")

    assert (await workflow.run("?")).loss.obligations == ()


async def test_a_true_somewhere_does_not_prove_another_true() -> None:
    """A boolean is answered by the field of its own name, or by a link."""

    class Flags(Contract):
        urgent: Pinned[bool]

    class Other(Contract):
        sent: bool

    class Same(Contract):
        urgent: bool

    for output, standing in ((Other(sent=True), "open"), (Same(urgent=True), "proven"), (Same(urgent=False), "open")):
        workflow = Workflow("w")

        @workflow.step
        async def flags() -> Flags:
            return Flags(urgent=True)

        @workflow.step(name="answer")
        async def answer(flags: Flags) -> Other | Same:
            return output  # noqa: B023

        loss = (await workflow.run("?")).loss
        assert [o.standing for o in loss.obligations] == [standing]


async def test_the_outcome_is_what_the_workflow_named_however_late_others_end() -> None:
    """A side step that ends last does not become the answer."""
    import asyncio

    class Audit(Contract):
        lines: int

    for audit_last in (True, False):
        workflow = Workflow("w", results=[Answer, Audit])
        other = asyncio.Event()

        @workflow.step
        async def understand() -> Complaint:
            return Complaint(product="grinder", problem="the blade broke")

        @workflow.step
        async def answer(complaint: Complaint) -> Answer:
            if not audit_last:  # noqa: B023
                await other.wait()  # noqa: B023
            other.set()  # noqa: B023
            return Answer(text="the blade broke")

        @workflow.step
        async def audit(complaint: Complaint) -> Audit:
            if audit_last:  # noqa: B023
                await other.wait()  # noqa: B023
            other.set()  # noqa: B023
            return Audit(lines=1)

        loss = (await workflow.run("?")).loss
        assert [(o.fact, o.standing, o.where) for o in loss.obligations] == [
            ("Complaint.problem", "proven", "Answer.text")
        ]
        assert loss.unclaimed == ()


async def test_a_run_that_never_reached_its_outcome_is_not_measured_against_another_step() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def understand() -> Complaint:
        return Complaint(product="grinder", problem="the blade broke")

    @workflow.step
    async def look_up(complaint: Complaint) -> Order:
        return Order(order_id="KX-1", signed=True)

    @workflow.step
    async def answer(order: Order) -> Answer:
        raise ConnectionError

    run = await workflow.run("?")

    assert run.loss.status == "failed"
    assert run.loss.obligations == ()
    assert run.loss.rates["obligation"] is None


# -- contradiction ---------------------------------------------------------------------------------


class Decision(Contract):
    order_id: Annotated[str, Answers(Order, "order_id")]
    kept: Annotated[bool, Answers(Order, "signed", agrees={True: [True], False: [True, False]})]


def deciding(decision: Decision | dict[str, Any]) -> Workflow:
    workflow = Workflow("w")

    @workflow.step
    async def look_up() -> Order:
        return Order(order_id="KX-5512", signed=True)

    @workflow.step
    async def decide(order: Order) -> Decision:
        return decision  # type: ignore[return-value]

    return workflow


async def test_a_link_whose_values_agree_is_proven_and_one_that_differs_contradicted() -> None:
    good = (await deciding(Decision(order_id="KX-5512", kept=True)).run("?")).loss
    bad = (await deciding(Decision(order_id="KX-5521", kept=False)).run("?")).loss

    assert [o.standing for o in good.obligations] == ["proven", "proven"]
    assert (good.contradicted, good.links_checked) == (0, 2)
    assert [(o.fact, o.standing, o.where) for o in bad.obligations] == [
        ("Order.order_id", "contradicted", "Decision.order_id"),
        ("Order.signed", "contradicted", "Decision.kept"),
    ]
    assert (bad.contradicted, bad.links_checked, bad.open) == (2, 2, 0)
    assert bad.rates["contradiction"] == 1
    assert [(one.form, one.cause) for one in bad.losses] == [
        ("semantic", "Decision.order_id says something else"),
        ("semantic", "Decision.kept says something else"),
    ]
    assert "2 contradicted" in str(bad)


async def test_two_outputs_that_answer_the_same_fact_both_have_to_agree() -> None:
    class Letter(Contract):
        order_id: Annotated[str, Answers(Order, "order_id")]

    class Label(Contract):
        order_id: Annotated[str, Answers(Order, "order_id")]

    for outputs in (("KX-9999", "KX-5512"), ("KX-5512", "KX-9999")):
        workflow = Workflow("w")

        @workflow.step
        async def look_up() -> Order:
            return Order(order_id="KX-5512", signed=True)

        @workflow.step
        async def write(order: Order) -> tuple[Letter, Label]:
            return Letter(order_id=outputs[0]), Label(order_id=outputs[1])  # noqa: B023

        assert (await workflow.run("?")).loss.contradicted == 1


async def test_identifiers_of_model_outputs_are_checked_against_what_was_known() -> None:
    """One right, one digit off, one cut short, one made up; an id of the request is known."""
    text = "KX-5512 or KX-5513 or 2512292042121000 or ZZ-777777 or AB-1234"
    workflow = Workflow("w")

    class Facts(Contract):
        order: str
        parcel: str

    @workflow.step
    async def look_up() -> Facts:
        return Facts(order="KX-5512", parcel="2512292042121000001")

    @workflow.step
    async def answer(ctx: Context, facts: Facts) -> Answer:
        return await ctx.ask(Answer, "Answer.")

    run = await workflow.run("Where is AB-1234?", ask=AnswersModel([{"text": text}]))
    loss = run.loss

    assert loss.ids_checked == 5
    assert {(one.id, one.kind, one.nearest) for one in loss.changed_ids} == {
        ("KX-5513", "changed", "KX-5512"),
        ("2512292042121000", "truncated", "2512292042121000001"),
        ("ZZ-777777", "unknown", ""),
    }
    assert loss.rates["contradiction"] == pytest.approx(3 / 5)
    assert {one.form for one in loss.losses} == {"semantic"}


async def test_identifiers_that_code_looked_up_are_not_questioned() -> None:
    """A step that asked no model may bring new ids: that is what looking up is."""
    loss = (await deciding(Decision(order_id="KX-5512", kept=True)).run("?")).loss

    assert loss.ids_checked == 0
    assert loss.changed_ids == ()


# -- lifecycle, unclaimed --------------------------------------------------------------------------


async def test_two_different_values_without_a_rule_are_a_lifecycle_loss() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def one() -> Order:
        return Order(order_id="KX-1", signed=True)

    @workflow.step
    async def two() -> Order:
        return Order(order_id="KX-2", signed=True)

    @workflow.step
    async def read(order: Order) -> Answer:
        return Answer(text="")

    run = await workflow.run("?")
    again = await workflow.run("?", id="r-1")
    await workflow.resume("r-1")

    assert [(one.fact, one.form, one.step, one.cause) for one in run.loss.losses] == [
        ("Order.order_id", "lifecycle", "read", "one, two wrote different values")
    ]
    assert len((await workflow.resume("r-1")).loss.losses) == 1
    assert "KX-1" not in str(again.loss)


async def test_unclaimed_facts_stand_beside_and_are_no_loss() -> None:
    with open_session("s-1") as session:
        with session.step("aside") as step:
            step.commit(Complaint(product="grinder", problem="the blade broke"))
        with session.step("answer") as step:
            step.commit(Answer(text="the blade broke"))
        loss = session.loss

    assert loss.unclaimed == ("Complaint.product",)
    assert loss.losses == ()
    assert "unclaimed (no later step declares them): Complaint.product" in str(loss)


# -- reports ---------------------------------------------------------------------------------------


class Payment(Contract):
    card: Sensitive[str]
    limit: Sensitive[Pinned[int]]
    order: str


async def test_sensitive_values_are_masked_everywhere_and_still_counted() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def pay() -> Payment:
        return Payment(card="4111111111111111", limit=987654, order="KX-1")

    @workflow.step
    async def answer(payment: Payment) -> Answer:
        return Answer(text="paid")

    loss = (await workflow.run("?")).loss
    everything = str(loss) + json.dumps(loss.as_dict())

    assert "4111111111111111" not in everything
    assert "987654" not in everything
    assert loss.delivered == 3
    assert {row.fact: row.value for row in loss.ledger.rows}["Payment.card"] == "•••"
    assert loss.obligations == ()


async def test_text_and_json_come_from_one_structure() -> None:
    """Each loss of the JSON is a line of the text, each figure of the headline a field."""
    loss = await measured(shop(), {"text": "About KX-5513: sorry."})
    plain = json.loads(json.dumps(loss.as_dict()))
    head, *lines = str(loss).splitlines()

    assert head == "after-sales  3 steps · 6 of 6 deliveries · 1 of 1 obligations open · 1 contradicted"
    assert plain["delivered"] == 6
    assert plain["open"] == 1
    assert len(plain["obligations"]) == 1
    assert len(lines) == len(plain["losses"]) == 2
    for line, one in zip(lines, plain["losses"], strict=True):
        assert line.split()[0] == one["fact"]
        assert one["cause"] in line
        assert line.endswith(f"({one['form']}, at {one['step']})")
    assert plain["rates"] == dict(loss.rates)
    assert plain["ledger"]["steps"] == ["understand", "look_up", "answer"]


async def test_the_ledger_has_a_word_for_each_fact_at_each_step() -> None:
    loss = await measured(shop(), {"text": "the blade broke"})

    assert [(row.fact, *row.cells) for row in loss.ledger.rows] == [
        ("Complaint.product", "born", "delivered", "delivered"),
        ("Complaint.problem", "born", "delivered", "proven"),
        ("Order.order_id", "not yet known", "born", "delivered"),
        ("Order.signed", "not yet known", "born", "delivered"),
        ("Answer.text", "not yet known", "not yet known", "born"),
    ]


async def test_long_values_are_cut_in_the_ledger_and_nowhere_else() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def answer() -> Answer:
        return Answer(text="word \n" * 100)

    run = await workflow.run("?")
    (row,) = run.loss.ledger.rows

    assert len(row.value) == 60
    assert row.value.endswith("…")
    assert "\n" not in row.value
    assert len(run[Answer].text) == 600


async def test_measuring_is_a_pure_function_of_the_log() -> None:
    """From the run, from another process, after a resume: the same report."""
    store = MemoryStore()
    workflow = shop()
    run = await workflow.run("?", ask=AnswersModel([{"text": "sorry"}]), store=store, id="r-1", session="s-1")
    again = await workflow.resume("r-1", store=store, session="s-1")
    async with open_session("s-1", store=store) as session:
        elsewhere = await session.measure("r-1")

    assert run.loss == again.loss == elsewhere


async def test_fc_45_the_ledger_cuts_a_long_value_between_graphemes() -> None:
    """A family emoji at the cut is left out whole, not shown as its first member."""
    flow = Workflow("cut")

    @flow.step
    async def note() -> Noted:
        return Noted(text="x" * 57 + "👨‍👩‍👧" + " and more")

    run = await flow.run()

    assert run.loss.ledger.rows[0].value == "x" * 57 + "…"


class Noted(Contract):
    text: str
