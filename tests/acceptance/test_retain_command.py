"""`statepact retain` as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

from acceptance.conftest import Statepact


def asked(*, count: int, session: str) -> str:
    lines = [
        json.dumps({"id": f"{session}-{number}", "session": session, "request": f"KX-{number} 100"})
        for number in range(count)
    ]
    return "\n".join(lines) + "\n"


def test_a_dry_run_then_the_cut_then_the_same_again(statepact: Statepact, tmp_path: Path) -> None:
    """What would go is said first; what went is gone, what was kept is shown, and the log verifies."""
    (tmp_path / "in.jsonl").write_text(asked(count=3, session="s-1"))
    assert statepact("run", "refund_flow:flow", "--input", "in.jsonl", "--jobs", "1").returncode == 0

    would = statepact("retain", "s-1", "--keep-runs", "1", "--dry-run")
    assert would.returncode == 0, would.stderr
    assert would.stdout.startswith("2 runs would be removed from 1 session")
    done = statepact("retain", "s-1", "--keep-runs", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == 2
    assert json.loads(done.stdout)["scrubbed"] is True

    gone = statepact("show", "s-1", "--run", "s-1-0")
    assert gone.returncode == 3
    assert "older than what is kept" in gone.stderr
    assert statepact("show", "s-1").returncode == 0
    assert statepact("verify", "s-1").returncode == 0
    again = statepact("retain", "s-1", "--keep-runs", "1", "--json")
    assert json.loads(again.stdout)["sessions"] == []
    assert statepact("retain", "s-1", "--keep-runs", "0").returncode == 0
    nothing = statepact("show", "s-1")
    assert nothing.returncode == 3
    assert "all runs of session 's-1' are older than what is kept" in nothing.stderr


def test_sessions_of_a_kind_are_chosen_by_how_their_names_start(statepact: Statepact, tmp_path: Path) -> None:
    """A beginning, not a pattern: `*` is a character like any other."""
    text = asked(count=2, session="support/1") + asked(count=2, session="legal/1")
    (tmp_path / "in.jsonl").write_text(text)
    assert statepact("run", "refund_flow:flow", "--input", "in.jsonl", "--jobs", "1").returncode == 0

    none = statepact("retain", "--starts-with", "s*", "--keep-runs", "0", "--json")
    assert json.loads(none.stdout)["sessions"] == []
    some = statepact("retain", "--starts-with", "support/", "--keep-runs", "0", "--json")
    assert json.loads(some.stdout)["sessions"] == ["support/1"]


def test_what_names_no_rule_or_no_session_is_refused(statepact: Statepact) -> None:
    """Nothing is removed by a typing error: exit 2, with what to write."""
    for words in (
        ("s-1",),
        ("--keep-runs", "1"),
        ("s-1", "--all-sessions", "--keep-runs", "1"),
        ("s-1", "--keep-days", "-1"),
    ):
        done = statepact("retain", *words)
        assert done.returncode == 2, words
        assert "Traceback" not in done.stderr
    assert statepact("retain", "never", "--keep-days", "1").returncode == 3
