"""`statepact demo`: what it prints is what it measured."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from acceptance.conftest import Statepact

WAYS = {"last", "transcript", "memory", "statepact"}
FIGURES = {
    "needed", "kept", "lost", "replaced", "unreadable", "rate", "interval", "input_tokens", "output_tokens", "seconds",
}  # fmt: skip


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_json_is_one_object_whose_counts_add_up(statepact: Statepact, lang: str) -> None:
    """Each way accounts for every fact: kept, lost or unreadable."""
    done = statepact("demo", "--json", "--lang", lang, "--cases", "4")

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result["ways"]) == WAYS
    assert (result["lang"], result["cases"], result["notes"], result["seed"]) == (lang, 4, 16, 0)
    for way in result["ways"].values():
        assert set(way) == FIGURES
        assert way["kept"] + way["lost"] + way["unreadable"] == way["needed"] == 16
    assert result["ways"]["statepact"]["lost"] == 0
    assert result["ways"]["last"]["lost"] > 0
    assert result["ledger"]["rows"]


def test_without_notes_memory_is_the_transcript(statepact: Statepact) -> None:
    """Nothing is scripted to look good: memory loses only once notes push steps out of its window."""
    result = json.loads(statepact("demo", "--json", "--cases", "3", "--notes", "0").stdout)

    assert result["ways"]["memory"]["lost"] == result["ways"]["transcript"]["lost"] == 0


def test_a_seed_gives_the_same_figures_and_another_one_other_cases(statepact: Statepact) -> None:
    """Cases and notes are drawn by seed."""
    first, again, other = (
        json.loads(statepact("demo", "--json", "--cases", "2", "--seed", seed).stdout) for seed in ("3", "3", "4")
    )

    assert [w["input_tokens"] for w in first["ways"].values()] == [w["input_tokens"] for w in again["ways"].values()]
    assert first["ledger"]["case"] != other["ledger"]["case"] or first["ways"] != other["ways"]


def test_long_corrects_facts_and_outgrows_the_window(statepact: Statepact) -> None:
    """The transcript's oldest lines are dropped, and the result says how many."""
    result = json.loads(statepact("demo", "--json", "--cases", "3", "--long").stdout)

    assert result["dropped_lines"] > 0
    assert result["ways"]["statepact"]["lost"] == 0


def test_the_page_is_one_file_without_requests(statepact: Statepact, tmp_path: Path) -> None:
    """The page holds table and ledger, and refers to nothing outside itself."""
    done = statepact("demo", "--cases", "2", "--html", "page.html")

    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "statepact" in page
    assert "✓ proven" in page
    assert "http" not in page
    assert "<script" not in page


def test_the_retail_set_runs_the_same_way(statepact: Statepact, shared: Path) -> None:
    """Data that nobody here wrote goes through the same workflow."""
    done = statepact("demo", "--json", "--cases", "3", "--data", str(shared / "data" / "tau_retail"))

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ways"]["statepact"]["lost"] == 0


@pytest.mark.localmodel
@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="needs scripts/install-local-model")
def test_a_real_model_forgets_what_it_is_not_given(statepact: Statepact) -> None:
    """With SmolLM2, the previous answer alone loses facts that the governed step keeps."""
    result = json.loads(statepact("demo", "--json", "--model", "local", "--cases", "2", "--notes", "4").stdout)

    assert result["model"].startswith("local/")
    assert result["ways"]["statepact"]["lost"] < result["ways"]["last"]["lost"]
