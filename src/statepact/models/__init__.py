"""Language models behind one small protocol, and the offline ones that tests and demos use.

Nothing here is imported before its name is used, so a project without the `openai` or
`anthropic` package never notices that those clients exist.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._anthropic import AnthropicModel
    from ._base import Message, Model, Prompt, Reply, StopReason, Usage, estimate_tokens
    from ._calls import OnceModel
    from ._local import LocalModel, LocalReply
    from ._names import model_from_name
    from ._openai import OpenAIModel
    from ._recorded import RecordedModel
    from ._scripted import AnswersModel, ScriptedModel

__all__ = [
    "AnswersModel",
    "AnthropicModel",
    "LocalModel",
    "LocalReply",
    "Message",
    "Model",
    "OnceModel",
    "OpenAIModel",
    "Prompt",
    "RecordedModel",
    "Reply",
    "ScriptedModel",
    "StopReason",
    "Usage",
    "estimate_tokens",
    "model_from_name",
]

_HOME = {
    "AnswersModel": "_scripted",
    "AnthropicModel": "_anthropic",
    "LocalModel": "_local",
    "LocalReply": "_local",
    "OnceModel": "_calls",
    "OpenAIModel": "_openai",
    "RecordedModel": "_recorded",
    "ScriptedModel": "_scripted",
    "model_from_name": "_names",
}


# Type checkers see the imports above; with a `__getattr__` they would believe in any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOME.get(name, '_base')}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
