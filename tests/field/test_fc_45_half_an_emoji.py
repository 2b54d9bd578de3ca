"""FC-45: half an emoji poisons the whole session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from statepact import Context, Contract, Request, Store, Workflow, open_session
from statepact.models import AnswersModel

Reopen = Callable[[], Awaitable[Store]]
FAMILY = "👨\u200d👩\u200d👧"


class Note(Contract):
    text: str
    more: dict[str, Any] = {}


class Echo(Contract):
    text: str


BROKEN = [
    ("包装破损\ud83d…", "包装破损\ufffd…"),
    ("ok \udc88 ok", "ok \ufffd ok"),
    ("\udc97", "\ufffd"),
    ("end \ud800", "end \ufffd"),
    ("nul\x00byte", "nul\ufffdbyte"),
    ("\udc00\ud800 swapped", "\ufffd\ufffd swapped"),
]
WHOLE = ["🧩", FAMILY, "\ud83e\udde9".encode("utf-16", "surrogatepass").decode("utf-16"), "é", "𠀀", "包装破损"]


@pytest.mark.parametrize(("written", "read"), BROKEN, ids=ascii)
async def test_fc_45_a_broken_text_is_cleaned_when_written_and_read_elsewhere(
    stores: Reopen, written: str, read: str
) -> None:
    """What a step commits comes back with U+FFFD, in this process and in the next; the session lives on."""
    async with open_session("s-1", store=await stores(), run="r-1") as session:
        async with session.step("note") as step:
            await step.commit(Note(text=written))
        async with session.step("echo", reads=[Note]) as step:
            assert step[Note].text == read
            prompt = await step.prompt("Say it again.")
            prompt.text.encode()
            await step.commit(Echo(text=step[Note].text))

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        assert await session.get(Note) == Note(text=read)
        assert await session.get(Echo) == Echo(text=read)


@pytest.mark.parametrize("text", WHOLE, ids=ascii)
async def test_fc_45_a_whole_character_is_not_touched(stores: Reopen, text: str) -> None:
    """Emoji, also of several characters, and letters of every plane stay byte for byte."""
    async with open_session("s-1", store=await stores(), run="r-1") as session, session.step("note") as step:
        await step.commit(Note(text=text, more={text: [text]}))

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        assert await session.get(Note) == Note(text=text, more={text: [text]})


async def test_fc_45_keys_and_nested_values_are_cleaned_too(store: Store) -> None:
    """A dictionary key is text like any other."""
    async with open_session("s-1", store=store) as session:
        async with session.step("note") as step:
            await step.commit(Note(text="ok", more={"k\udc97": {"deep": ["x\ud83d"]}}))

        assert await session.get(Note) == Note(text="ok", more={"k\ufffd": {"deep": ["x\ufffd"]}})


async def test_fc_45_the_request_is_cleaned_and_the_run_can_be_repeated(stores: Reopen) -> None:
    """A complaint with half an emoji is a complaint: every step runs, a double click is the same run."""
    workflow = Workflow("shop")
    bodies = 0

    @workflow.step
    async def understand(ctx: Context, request: Request) -> Note:
        nonlocal bodies
        bodies += 1
        return Note(text=request.text or "")

    @workflow.step
    async def answer(ctx: Context, note: Note) -> Echo:
        return await ctx.ask(Echo, "Answer.")

    model = AnswersModel([{"text": "好的"}])
    complaint = "包装破损\ud83d, please \x00 help"
    first = await workflow.run(complaint, id="r-1", ask=model, store=await stores())
    again = await workflow.run(complaint, id="r-1", ask=AnswersModel([]), store=await stores())

    assert first.ok, first.problem
    assert first[Note].text == again[Note].text == "包装破损\ufffd, please \ufffd help"
    assert first[Echo].text == again[Echo].text == "好的"
    assert bodies == 1
    model.prompts[0].text.encode()


async def test_fc_45_a_model_that_answers_half_an_emoji_is_repaired(store: Store) -> None:
    """Cut by UTF-16 units inside its JSON: the value is kept, the bad unit replaced."""
    workflow = Workflow("shop")

    @workflow.step
    async def answer(ctx: Context) -> Echo:
        return await ctx.ask(Echo, "Answer.")

    run = await workflow.run("?", ask=AnswersModel([r'{"text": "包装 \ud83d"}']), store=store)

    assert run[Echo].text == "包装 \ufffd"


async def test_fc_45_one_bad_text_does_not_hide_what_stands_beside_it(store: Store) -> None:
    """Delivery is still measured: the cleaned form is what was sent."""
    workflow = Workflow("shop")

    @workflow.step
    async def note() -> Note:
        return Note(text="KX-5512 包装\ud83d")

    @workflow.step
    async def answer(ctx: Context, note: Note) -> Echo:
        return await ctx.ask(Echo, "Answer.")

    run = await workflow.run("?", ask=AnswersModel([{"text": "KX-5512"}]), store=store)

    assert run.ok, run.problem
    assert run.loss.is_complete
    assert run.loss.delivered == 1
