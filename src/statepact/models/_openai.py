"""Models behind the OpenAI chat completions API, at OpenAI or at any server that speaks it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from statepact.errors import MissingExtra, ModelError, SetupError

from ._base import Prompt, Reply, StopReason, Usage, estimate_tokens
from ._provider import PerLoop, connect, failure, key_for, secrets_of, shown_url
from ._schema import strict_form

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

_STOP: dict[str, StopReason] = {"stop": "stop", "length": "length", "content_filter": "refusal"}
_OPENAI_HOSTS = ("openai.com", "openai.azure.com")


class OpenAIModel:
    """A chat model of OpenAI, or of any server with the same API (`base_url`).

    Without `base_url` key and address come from `OPENAI_API_KEY` and `OPENAI_BASE_URL`. With a
    `base_url` of your own give `api_key` too if the server wants one: the key in the environment
    is not sent to another host. `timeout` is in seconds for each attempt, of which there are at
    most `1 + max_retries`. A `client` that you made is used as it is.

    A schema is sent as `response_format` with strict decoding. Strict schemas know fewer
    constraints, so lengths and the like are moved into descriptions, and what has no strict form
    (free keys, values of any type) is sent unchanged and not strict. `strict=False` sends every
    schema unchanged, for servers whose decoding knows more, such as llama.cpp.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60,
        max_retries: int = 2,
        strict: bool = True,
        client: AsyncOpenAI | None = None,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtra("OpenAIModel", extra="openai") from error
        if client is not None and (base_url is not None or api_key is not None):
            raise SetupError(
                "OpenAIModel got a client and also base_url= or api_key=",
                hint="give the client its address and key, or leave client= out",
            )
        self._sdk: Any = openai
        self._model = name
        self._strict = strict
        self._clients: PerLoop[AsyncOpenAI] | None = None
        if client is None:
            key = key_for(api_key, base_url)
            self._clients = connect(
                lambda: openai.AsyncOpenAI(api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries),
                model=self.name,
                key_name="OPENAI_API_KEY",
                secrets=secrets_of(api_key, base_url),
            )
        self._given = client

    @property
    def name(self) -> str:
        """`openai/` and the name of the model."""
        return f"openai/{self._model}"

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r})"

    async def reply(self, prompt: Prompt) -> Reply:
        """Answer one prompt; every failure of the provider is a `ModelError`."""
        client = self._given or (self._clients.get() if self._clients else None)
        assert client is not None  # one of the two was set
        request = self._request(prompt, client.base_url)
        try:
            completion: ChatCompletion = await client.chat.completions.create(**request)
        except Exception as error:
            secrets = secrets_of(client.api_key, client.base_url)
            raise failure(
                error, sdk=self._sdk, model=self.name, url=client.base_url, key_name="OPENAI_API_KEY", secrets=secrets
            ) from error
        return self._read(completion, prompt, client.base_url)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a `client` that was passed in stays open."""
        if self._clients is not None:
            await self._clients.close()

    def _request(self, prompt: Prompt, url: object) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
        }
        if prompt.temperature is not None:
            request["temperature"] = prompt.temperature
        if prompt.max_tokens is not None:
            # OpenAI's newer models refuse `max_tokens`; many compatible servers know nothing else.
            host = urlsplit(str(url)).hostname or ""
            theirs = any(host == known or host.endswith(f".{known}") for known in _OPENAI_HOSTS)
            request["max_completion_tokens" if theirs else "max_tokens"] = prompt.max_tokens
        if prompt.schema is not None:
            form = strict_form(prompt.schema) if self._strict else None
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": re.sub(r"[^A-Za-z0-9_-]", "_", prompt.schema_name)[:64] or "answer",
                    "schema": dict(prompt.schema) if form is None else form,
                    "strict": form is not None,
                },
            }
        return request

    def _read(self, completion: ChatCompletion, prompt: Prompt, url: object) -> Reply:
        # The client does not validate: compatible servers answer 200 with an error body, or with HTML.
        choices = getattr(completion, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = getattr(choice, "message", None)
        if choice is None or message is None:
            raise ModelError(
                f"{self.name} answered without a message",
                hint=f"check that {shown_url(url)} is the address of a chat completions API",
            )
        refusal = getattr(message, "refusal", None)
        content = getattr(message, "content", None)
        text = refusal or (content if isinstance(content, str) else "")
        return Reply(
            text=text,
            sent=prompt.text,
            stop_reason="refusal" if refusal else _STOP.get(str(choice.finish_reason), "other"),
            usage=_usage(completion, prompt, text),
            model=str(getattr(completion, "model", None) or self._model),
        )


def _usage(completion: ChatCompletion, prompt: Prompt, text: str) -> Usage:
    usage = getattr(completion, "usage", None)
    if usage is not None and isinstance(getattr(usage, "prompt_tokens", None), int):
        return Usage(input_tokens=usage.prompt_tokens, output_tokens=int(usage.completion_tokens or 0), estimated=False)
    schema = "" if prompt.schema is None else json.dumps(dict(prompt.schema), ensure_ascii=False)
    return Usage(input_tokens=estimate_tokens(prompt.text + schema), output_tokens=estimate_tokens(text))
