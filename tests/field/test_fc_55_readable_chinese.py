r"""FC-55: Chinese turned into \u escapes in prompts and logs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from statepact import Context, Contract, Pinned, Request, Store, Workflow, open_session
from statepact.ledger import session_key
from statepact.models import AnswersModel

Reopen = Callable[[], Awaitable[Store]]


class 工单(Contract):  # noqa: N801 - Chinese has no capitals
    问题: Pinned[str]
    诉求: str
    备注: str


class Reply(Contract):
    text: str


class Mixed(Contract):
    data: dict[str, Any]


TICKET = 工单(问题="包装泄漏", 诉求="换货", 备注="👍 café")


def desk() -> Workflow:
    workflow = Workflow("客服")

    @workflow.step(name="理解")
    async def understand() -> 工单:
        return TICKET

    @workflow.step
    async def answer(ctx: Context, ticket: 工单) -> Reply:
        return await ctx.ask(Reply, "回答顾客。")

    return workflow


async def test_fc_55_a_model_sees_chinese_as_written(store: Store) -> None:
    """Field names, values, step names, emoji and the request: literal, no escape anywhere in what was sent."""
    model = AnswersModel([{"text": "包装泄漏，可以换货"}])

    run = await desk().run("你好，包装泄漏了", ask=model, store=store)

    sent = model.prompts[0].text
    for literal in ("包装泄漏", "问题", "换货", "👍 café", "理解", "你好", "回答顾客。"):
        assert literal in sent
    assert "\\u" not in sent
    assert run.ok
    assert run.loss.is_complete


async def test_fc_55_reports_are_readable_too(store: Store) -> None:
    """Loss as text and as JSON, and the ledger."""
    run = await desk().run("你好", ask=AnswersModel([{"text": "没有"}]), store=store)

    text = str(run.loss)
    assert "工单.问题" in text
    assert "\\u" not in text
    assert "包装泄漏" in [row.value for row in run.loss.ledger.rows]
    assert "包装泄漏" in json.dumps(run.loss.as_dict(), ensure_ascii=False)


async def test_fc_55_stored_bytes_hold_the_characters(store: Store) -> None:
    """Half the size of escapes, and anybody can grep."""
    run = await desk().run("你好", ask=AnswersModel([{"text": "好"}]), store=store)

    key = session_key(run.owner, run.session)
    headers = await store.headers(key)
    stored = b"".join((await store.payloads(key, [header.revision for header in headers])).values())
    assert "包装泄漏".encode() in stored
    assert b"\\u" not in stored


async def test_fc_55_the_form_of_an_answer_does_not_change_what_it_says(stores: Reopen) -> None:
    """A model that escapes and one that does not have given the same answer: the next step's inputs are equal."""
    plain = json.dumps({"text": "包装泄漏 👍 café"}, ensure_ascii=False)
    escaped = json.dumps({"text": "包装泄漏 👍 café"}, ensure_ascii=True)
    assert plain != escaped
    prompts = []

    class Final(Contract):
        text: str

    for form in (plain, escaped):
        workflow = Workflow("two")

        @workflow.step
        async def draft(ctx: Context, request: Request) -> Reply:
            return await ctx.ask(Reply, "起草。")

        @workflow.step
        async def final(ctx: Context, reply: Reply) -> Final:
            return await ctx.ask(Final, "定稿。")

        model = AnswersModel([form, {"text": "好"}])
        run = await workflow.run("你好", ask=model, store=await stores())
        assert run[Reply].text == "包装泄漏 👍 café"
        prompts.append(model.prompts[1].text)

    assert prompts[0] == prompts[1]


async def test_fc_55_order_of_keys_and_form_do_not_make_another_input(stores: Reopen) -> None:
    """The same values in another order are the same input: a repeated step gets its stored result."""
    for data in ({"问题": "包装泄漏", "a": 1}, {"a": 1, "问题": json.loads('"\\u5305\\u88c5\\u6cc4\\u6f0f"')}):
        async with open_session("s-1", store=await stores(), run="r-1", request=Mixed(data=data)) as session:
            async with session.step("answer", reads=[Mixed]) as step:
                if not step.is_stored:
                    await step.commit(Reply(text=f"{len(step[Mixed].data)}"))
            assert await session.all(Reply) == [Reply(text="2")]
