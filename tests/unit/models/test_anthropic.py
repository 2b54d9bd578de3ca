"""`AnthropicModel` against a real HTTP server: what it sends, what it reads, how it fails."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from statepact.errors import ModelError, SetupError
from statepact.models import AnthropicModel, Message, Prompt

KEY = "sk-ant-not-for-anybody-4711"
SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string", "maxLength": 12}, "signed": {"type": "boolean"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
PROMPT = Prompt(
    messages=(
        Message(role="system", content="Facts."),
        Message(role="user", content="订单 KX-1 坏了"),
        Message(role="system", content="Be short."),
    ),
    schema=SCHEMA,
    temperature=0,
)


def answer(text: str = '{"order_id": "KX-1"}', *, stop: str = "end_turn", **usage: int) -> dict[str, Any]:
    return {
        "id": "m-1",
        "type": "message",
        "role": "assistant",
        "model": "claude-tiny-1",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": text}],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 31, "output_tokens": 7, **usage},
    }


@asynccontextmanager
async def model(provider: Any, **options: Any) -> AsyncIterator[AnthropicModel]:
    found = AnthropicModel("claude-tiny", base_url=provider.url, **{"api_key": KEY, "max_retries": 0, **options})
    yield found
    await found.aclose()


async def test_messages_and_schema_are_sent_the_way_the_api_wants_them(provider: Any) -> None:
    """System texts in their own place, a token limit always, a closed schema, no sampling parameters."""
    provider.answer(answer())
    async with model(provider) as claude:
        reply = await claude.reply(PROMPT)

    sent = provider.requests[0]
    assert sent["system"] == "Facts.\n\nBe short."
    assert sent["messages"] == [{"role": "user", "content": "订单 KX-1 坏了"}]
    assert sent["max_tokens"] == 4096
    assert "temperature" not in sent
    assert sent["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "order_id": {"type": "string", "description": "(maxLength: 12)"},
                "signed": {"type": "boolean"},
            },
            "required": ["order_id"],
            "additionalProperties": False,
        },
    }
    assert reply.sent == "Facts.\nBe short.\n订单 KX-1 坏了"
    assert (reply.text, reply.model) == ('{"order_id": "KX-1"}', "claude-tiny-1")


async def test_a_schema_without_strict_form_is_written_into_the_system_prompt(provider: Any) -> None:
    """The model reads it, but words of a schema do not count as delivered."""
    free = {"type": "object", "properties": {"counts": {"type": "object", "additionalProperties": {"enum": ["KX-9"]}}}}
    provider.answer(answer())
    async with model(provider) as claude:
        reply = await claude.reply(Prompt(messages=PROMPT.messages, schema=free, max_tokens=9))

    assert "KX-9" in provider.requests[0]["system"]
    assert "output_config" not in provider.requests[0]
    assert provider.requests[0]["max_tokens"] == 9
    assert "KX-9" not in reply.sent


async def test_cached_tokens_count_as_read(provider: Any) -> None:
    """The API reports them apart; the model read them all the same."""
    provider.answer(answer(cache_read_input_tokens=100, cache_creation_input_tokens=20))
    async with model(provider) as claude:
        usage = (await claude.reply(PROMPT)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (151, 7, False)


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
    ],
)
async def test_stop_reasons_are_told_apart(provider: Any, stop: str, expected: str) -> None:
    """A cut answer and a refusal are replies, and say what they are."""
    provider.answer(answer(stop=stop))
    async with model(provider) as claude:
        assert (await claude.reply(PROMPT)).stop_reason == expected


async def test_failures_are_model_errors_without_the_key(provider: Any) -> None:
    """A refused key, an overloaded provider, half an answer and the answer of another API."""
    wrong = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid bearer {KEY}"}}
    provider.answer(wrong, status=401)
    provider.answer({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}, status=529)
    provider.answer(b'{"id": "m-1", "content": [')
    provider.answer({"choices": []})
    async with model(provider) as claude:
        caught = []
        for _ in range(4):
            with pytest.raises(ModelError) as one:
                await claude.reply(PROMPT)
            caught.append(one.value)
    assert "answered 401 (authentication_error)" in str(caught[0])
    assert "ANTHROPIC_API_KEY" in caught[0].hint
    assert "answered 529 (overloaded_error)" in str(caught[1])
    assert KEY not in "".join("".join(traceback.format_exception(error)) for error in caught) + repr(claude)


async def test_no_answer_in_time_is_a_model_error(provider: Any) -> None:
    """The timeout of the model, not of the machine."""
    provider.stay_silent()
    async with model(provider, timeout=0.05) as claude:
        with pytest.raises(ModelError, match="did not answer in time"):
            await claude.reply(PROMPT)


async def test_the_key_of_the_environment_is_not_sent_to_another_host(
    provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made for Anthropic, or for `ANTHROPIC_BASE_URL`."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    provider.answer(answer())
    async with model(provider, api_key=None) as claude:
        await claude.reply(PROMPT)
    assert KEY not in str(provider.headers)


async def test_a_client_of_your_own_is_used_as_it_is(provider: Any) -> None:
    """Its key and address count, and it stays open."""
    from anthropic import AsyncAnthropic

    provider.answer(answer())
    async with AsyncAnthropic(api_key="their-own-key", base_url=provider.url, max_retries=0) as client:
        await AnthropicModel("claude-tiny", client=client).reply(PROMPT)
        with pytest.raises(SetupError, match="also base_url"):
            AnthropicModel("claude-tiny", client=client, api_key=KEY)
    assert "their-own-key" in str(provider.headers)


async def test_no_key_at_all_is_said_with_the_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client looks for other credentials first, and only when it signs a request."""
    monkeypatch.setenv("HOME", str(tmp_path))
    claude = AnthropicModel("claude-tiny")
    with pytest.raises(ModelError, match="call of anthropic/claude-tiny failed") as caught:
        await claude.reply(PROMPT)
    await claude.aclose()
    assert "ANTHROPIC_API_KEY" in caught.value.hint
