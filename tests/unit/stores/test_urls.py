"""Store URLs: what they open, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from statepact.errors import SetupError
from statepact.stores import MemoryStore, SqliteStore, open_store


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///state.db", "state.db"),
        ("sqlite:///data/state.db", "data/state.db"),
        ("sqlite:////var/lib/app/state.db", "/var/lib/app/state.db"),
        ("sqlite:////tmp/my%20state.db", "/tmp/my state.db"),
        ("sqlite:///状态.db", "状态.db"),
    ],
)
def test_three_slashes_are_relative_and_four_absolute(url: str, path: str) -> None:
    """The path is what follows the third slash."""
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    assert store.path == Path(path)


def test_memory() -> None:
    """The store that nothing survives has a URL too."""
    assert isinstance(open_store("memory:"), MemoryStore)


def test_options_follow_a_question_mark() -> None:
    """Durability, lock timeout and read-only, and the default is the strongest promise."""
    store = open_store("sqlite:///state.db?durability=process&lock_timeout=0.5&read_only=1")
    assert isinstance(store, SqliteStore)
    assert (store.durability, store._lock_timeout, store._read_only) == ("process", 0.5, True)
    assert open_store("sqlite:///state.db").promise == "survives a power cut"


@pytest.mark.parametrize(
    "url",
    [
        *("", "state.db", "/var/state.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite://state.db", "postgres://h/d"),
        *("sqlite:///s.db?durability=none", "sqlite:///s.db?lock_timeout=soon", "sqlite:///s.db?colour=red"),
        *("memory:?durability=power", "sqlite:///s.db?durability=", "redis://:hunter2@h/0"),
    ],
)
def test_anything_else_is_refused_without_repeating_a_password(url: str) -> None:
    """A URL that is not understood opens nothing, least of all something else."""
    with pytest.raises(SetupError) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)
