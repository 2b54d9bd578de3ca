"""`OpenAIModel` against a real HTTP server: what it sends, what it reads, how it fails."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from statepact.errors import ModelError, SetupError
from statepact.models import Message, OpenAIModel, Prompt

KEY = "sk-not-for-anybody-4711"
SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string", "maxLength": 12}, "signed": {"type": "boolean", "default": False}},
    "required": ["order_id"],
    "additionalProperties": False,
}
PROMPT = Prompt(
    messages=(Message(role="system", content="Facts."), Message(role="user", content="订单 KX-1 坏了")),
    schema=SCHEMA,
    schema_name="Order 1.0",
    max_tokens=50,
    temperature=0,
)


def completion(content: str | None = '{"order_id": "KX-1"}', *, stop: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny-1",
        "choices": [
            {"index": 0, "finish_reason": stop, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {"prompt_tokens": 31, "completion_tokens": 7, "total_tokens": 38},
    }


@asynccontextmanager
async def model(provider: Any, **options: Any) -> AsyncIterator[OpenAIModel]:
    found = OpenAIModel("tiny", base_url=f"{provider.url}/v1", **{"api_key": KEY, "max_retries": 0, **options})
    yield found
    await found.aclose()


async def test_messages_schema_and_limits_are_sent(provider: Any) -> None:
    """What the prompt says is in the request, and the reply says what was sent and what it cost."""
    provider.answer(completion())
    async with model(provider) as tiny:
        reply = await tiny.reply(PROMPT)

    sent = provider.requests[0]
    assert sent["messages"] == [{"role": "system", "content": "Facts."}, {"role": "user", "content": "订单 KX-1 坏了"}]
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("tiny", 50, 0)
    assert provider.headers[0]["authorization"] == f"Bearer {KEY}"
    assert reply.sent == "Facts.\n订单 KX-1 坏了"
    assert (reply.text, reply.stop_reason, reply.model) == ('{"order_id": "KX-1"}', "stop", "tiny-1")
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.estimated) == (31, 7, False)


async def test_a_schema_goes_out_in_its_strict_form(provider: Any) -> None:
    """Every field is required, objects are closed, and a bound that strict mode lacks is told in words."""
    provider.answer(completion())
    async with model(provider) as tiny:
        await tiny.reply(PROMPT)

    form = provider.requests[0]["response_format"]["json_schema"]
    assert (form["name"], form["strict"]) == ("Order_1_0", True)
    assert form["schema"] == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "(maxLength: 12)"},
            "signed": {"type": "boolean"},
        },
        "required": ["order_id", "signed"],
        "additionalProperties": False,
    }


async def test_a_schema_without_strict_form_is_sent_unchanged(provider: Any) -> None:
    """Free keys cannot be decoded strictly, so the request does not claim that they are."""
    free = {"type": "object", "properties": {"counts": {"type": "object", "additionalProperties": {"type": "integer"}}}}
    for _ in range(2):
        provider.answer(completion())
    async with model(provider) as tiny, model(provider, strict=False) as lax:
        await tiny.reply(Prompt(messages=PROMPT.messages, schema=free))
        await lax.reply(PROMPT)

    forms = [request["response_format"]["json_schema"] for request in provider.requests]
    assert [form["strict"] for form in forms] == [False, False]
    assert [form["schema"] for form in forms] == [free, SCHEMA]


@pytest.mark.parametrize(
    ("stop", "expected"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "refusal"), ("tool_calls", "other")],
)
async def test_stop_reasons_are_told_apart(provider: Any, stop: str, expected: str) -> None:
    """A cut answer and a refusal are replies, and say what they are."""
    provider.answer(completion('{"order_id": "K', stop=stop))
    async with model(provider) as tiny:
        assert (await tiny.reply(PROMPT)).stop_reason == expected


async def test_a_refusal_is_a_reply_with_its_text(provider: Any) -> None:
    """Strict mode refuses in a field of its own."""
    provider.answer(completion(None, refusal="I will not."))
    async with model(provider) as tiny:
        reply = await tiny.reply(PROMPT)
    assert (reply.stop_reason, reply.text) == ("refusal", "I will not.")


async def test_without_usage_tokens_are_estimated_and_say_so(provider: Any) -> None:
    """A server that counts nothing does not make the cost zero."""
    provider.answer({**completion(), "usage": None})
    async with model(provider) as tiny:
        usage = (await tiny.reply(PROMPT)).usage
    assert usage.estimated
    assert usage.input_tokens > 10


async def test_a_wrong_key_is_an_error_that_does_not_show_it(provider: Any) -> None:
    """Not in the message, the hint or the traceback, even if the server repeats the key."""
    provider.answer({"error": {"message": f"Incorrect API key: {KEY}", "code": "invalid_api_key"}}, status=401)
    async with model(provider) as tiny:
        with pytest.raises(ModelError, match=r"answered 401 \(invalid_api_key\)") as caught:
            await tiny.reply(PROMPT)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(tiny) + tiny.name
    assert KEY not in shown
    assert "OPENAI_API_KEY" in caught.value.hint
    assert caught.value.__cause__ is not None


async def test_a_password_in_the_address_is_not_shown(provider: Any) -> None:
    """User information and query of the URL stay out of every text."""
    url = provider.url.replace("://", "://user:geheim123@")
    provider.answer({"error": {"message": "no", "code": "geheim123"}}, status=404)
    tiny = OpenAIModel("tiny", base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    with pytest.raises(ModelError) as caught:
        await tiny.reply(PROMPT)
    await tiny.aclose()
    assert "geheim123" not in "".join(traceback.format_exception(caught.value)) + str(caught.value.as_dict())
    assert provider.url in caught.value.hint


@pytest.mark.parametrize(
    ("status", "error", "hint"),
    [
        (500, {"message": "boom"}, "try again later"),
        (429, {"message": "slow", "code": "rate_limit_exceeded"}, "run fewer steps at once"),
        (400, {"message": "9000 tokens", "code": "context_length_exceeded"}, "hand on less"),
        (400, {"message": "the customer wrote: 坏了", "code": "invalid_value", "param": "schema"}, "check the schema"),
    ],
)
async def test_each_failure_says_what_to_do(provider: Any, status: int, error: dict[str, str], hint: str) -> None:
    """The text of the provider, which may quote the prompt, is left to the cause."""
    provider.answer({"error": error}, status=status)
    async with model(provider) as tiny:
        with pytest.raises(ModelError, match=str(status)) as caught:
            await tiny.reply(PROMPT)
    assert hint in caught.value.hint
    assert error["message"] not in str(caught.value)


async def test_half_an_answer_is_a_model_error(provider: Any) -> None:
    """Cut JSON, a connection that ends early, and an answer of another API."""
    whole = b'{"id": "c-1", "choices": [{"index": 0, "message": {"content": "x'
    provider.answer(whole)
    provider.answer(whole, length=len(whole) + 100)
    provider.answer({"error": {"message": "no such route"}})
    provider.answer({"choices": []})
    provider.answer(b'"pong"')
    async with model(provider) as tiny:
        for _ in range(5):
            with pytest.raises(ModelError):
                await tiny.reply(PROMPT)


async def test_no_answer_in_time_is_a_model_error(provider: Any) -> None:
    """The timeout of the model, not of the machine."""
    provider.stay_silent()
    async with model(provider, timeout=0.05) as tiny:
        with pytest.raises(ModelError, match="did not answer in time"):
            await tiny.reply(PROMPT)


async def test_nobody_at_the_address_is_a_model_error(provider: Any) -> None:
    """Another port of this machine, where nothing listens once the provider is gone."""
    async with model(provider) as tiny:
        provider._server.server_close()
        with pytest.raises(ModelError, match="cannot be reached at http://127"):
            await tiny.reply(PROMPT)


async def test_cancelling_passes_through(provider: Any) -> None:
    """A step that is cancelled is not a failed model."""
    provider.stay_silent()
    async with model(provider) as tiny:
        call = asyncio.create_task(tiny.reply(PROMPT))
        await asyncio.to_thread(provider.asked.wait)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


def test_one_model_serves_several_event_loops(provider: Any) -> None:
    """A model made at the top of a module works in the second `asyncio.run` too."""
    provider.answer(completion())
    provider.answer(completion())
    tiny = OpenAIModel("tiny", base_url=provider.url, api_key=KEY)

    async def ask() -> str:
        reply = await tiny.reply(PROMPT)
        await tiny.aclose()
        return reply.text

    assert asyncio.run(ask()) == asyncio.run(ask())


class TestKeys:
    """Which key goes where."""

    @pytest.fixture(autouse=True)
    def _key_of_the_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)

    async def test_the_key_of_the_environment_is_not_sent_to_another_host(self, provider: Any) -> None:
        """It was made for OpenAI, or for `OPENAI_BASE_URL`."""
        provider.answer(completion())
        async with model(provider, api_key=None) as tiny:
            await tiny.reply(PROMPT)
        assert KEY not in str(provider.headers)

    async def test_key_and_address_of_the_environment_belong_together(
        self, provider: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A gateway is set up with both variables, as for the official client."""
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        provider.answer(completion())
        tiny = OpenAIModel("tiny")
        await tiny.reply(PROMPT)
        await tiny.aclose()
        assert provider.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_a_client_of_your_own_is_used_as_it_is(provider: Any) -> None:
    """Its key and address count, and it stays open."""
    from openai import AsyncOpenAI

    provider.answer(completion())
    async with AsyncOpenAI(api_key="their-own-key", base_url=provider.url, max_retries=0) as client:
        await OpenAIModel("tiny", client=client).reply(PROMPT)
        assert not client.is_closed()
        with pytest.raises(SetupError, match="also base_url"):
            OpenAIModel("tiny", client=client, base_url=provider.url)
    assert provider.headers[0]["authorization"] == "Bearer their-own-key"


def test_no_key_at_all_is_an_error_of_the_setup() -> None:
    """Found where the model is made, not in the first step that asks it."""
    with pytest.raises(SetupError, match="set OPENAI_API_KEY"):
        OpenAIModel("tiny")
