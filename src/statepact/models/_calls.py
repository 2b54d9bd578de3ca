"""Identical prompts: how they are recognised, and a wrapper that asks each of them once."""

from __future__ import annotations

import asyncio
import hashlib
import json
from weakref import WeakValueDictionary

from ._base import Model, Prompt, Reply, Usage


def prompt_digest(prompt: Prompt) -> str:
    """Return the sha256 of what decides the answer: messages, schema, token limit and temperature."""
    canonical = json.dumps(
        {
            "messages": [[message.role, message.content] for message in prompt.messages],
            "schema": prompt.schema,
            "max_tokens": prompt.max_tokens,
            "temperature": None if prompt.temperature is None else float(prompt.temperature),
        },
        sort_keys=True,
        ensure_ascii=True,
        separators=(",", ":"),
        default=dict,
    )
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class Turns:
    """One lock for each key, so that identical prompts that arrive together are asked once.

    A lock and not a shared task: if the first caller is cancelled or fails, the next one asks.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Lock:
        """Return the lock of a key; it lives as long as somebody holds or awaits it."""
        return self._locks.setdefault(key, asyncio.Lock())


class OnceModel:
    """Asks another model each prompt once in this process, and gives the same reply from then on.

    For benchmarks and demos that render the same prompt in several runs. A prompt with a
    temperature above 0 asks for chance and goes to the model every time; errors are not kept. A
    reused reply has the usage of the call that made it, what was really spent is in `usage`.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._turns = Turns()
        self._replies: dict[str, Reply] = {}
        self.calls = 0
        """Prompts that the model answered."""
        self.reused = 0
        """Prompts that were answered from memory."""
        self.usage = Usage(estimated=False)
        """Tokens of the calls, without the reused ones."""

    @property
    def name(self) -> str:
        """The name of the model that is asked."""
        return self._model.name

    def __repr__(self) -> str:
        return f"OnceModel({self._model!r})"

    async def reply(self, prompt: Prompt) -> Reply:
        """Answer one prompt, from memory if it was asked before."""
        if prompt.temperature:
            return await self._ask(prompt)
        key = prompt_digest(prompt)
        async with self._turns.of(key):
            known = self._replies.get(key)
            if known is not None:
                self.reused += 1
                return known
            reply = self._replies[key] = await self._ask(prompt)
            return reply

    async def _ask(self, prompt: Prompt) -> Reply:
        reply = await self._model.reply(prompt)
        self.calls += 1
        self.usage += reply.usage
        return reply
