"""Asking a model: what it may answer, what happens when it does not, and what it is told."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from statepact import Context, Contract, Pinned, Run, Sensitive, Workflow
from statepact.errors import ContractViolation, ModelError, SetupError, UnreadableText
from statepact.models import AnswersModel, Prompt, Reply, ScriptedModel, Usage


class Order(Contract):
    order_id: str
    status: Literal["paid", "shipped"]
    count: int


GOOD = {"order_id": "KX-1", "status": "paid", "count": 2}


def asking(*, again: int = 1, retries: int = 0, model: Any = None) -> Workflow:
    workflow = Workflow("w")

    @workflow.step(retries=retries)
    async def look_up(ctx: Context) -> Order:
        return await ctx.ask(Order, "Which order?", again=again, model=model)

    return workflow


async def ask(*answers: Any, again: int = 1) -> tuple[Run, AnswersModel]:
    model = AnswersModel(answers)
    return await asking(again=again).run("?", ask=model), model


async def test_a_clean_answer_is_read_and_asked_for_once() -> None:
    run, model = await ask(GOOD)

    assert run[Order] == Order(order_id="KX-1", status="paid", count=2)
    assert len(model.prompts) == 1
    assert "Which order?" in model.prompts[0].text
    assert "order_id, status, count" in model.prompts[0].text
    assert model.prompts[0].schema == Order.model_json_schema()


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("I am sorry, I cannot help with that.", ""),
        ("", ""),
        ('{"order_id": "KX-1", "status": "pa', ""),
        (('{"order_id": "KX-1", "status": "pa', "length"), ""),
        ({**GOOD, "count": "many"}, "count"),
        ({**GOOD, "count": None}, "count"),
        ({**GOOD, "status": "lost"}, "status"),
        ({**GOOD, "color": "red"}, "color"),
        ({"order_id": "KX-1"}, "status"),
        ("[1, 2]", ""),
        ('{"a": 1} or {"a": 2}', ""),
        ("null", ""),
    ],
    ids=[
        "prose", "nothing", "half JSON", "cut", "wrong type", "null", "not allowed", "unknown field", "missing",
        "a list", "two objects", "no object",
    ],
)  # fmt: skip
async def test_an_answer_that_breaks_the_contract_is_asked_for_once_more(answer: Any, named: str) -> None:
    """The second question repeats the first, shows the answer, and names paths; then it is an error or fine."""
    run, model = await ask(answer, GOOD)

    assert run[Order].order_id == "KX-1"
    first, second = model.prompts
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2].role == "assistant"
    assert named in second.messages[-1].content
    assert "Answer again" in second.messages[-1].content

    run, model = await ask(answer, answer)
    assert isinstance(run.problem, ContractViolation)
    assert "the model's answer to step 'look_up'" in str(run.problem)
    assert len(model.prompts) == 2
    assert run.get(Order) is None


async def test_the_second_question_names_paths_and_types_only() -> None:
    """No value of the answer, no text of a user's own rule."""
    _, model = await ask({"order_id": 4711, "status": "KX-SECRET", "count": "canary"}, GOOD)

    again = model.prompts[1].messages[-1].content
    for path in ("order_id", "status", "count"):
        assert path in again
    for value in ("4711", "KX-SECRET", "canary"):
        assert value not in again


@pytest.mark.parametrize("again", [0, 1, 3])
async def test_how_often_it_is_asked_again_is_the_caller_s_choice(again: int) -> None:
    run, model = await ask(*["no"] * (again + 1), again=again)

    assert isinstance(run.problem, UnreadableText)
    assert len(model.prompts) == again + 1


async def test_what_a_cut_answer_says_is_never_committed() -> None:
    """The part before the cut could be closed to a valid object; it is incomplete and says so."""
    cut = '{"order_id": "KX-1", "status": "paid", "count": 2'
    run, _ = await ask((cut, "length"), (cut, "length"))

    assert isinstance(run.problem, UnreadableText)
    assert run.problem.reason == "incomplete"
    assert run.get(Order) is None


async def test_usage_counts_every_call() -> None:
    async def model(prompt: Prompt) -> Reply:
        text = "no" if len(prompt.messages) == 2 else '{"order_id": "KX-1", "status": "paid", "count": 2}'
        usage = Usage(input_tokens=100, output_tokens=7, estimated=False)
        return Reply(text=text, sent=prompt.text, usage=usage, model="m-1")

    run = await asking().run("?", ask=model)

    assert run.ok
    assert run.usage == Usage(input_tokens=200, output_tokens=14, estimated=False)


# -- models that fail ------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [TimeoutError("read timed out"), ConnectionError("reset"), KeyError("choices")])
async def test_a_model_that_fails_is_a_model_error_with_its_cause(error: Exception) -> None:
    run, _ = await ask(error)

    assert isinstance(run.problem, ModelError)
    assert run.problem.__cause__ is error
    assert f"the model of step 'look_up' failed with {type(error).__name__}" in str(run.problem)


