"""FC-57: braces in data or template break prompt building."""

from __future__ import annotations

import pytest

from statepact import Context, Contract, Limit, Pinned, Request, Store, Workflow, open_session
from statepact.models import AnswersModel

NASTY = '{"a":1} {product_name} {0.__class__} 100%s $x {{y}} ${z} %(name)s {% raw %} <%= 1 %> \\1 {'
EXAMPLE = 'Return {"order_id": "..."}. Keep {braces}, {0}, %s and $x as they are.'


class Wish(Contract):
    product_name: str
    words: Pinned[str]
    rule: Limit[str]


class Draft(Contract):
    text: str


class Reply(Contract):
    text: str


async def test_fc_57_data_and_template_come_through_unchanged_after_two_passes(store: Store) -> None:
    """User text goes into one prompt, its echo into the next: nothing is interpreted on the way."""
    workflow = Workflow("braces")

    @workflow.step
    async def draft(ctx: Context, request: Request) -> Draft:
        return await ctx.ask(Draft, EXAMPLE)

    @workflow.step
    async def reply(ctx: Context, draft: Draft) -> Reply:
        return await ctx.ask(Reply, EXAMPLE)

    model = AnswersModel([{"text": NASTY}, {"text": NASTY}])
    run = await workflow.run(NASTY, ask=model, store=store)

    assert run.ok, run.problem
    assert run[Draft].text == run[Reply].text == NASTY
    for prompt in model.prompts:
        assert EXAMPLE in prompt.text
        assert f"request (from the user): {NASTY}\n" in prompt.text
    # In the second pass the draft stands as JSON, which a reader turns back into the same text.
    line = next(line for line in model.prompts[1].text.splitlines() if line.startswith("Draft "))
    assert Draft.model_validate_json(line.partition(": ")[2]).text == NASTY
    assert run.loss.is_complete


async def test_fc_57_a_field_name_in_user_text_is_not_replaced(store: Store) -> None:
    """`{product_name}` from the user stays `{product_name}`, although there is a field of that name."""
    async with open_session("s-1", store=store, request="I bought {product_name} for {words}") as session:
        async with session.step("understand") as step:
            await step.commit(Wish(product_name="KX-210", words="{product_name}", rule="never say {product_name}"))
        async with session.step("answer") as step:
            prompt = await step.prompt("Answer about {product_name}.")
            step.sent(prompt.text)
            await step.commit(Reply(text="ok"))

    assert "I bought {product_name} for {words}" in prompt.text
    assert '"words":"{product_name}"' in prompt.text
    assert '"rule":"never say {product_name}"' in prompt.text
    assert prompt.text.rstrip().endswith("Answer about {product_name}.")
    assert "KX-210" not in prompt.text


@pytest.mark.parametrize(
    "text", ["%", "%s", "{}", "{0}", "{", "}", "{{}}", "$", "\\", "{x!r:>{w}}", "%(a)d", "\r\n{a}"]
)
async def test_fc_57_every_kind_of_mark_is_only_text(store: Store, text: str) -> None:
    """Alone, as request, as value and as instruction."""
    workflow = Workflow("braces")

    @workflow.step
    async def draft(ctx: Context) -> Draft:
        return Draft(text=text)

    @workflow.step
    async def reply(ctx: Context, draft: Draft) -> Reply:
        return await ctx.ask(Reply, f"Now: {text}")

    model = AnswersModel([{"text": text}])
    run = await workflow.run(f"! {text}", ask=model, store=store)

    assert run[Reply].text == text
    assert f"Now: {text}" in model.prompts[0].text
    assert f"! {text}" in model.prompts[0].text
    assert run.loss.delivered == 1
