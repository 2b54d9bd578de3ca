"""What the library asks of a language model, whoever makes it.

A model is anything with `async reply(prompt) -> Reply`. The reply says what was really sent,
because that, and not what we meant to send, is what delivery is measured on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

StopReason = Literal["stop", "length", "refusal", "other"]
"""Why the model stopped: it was done, the token limit cut it, it refused, or something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a step asks a model: messages, and the shape that the answer must have."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer, or `None` for free text."""

    schema_name: str = "answer"
    max_tokens: int | None = None
    """Most tokens of the answer; `None` leaves it to the model."""

    temperature: float | None = None
    """`None` leaves it to the model."""

    @property
    def text(self) -> str:
        """All message contents in order, as one string."""
        return "\n".join(message.content for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call."""

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = True
    """True if the provider reported nothing and the counts come from `estimate_tokens`."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back, and what had been sent for it."""

    text: str
    sent: str
    """The text that reached the model: the contents of the messages as the client passed them on,
    after anything it cut or rewrote."""

    stop_reason: StopReason = "stop"
    parsed: Mapping[str, Any] | None = None
    """The answer as the provider parsed it, if it did; `None` means only `text` is known."""

    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """Name of the model that answered, as the provider gives it."""


@runtime_checkable
class Model(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """Short name for reports, such as `local/smollm2`. Never holds a key or a URL password."""
        ...

    async def reply(self, prompt: Prompt) -> Reply:
        """Answer one prompt.

        Raises `ModelError` if the provider fails; a refusal or a cut answer is a `Reply`.
        """
        ...


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a text has, without a tokenizer.

    Latin text counts about four bytes a token and CJK about one token a character, which is on
    the high side for current vocabularies. It is an estimate and every figure made from it says so.
    """
    ascii_bytes = len(text.encode("ascii", "ignore"))
    other_characters = len(text) - ascii_bytes
    return (ascii_bytes + 3) // 4 + other_characters