async def test_a_model_error_may_pass_and_is_retried(clock: Any) -> None:
    model = AnswersModel([TimeoutError(), ModelError("overloaded"), GOOD])

    run = await asking(retries=2).run("?", ask=model, clock=clock)

    assert run.ok
    assert run.steps["look_up"].attempts == 3


async def test_a_step_without_a_model_is_told_how_to_pass_one() -> None:
    run = await asking().run("?")

    assert isinstance(run.problem, SetupError)
    assert "ask=my_model" in run.problem.hint


# -- what may be passed as a model -----------------------------------------------------------------


async def test_a_plain_async_function_is_a_model() -> None:
    """It gets the prompt and returns text; what it was given counts as sent."""
    seen: list[Prompt] = []

    async def my_model(prompt: Prompt) -> str:
        seen.append(prompt)
        return '{"order_id": "KX-1", "status": "paid", "count": 2}'

    run = await asking().run("?", ask=my_model)

    assert run[Order].count == 2
    assert run.usage.estimated
    assert seen[0].schema_name == "Order"


async def test_a_model_of_one_call_replaces_the_run_s() -> None:
    """As an object or as a function."""

    async def my_model(prompt: Prompt) -> str:
        return '{"order_id": "KX-2", "status": "paid", "count": 2}'

    for model in (my_model, AnswersModel([{**GOOD, "order_id": "KX-2"}])):
        run = await asking(model=model).run("?", ask=AnswersModel([]))
        assert run.ok, run.problem
        assert run[Order].order_id == "KX-2"


async def test_what_is_no_model_is_refused_before_anything_runs() -> None:
    for wrong in ("gpt", 7, [GOOD]):
        with pytest.raises(SetupError, match="is not a model"):
            await asking().run("?", ask=wrong)  # type: ignore[arg-type]


async def test_the_scripted_model_shows_what_was_delivered() -> None:
    """It repeats what stands in the prompt: a fact that arrived is in the answer."""

    class Final(Contract):
        order_id: str
        status: str

    workflow = Workflow("w")

    @workflow.step
    async def look_up() -> Order:
        return Order(order_id="KX-1", status="paid", count=2)

    @workflow.step
    async def final(ctx: Context, order: Order) -> Final:
        return await ctx.ask(Final, "Write the record.")

    run = await workflow.run("?", ask=ScriptedModel())

    assert run[Final] == Final(order_id="KX-1", status="paid")


# -- asking yourself -------------------------------------------------------------------------------


@pytest.mark.parametrize("report", ["all", "part", "nothing"])
async def test_a_step_that_calls_a_client_itself_reports_what_it_sent(report: str) -> None:
    class Facts(Contract):
        demand: Pinned[str]
        card: Sensitive[str]

    class Reply(Contract):
        text: str

    workflow = Workflow("w")

    @workflow.step
    async def facts() -> Facts:
        return Facts(demand="refund", card="4111")

    @workflow.step
    async def reply(ctx: Context, facts: Facts) -> Reply:
        prompt = await ctx.prompt("Reply.")
        if report != "nothing":
            ctx.sent(prompt.text if report == "all" else "please refund")
        ctx.because("the customer asked")
        return Reply(text="refund")

    run = await workflow.run("?")

    states = {d.fact: d.state for d in run.loss.deliveries}
    assert (
        states
        == {
            "all": {"Facts.demand": "delivered", "Facts.card": "delivered"},
            "part": {"Facts.demand": "delivered", "Facts.card": "lost"},
            "nothing": {"Facts.demand": "unchecked", "Facts.card": "unchecked"},
        }[report]
    )
    assert run.loss.checked_handoffs == (0 if report == "nothing" else 1)


async def test_a_step_knows_where_it_is() -> None:
    class Place(Contract):
        words: list[str]

    workflow = Workflow("w")

    @workflow.step
    async def look(ctx: Context) -> Place:
        return Place(words=[ctx.owner, ctx.session, ctx.run, ctx.step, ctx.request])

    run = await workflow.run("where?", owner="ua", session="s-1", id="r-1")

    assert run[Place].words == ["ua", "s-1", "r-1", "look", "where?"]
    assert (run.owner, run.session, run.id) == ("ua", "s-1", "r-1")


@pytest.mark.parametrize("words", ["", "   ", "\n\t", "\u3000"])
async def test_an_empty_complaint_is_a_clear_error(words: str) -> None:
    with pytest.raises(ContractViolation, match="the request breaks contract Request"):
        await asking().run(words, ask=AnswersModel([]))


async def test_a_complaint_of_two_megabytes_says_where_to_put_it() -> None:
    from statepact.errors import TooLarge

    with pytest.raises(TooLarge, match="2,000,000 characters") as caught:
        await asking().run("x" * 2_000_000, ask=AnswersModel([]))
    assert "takes=" in caught.value.hint
