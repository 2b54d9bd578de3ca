"""`statepact run`, `show` and `verify` as a user sees them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from acceptance.conftest import Statepact, environment


def test_each_line_gets_a_result_and_the_file_a_summary(statepact: Statepact, tmp_path: Path) -> None:
    """Two requests, two result lines, one summary; the ledger of each can be shown and verified."""
    (tmp_path / "in.jsonl").write_text('"KX-1 100"\n{"id": "double-click", "session": "s-1", "request": "KX-2 200"}\n')

    done = statepact("run", "refund_flow:flow", "--input", "in.jsonl")

    assert done.returncode == 0, done.stderr
    assert "2 done · 0 failed · 0 unreadable" in done.stdout
    shown = statepact("show", "s-1")
    assert shown.returncode == 0, shown.stderr
    assert "Claim.order_id" in shown.stdout
    assert "✓ proven" in shown.stdout
    checked = statepact("verify", "s-1", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["ok"] is True


def test_the_same_file_again_repeats_nothing(statepact: Statepact, tmp_path: Path) -> None:
    """Running the same file twice answers from the store."""
    (tmp_path / "in.jsonl").write_text('"KX-1 100"\n"KX-2 200"\n')

    first = statepact("run", "refund_flow:flow", "--input", "in.jsonl", "--json")
    second = statepact("run", "refund_flow:flow", "--input", "in.jsonl", "--json")

    outputs = [[json.loads(line).get("outputs") for line in run.stdout.splitlines()] for run in (first, second)]
    assert sorted(map(str, outputs[0])) == sorted(map(str, outputs[1]))
    assert json.loads(second.stdout.splitlines()[-1])["summary"]["stored"] == 2


def test_a_bad_line_is_reported_with_its_number_and_the_rest_runs(statepact: Statepact, tmp_path: Path) -> None:
    """Half JSON, an empty request, a wrong type and a failing request are four reports beside one result."""
    lines = ['{"request": "KX-1', '"   "', '{"request": 7}', '"no-number-here"', '"KX-5 100"', '"\\ud83d 5"']
    (tmp_path / "in.jsonl").write_text("\n".join(lines))

    done = statepact("run", "refund_flow:flow", "--input", "in.jsonl", "--json")

    records = [json.loads(line) for line in done.stdout.splitlines()]
    status = {record["line"]: record["status"] for record in records if "line" in record}
    assert status[1] == status[2] == status[3] == "unreadable"
    assert status[4] == "failed"
    assert status[5] == "done"
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_a_request_of_two_megabytes_is_refused_with_what_to_do(statepact: Statepact, tmp_path: Path) -> None:
    """A request over the cap is a clear error of its line; the next line runs."""
    (tmp_path / "in.jsonl").write_text(json.dumps("x" * 2_000_000) + '\n"KX-5 100"\n')

    done = statepact("run", "refund_flow:flow", "--input", "in.jsonl")

    assert "1,000,000 is the most" in done.stdout
    assert "1 done · 1 failed" in done.stdout


def test_loss_above_the_bound_is_exit_code_one(statepact: Statepact, tmp_path: Path) -> None:
    """The amount is not pinned and pay restates the order, so nothing is lost; a bound of 0 holds."""
    (tmp_path / "in.jsonl").write_text('"KX-1 100"\n')

    assert statepact("run", "refund_flow:flow", "--input", "in.jsonl", "--max-loss", "0").returncode == 0


def test_wrong_use_is_exit_code_two_and_says_what_to_do(statepact: Statepact, tmp_path: Path) -> None:
    """Each wrong call names the fault and the way out, without a traceback."""
    (tmp_path / "in.jsonl").write_text('"KX-1 100"\n')
    calls = [
        (("run", "refund_flow", "--input", "in.jsonl"), "package.module:name"),
        (("run", "refund_flow:nothing", "--input", "in.jsonl"), "it has: flow"),
        (("run", "no_such_module:flow", "--input", "in.jsonl"), "cannot be found"),
        (("run", "refund_flow:flow", "--input", "missing.jsonl"), "there is no file"),
        (("run", "refund_flow:flow", "--input", "in.jsonl", "--store", "mysql://root:hunter2@db/x"), "use one of"),
        (("run", "refund_flow:flow", "--input", "in.jsonl", "--model", "gpt-9"), "the choices are"),
        (("demo", "--lang", "fr"), "is not one of"),
        (("demo", "--data", "nowhere"), "→"),
        (("demo", "--cases", "0"), "cases"),
    ]
    for arguments, text in calls:
        done = statepact(*arguments)
        assert done.returncode == 2, (arguments, done.stdout, done.stderr)
        assert text in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert "hunter2" not in done.stdout + done.stderr


def test_nothing_readable_is_exit_code_three(statepact: Statepact, tmp_path: Path) -> None:
    """A missing file, a file that is no database, another program's database and an unknown session."""
    (tmp_path / "noise.db").write_bytes(b"not a database" * 400)
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("create table theirs(id integer)")
    (tmp_path / "in.jsonl").write_text('"KX-1 100"\n')
    assert statepact("run", "refund_flow:flow", "--input", "in.jsonl").returncode == 0

    for command in ("show", "verify"):
        for store in ("missing.db", "noise.db", "other.db", "statepact.db"):
            done = statepact(command, "no-such-session", "--store", f"sqlite:///{store}")
            assert done.returncode == 3, (command, store, done.stdout, done.stderr)
            assert "→" in done.stderr
            assert "Traceback" not in done.stderr
    assert not (tmp_path / "missing.db").exists(), "looking for a session creates nothing"


def test_an_edited_byte_is_found_and_named(statepact: Statepact, tmp_path: Path) -> None:
    """`verify` exits 1 and names the entry; an edit that keeps the file readable is the dangerous one."""
    (tmp_path / "in.jsonl").write_text('{"id": "r", "request": "KX-1 100"}\n')
    assert statepact("run", "refund_flow:flow", "--input", "in.jsonl").returncode == 0
    with closing(sqlite3.connect(tmp_path / "statepact.db")) as db, db:
        db.execute("update entry set payload = replace(cast(payload as text), '100', '900') where revision = 2")

    done = statepact("verify", "r")

    assert done.returncode == 1
    assert "revision 2" in done.stdout


def test_the_traceback_is_there_for_those_who_ask(statepact: Statepact) -> None:
    """`--debug` shows where an error was raised."""
    assert "Traceback" in statepact("show", "s-1", "--store", "sqlite:///none.db", "--debug").stderr


def test_help_loads_nothing_of_the_library(tmp_path: Path) -> None:
    """Help is what people wait for most often, so it must not pay for Pydantic, asyncio or a store."""
    program = (
        "import sys, contextlib\n"
        "from statepact.cli._app import app\n"
        "with contextlib.suppress(SystemExit): app(['--help'])\n"
        "heavy = {'pydantic', 'asyncio', 'sqlite3', 'orjson', 'rich', 'statepact.workflow', 'statepact.contracts'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )

    done = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True)

    assert "loaded: []" in done.stdout, done.stdout + done.stderr
