"""Models by name, for the command line."""

from __future__ import annotations

from statepact.errors import SetupError

from ._base import Model

CHOICES = "local, scripted, openai:NAME, anthropic:NAME or recorded:FILE"


def model_from_name(text: str, *, base_url: str | None = None, timeout: float = 60) -> Model:
    """Return the model that a name such as `local`, `openai:gpt-5` or `recorded:calls.jsonl` stands for.

    `base_url` and `timeout` are for the models behind an API; keys come from the environment.
    Raises `SetupError` with the choices for anything else.
    """
    kind, _, rest = text.strip().partition(":")
    if base_url is not None and kind not in ("openai", "anthropic"):
        raise SetupError("a base_url is for models behind an API", hint="use it with openai:NAME or anthropic:NAME")
    match kind, rest:
        case "local", "":
            from ._local import LocalModel

            return LocalModel()
        case "scripted", "":
            from ._scripted import ScriptedModel

            return ScriptedModel()
        case "openai", name if name:
            from ._openai import OpenAIModel

            return OpenAIModel(name, base_url=base_url, timeout=timeout)
        case "anthropic", name if name:
            from ._anthropic import AnthropicModel

            return AnthropicModel(name, base_url=base_url, timeout=timeout)
        case "recorded", file if file:
            from ._recorded import RecordedModel

            return RecordedModel(file)
        case (("openai" | "anthropic" | "recorded"), _):
            raise SetupError(f"the model {kind}: lacks its name or file", hint=f"the choices are {CHOICES}")
        case _:
            # Only the part before the colon is shown: people paste keys into the wrong place.
            raise SetupError(f"there is no model {kind[:30]!r}", hint=f"the choices are {CHOICES}")
