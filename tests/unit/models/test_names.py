"""What the package offers, and models by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import statepact.models
from statepact.errors import MissingExtra, SetupError
from statepact.models import Model, Reply, model_from_name


def test_every_public_name_is_there() -> None:
    """Sorted, loaded on first use, and no other name is invented."""
    assert statepact.models.__all__ == sorted(statepact.models.__all__)
    assert set(statepact.models.__all__) <= set(dir(statepact.models))
    for name in statepact.models.__all__:
        assert getattr(statepact.models, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = statepact.models.Nothing  # type: ignore[attr-defined]


def test_the_clients_are_imported_when_they_are_used() -> None:
    """Importing the package, and naming a model, costs no import of a provider's client."""
    code = (
        "import sys, statepact.models as m; m.OpenAIModel; m.AnthropicModel; m.LocalModel;"
        "sys.exit(bool({'openai', 'anthropic', 'xllamacpp'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_models_have_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the command line takes them."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-anybody")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-for-anybody")
    (tmp_path / "calls.jsonl").touch()
    names = ["scripted", "openai:gpt-x", "anthropic:claude-x", f"recorded:{tmp_path / 'calls.jsonl'}"]

    models = [model_from_name(name) for name in names]

    assert [model.name for model in models] == [
        "scripted",
        "openai/gpt-x",
        "anthropic/claude-x",
        "recorded/calls.jsonl",
    ]
    assert all(isinstance(model, Model) for model in models)
    assert "sk-not" not in repr(models)


@pytest.mark.parametrize("text", ["", "gpt-x", "openai", "openai:", "anthropic:", "recorded:", "scripted:x", "local:x"])
def test_another_name_is_an_error_with_the_choices(text: str) -> None:
    """So that the next try is the right one."""
    with pytest.raises(SetupError) as caught:
        model_from_name(text)
    assert "local, scripted, openai:NAME, anthropic:NAME or recorded:FILE" in caught.value.hint


def test_a_key_in_the_wrong_place_is_not_shown() -> None:
    """Only what stands before the colon is repeated."""
    with pytest.raises(SetupError) as caught:
        model_from_name("open-ai:sk-not-for-anybody")
    assert "sk-not" not in str(caught.value)
    with pytest.raises(SetupError, match="base_url is for models behind an API"):
        model_from_name("scripted", base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    ("package", "model", "hint"),
    [
        ("openai", "openai:gpt-x", "pip install 'statepact[openai]'"),
        ("anthropic", "anthropic:claude-x", "pip install 'statepact[anthropic]'"),
    ],
)
def test_a_missing_client_names_its_extra(monkeypatch: pytest.MonkeyPatch, package: str, model: str, hint: str) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as caught:
        model_from_name(model)
    assert caught.value.hint == hint


def test_a_reply_is_a_value() -> None:
    """It cannot be changed once it is there."""
    with pytest.raises(AttributeError):
        Reply(text="", sent="").text = "x"  # type: ignore[misc]
