"""Pinned facts of a long run: each step says what arrived, and none pays for their number."""

from __future__ import annotations

from statepact import Context, Contract, Limit, MemoryStore, Pinned, Workflow, open_session
from statepact.ledger import DEFAULT_OWNER, session_key
from statepact.models import AnswersModel
from statepact.workflow import AsyncSession

LONG = "." * 3_000
"""Two facts of this length fit the budget of pinned facts."""


class Both(Contract):
    most: Limit[str]
    wish: Pinned[str]


class Answer(Contract):
    text: str


async def pin(session: AsyncSession, name: str, *, end: str = "") -> None:
    async with session.step(name) as step:
        await step.commit(Both(most=f"limit of {name}", wish=f"wish of {name}{end}"))


async def states(session: AsyncSession, reader: str) -> dict[tuple[str, str], str]:
    """Return what became of each fact on its way to a step."""
    loss = await session.measure()
    return {(item.writer, item.fact): item.state for item in loss.deliveries if item.reader == reader}


async def test_a_lost_limit_of_a_cut_value_does_not_move_the_cut() -> None:
    """The oldest had no room; that the limit of one of them got lost, too, says nothing about others."""
    async with open_session("s", store=MemoryStore()) as session:
        for number in range(4):
            await pin(session, f"p{number}", end=LONG)
        async with session.step("answer") as step:
            prompt = (await step.prompt("Go.")).text
            step.sent("\n".join(line for line in prompt.splitlines() if "limit of p1" not in line))
            await step.commit(Answer(text="ok"))

        found = await states(session, "answer")

    limits = {writer: state for (writer, fact), state in found.items() if fact == "Both.most"}
    wishes = {writer: state for (writer, fact), state in found.items() if fact == "Both.wish"}
    assert limits == {"p0": "delivered", "p1": "lost", "p2": "delivered", "p3": "delivered"}
    assert wishes == {"p0": "lost", "p1": "lost", "p2": "delivered", "p3": "delivered"}


async def test_what_is_pinned_while_a_step_is_open_is_for_later_steps() -> None:
    """A step sees its snapshot: its prompt does not depend on how fast others are."""
    async with open_session("s", store=MemoryStore()) as session:
        async with session.step("early") as early:
            await pin(session, "p0")
            early.sent(sent := (await early.prompt("Go.")).text)
            await early.commit(Answer(text="ok"))
        async with session.step("late") as late:
            late.sent((await late.prompt("Go.")).text)
            await late.commit(Answer(text="ok"))

        assert "wish of p0" not in sent
        assert await states(session, "early") == {}
        assert set((await states(session, "late")).values()) == {"delivered"}


async def test_a_long_request_takes_no_room_among_the_pinned_facts() -> None:
    """What the run was asked is shown as its request, so its pinned facts arrive and others keep their room."""

    class Ask(Contract):
        order: Pinned[str]
        text: str

    workflow = Workflow("w", takes=Ask)

    @workflow.step
    async def rules() -> Both:
        return Both(most="at most 3", wish="a new lid")

    @workflow.step
    async def answer(ctx: Context, both: Both) -> Answer:
        return await ctx.ask(Answer, "Go.")

    model = AnswersModel([{"text": "KX-1, a new lid"}])
    run = await workflow.run(Ask(order="KX-1", text="very long " * 5_000), ask=model)

    assert "not shown" not in model.prompts[0].text
    assert {item.state for item in run.loss.deliveries if item.reader == "answer"} == {"delivered"}


async def test_headers_do_not_grow_with_the_pinned_facts() -> None:
    """A step that was shown them all, or as many as have room, names none of them."""
    sizes = {}
    for count in (1, 40):
        store = MemoryStore()
        async with open_session("s", store=store) as session:
            for number in range(count):
                await pin(session, f"p{number}", end="." * 400)
            for name in ("first", "second"):
                async with session.step(name) as step:
                    step.sent((await step.prompt("Go.")).text)
                    await step.commit(Answer(text="ok"))
        headers = await store.headers(session_key(DEFAULT_OWNER, "s"))
        sizes[count] = len(headers[-2].header)  # of `second`; the last one is the seal

    assert sizes[40] <= sizes[1] + 2


async def test_facts_that_a_caller_did_not_report_are_unchecked() -> None:
    """A prompt was made and nobody said what became of it: no claim either way."""
    async with open_session("s", store=MemoryStore()) as session:
        await pin(session, "p0")
        async with session.step("answer") as step:
            await step.prompt("Go.")
            await step.commit(Answer(text="ok"))

        assert set((await states(session, "answer")).values()) == {"unchecked"}


async def test_facts_of_a_prompt_that_was_made_by_hand_are_looked_for_one_by_one() -> None:
    async with open_session("s", store=MemoryStore()) as session:
        for number in range(5):
            await pin(session, f"p{number}")
        async with session.step("answer") as step:
            step.sent("Remember: wish of p3, limit of p1. Nothing else.")
            await step.commit(Answer(text="ok"))

        found = await states(session, "answer")

    assert {key for key, state in found.items() if state == "delivered"} == {("p3", "Both.wish"), ("p1", "Both.most")}
    assert len(found) == 10
