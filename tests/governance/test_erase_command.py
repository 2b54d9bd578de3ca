"""`statepact erase` says what is gone, and what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from statepact import Contract, Request, SqliteStore, Workflow
from statepact.cli._app import app

CANARY = "canary-5551234-金丝雀"
WHO = ("--by", "dpo", "--reason", "asked to")


class Customer(Contract, version="1.0"):
    name: str
    phone: str


class Reply(Contract, version="1.0"):
    text: str


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    flow = Workflow("flow", store=SqliteStore(path))

    @flow.step
    def understand(request: Request) -> Customer:
        return Customer(name="Mara", phone=CANARY)

    @flow.step
    def answer(customer: Customer) -> Reply:
        return Reply(text=f"We call you under {customer.phone}")

    for session in ("s-1", "s-2"):
        flow.run_sync("Call me", session=session)
    return path


def command(file: Path, *words: str) -> Result:
    name, *rest = words
    return CliRunner().invoke(app, [name, *rest, "--store", f"sqlite:///{file}"])


def test_a_fact_is_gone_from_the_file_and_the_log_still_verifies(file: Path) -> None:
    """With what was made from it; the other session keeps its own."""
    result = command(file, "erase", "s-1", "--fact", "Customer.phone", *WHO)

    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0] == "2 values erased in 1 session, with 1 output made from them"
    assert command(file, "verify", "s-1").exit_code == 0
    assert CANARY not in command(file, "show", "s-1").output
    assert CANARY in command(file, "show", "s-2").output


def test_all_sessions_of_an_owner_go(file: Path) -> None:
    """Nothing of the value is left in the bytes of the file, nor in the log written beside it."""
    result = command(file, "erase", "--all-sessions", *WHO, "--json")

    assert result.exit_code == 0, result.output
    assert (json.loads(result.output)["sessions"], json.loads(result.output)["scrubbed"]) == (["s-1", "s-2"], True)
    left = b"".join(part.read_bytes() for part in file.parent.iterdir())
    assert CANARY.encode() not in left
    for session in ("s-1", "s-2"):
        assert command(file, "verify", session).exit_code == 0


@pytest.mark.parametrize("words", [(), ("s-1", "--all-sessions")], ids=["neither", "both"])
def test_an_erasure_is_of_one_session_or_of_all(file: Path, words: tuple[str, ...]) -> None:
    """A forgotten name must never mean everything."""
    result = command(file, "erase", *words, *WHO)

    assert result.exit_code == 2
    assert "name a SESSION, or --all-sessions" in result.output
    assert CANARY in command(file, "show", "s-1").output


def test_a_session_that_is_not_there_is_said(file: Path) -> None:
    """Exit 3, as for every command that finds nothing."""
    assert command(file, "erase", "s-9", *WHO).exit_code == 3


def test_a_fact_of_all_sessions_goes(file: Path) -> None:
    """A customer who wants it gone does not know in which sessions it is."""
    result = command(file, "erase", "--all-sessions", "--fact", "Customer.phone", *WHO)

    assert result.output.splitlines()[0] == "4 values erased in 2 sessions, with 2 outputs made from them"


@pytest.mark.parametrize("fact", ["Customer.fone", "Costumer", "Customer.phone@99"])
def test_who_misspells_a_fact_does_not_believe_that_it_is_gone(file: Path, fact: str) -> None:
    """The error says what the session has, in names and never in values."""
    result = command(file, "erase", "s-1", "--fact", fact, *WHO)

    assert result.exit_code == 2
    assert f"'s-1' has no {fact}" in result.output
    assert "Customer (name, phone)" in result.output
    assert CANARY not in result.output


def test_erasing_again_changes_nothing(file: Path) -> None:
    """Who is not sure whether it was done asks once more."""
    for _ in range(2):
        result = command(file, "erase", "s-1", "--fact", "Customer.phone", *WHO)
        assert result.exit_code == 0
    assert result.output.startswith("0 values erased in 0 sessions")
