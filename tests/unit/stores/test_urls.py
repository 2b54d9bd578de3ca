"""Store URLs: what they open, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from statepact.errors import SetupError
from statepact.stores import MemoryStore, PostgresStore, SqliteStore, open_store


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
        *("", "state.db", "/var/state.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite://state.db", "mysql://h/d"),
        *("sqlite:///s.db?durability=none", "sqlite:///s.db?lock_timeout=soon", "sqlite:///s.db?colour=red"),
        *("memory:?durability=power", "sqlite:///s.db?durability=", "rodis://:hunter2@h/0"),
        *("postgresql://me:hunter2@[h/d", "postgresql://me:hunter2@h:port/d", "postgresql://h/d?colour=red"),
        *("postgresql://h/d?durability=none", "postgresql://h/d?timeout=soon", "postgresql://h/d?connections=0"),
        *("postgresql://h/d?schema=pg_x", "postgresql://h/d?schema=", f"postgresql://h/d?schema={'x' * 64}"),
        *("postgresql://me:ab@hunter2@h/d", "postgresql://me:12/hunter2@h/d"),
        *("postgresql://h/d?timeout=nan", "postgresql://h/d?timeout=inf", "postgresql://h:hunter2:x@h:1:2/d?%zz=1"),
    ],
)
def test_anything_else_is_refused_without_repeating_a_password(url: str) -> None:
    """A URL that is not understood opens nothing, least of all something else."""
    with pytest.raises(SetupError) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgresql_connects_at_first_use_and_shows_no_password(scheme: str) -> None:
    """Host, database and options are the driver's, and no text about the store holds the password."""
    url = f"{scheme}://me:hunter2@db.example:5433/state?schema=agents&durability=process&timeout=2&sslmode=require"
    store = open_store(url)
    assert isinstance(store, PostgresStore)
    assert "a crash of the database server may lose" in store.promise
    assert repr(store) == "<PostgresStore: PostgreSQL at db.example:5433, database 'state', schema 'agents'>"
