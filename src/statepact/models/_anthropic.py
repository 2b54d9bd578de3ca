"""Claude models behind the Anthropic messages API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from statepact.errors import MissingExtra, ModelError, SetupError

from ._base import Prompt, Reply, StopReason, Usage, estimate_tokens
from ._provider import PerLoop, connect, failure, key_for, secrets_of, shown_url
from ._schema import strict_form

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import Message as Answer

_STOP: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicModel:
    """A Claude model, through the official client.

    Key and address come from the environment (`ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`) unless
    they are given; with a `base_url` of your own give `api_key` too, the key in the environment is
    not sent to another host. `timeout` is in seconds for each attempt, of which there are at most
    `1 + max_retries`. The API always wants a limit of output tokens: `max_tokens` is used where
    the prompt has none. A `client` that you made is used as it is.

    A prompt's temperature is not sent: the API of this client refuses sampling parameters. System
    messages are moved to the front, where the API has its place for them, and `Reply.sent` has
    them there. A schema goes out as `output_config.format`; one that has no strict form (free
    keys, values of any type) is written into the system prompt instead.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60,
        max_retries: int = 2,
        max_tokens: int = 4096,
        client: AsyncAnthropic | None = None,
    ) -> None:
        try:
            import anthropic
        except ImportError as error:
            raise MissingExtra("AnthropicModel", extra="anthropic") from error
        if client is not None and (base_url is not None or api_key is not None):
            raise SetupError(
                "AnthropicModel got a client and also base_url= or api_key=",
                hint="give the client its address and key, or leave client= out",
            )
        self._sdk: Any = anthropic
        self._model = name
        self._max_tokens = max_tokens
        self._clients: PerLoop[AsyncAnthropic] | None = None
        if client is None:
            key = key_for(api_key, base_url)
            self._clients = connect(
                lambda: anthropic.AsyncAnthropic(
                    api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries
                ),
                model=self.name,
                key_name="ANTHROPIC_API_KEY",
                secrets=secrets_of(api_key, base_url),
            )
        self._given = client

    @property
    def name(self) -> str:
        """`anthropic/` and the name of the model."""
        return f"anthropic/{self._model}"

    def __repr__(self) -> str:
        return f"AnthropicModel({self._model!r})"

    async def reply(self, prompt: Prompt) -> Reply:
        """Answer one prompt; every failure of the provider is a `ModelError`."""
        client = self._given or (self._clients.get() if self._clients else None)
        assert client is not None  # one of the two was set
        request, sent = self._request(prompt)
        try:
            answer: Answer = await client.messages.create(**request)
        except Exception as error:
            secrets = secrets_of(client.api_key, client.base_url)
            raise failure(
                error,
                sdk=self._sdk,
                model=self.name,
                url=client.base_url,
                key_name="ANTHROPIC_API_KEY",
                secrets=secrets,
            ) from error
        return self._read(answer, prompt, sent, client.base_url)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a `client` that was passed in stays open."""
        if self._clients is not None:
            await self._clients.close()

    def _request(self, prompt: Prompt) -> tuple[dict[str, Any], str]:
        system = [message.content for message in prompt.messages if message.role == "system"]
        turns = [message for message in prompt.messages if message.role != "system"]
        sent = "\n".join([*system, *(message.content for message in turns)])
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_tokens if prompt.max_tokens is None else prompt.max_tokens,
            "messages": [{"role": message.role, "content": message.content} for message in turns],
        }
        if prompt.schema is not None:
            form = strict_form(prompt.schema, every_field=False)
            if form is not None:
                schema = self._sdk.transform_schema(form)
                request["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
            else:
                # Not part of `sent`: a value that stands only in the schema was not delivered.
                written = json.dumps(dict(prompt.schema), ensure_ascii=False)
                system.append(f"Answer with one JSON object that fits this JSON Schema, and nothing else:\n{written}")
        if system:
            request["system"] = "\n\n".join(system)
        return request, sent

    def _read(self, answer: Answer, prompt: Prompt, sent: str, url: object) -> Reply:
        # The client does not validate what it receives, so a wrong server shows up here.
        blocks = getattr(answer, "content", None)
        if not isinstance(blocks, list):
            raise ModelError(
                f"{self.name} answered without a message",
                hint=f"check that {shown_url(url)} is the address of an Anthropic messages API",
            )
        text = "".join(block.text for block in blocks if block.type == "text")
        return Reply(
            text=text,
            sent=sent,
            stop_reason=_STOP.get(str(answer.stop_reason), "other"),
            usage=_usage(answer, prompt, text),
            model=str(getattr(answer, "model", None) or self._model),
        )


def _usage(answer: Answer, prompt: Prompt, text: str) -> Usage:
    usage = getattr(answer, "usage", None)
    if usage is None or not isinstance(getattr(usage, "input_tokens", None), int):
        return Usage(input_tokens=estimate_tokens(prompt.text), output_tokens=estimate_tokens(text))
    # The API counts tokens that were read from or written to its cache apart from the others.
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return Usage(input_tokens=usage.input_tokens + cached, output_tokens=int(usage.output_tokens or 0), estimated=False)
