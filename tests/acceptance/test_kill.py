"""`kill -9` of a running `statepact run` loses nothing that was acknowledged and does nothing twice."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from acceptance.conftest import environment

from statepact import open_store
from statepact.ledger import session_key
from statepact.ledger._header import Kind
from statepact.stores._open_log import OpenLog

KILLS = 50
LINES = 400


def test_every_acknowledged_fact_survives_fifty_kills(tmp_path: Path) -> None:
    """A separate file knows what was acknowledged; after fifty kills all of it is there, once."""
    requests = tmp_path / "requests.jsonl"
    requests.write_text("\n".join(json.dumps(f"KX-{n:05d} {n * 7}") for n in range(LINES)))
    acks = tmp_path / "acks.tsv"
    acks.touch()
    printed: dict[str, dict[str, object]] = {}
    rng = random.Random(20261130)

    for _ in range(KILLS):
        printed |= _run_and_kill(tmp_path, acks, after=rng.randrange(9))
    printed |= _run_and_kill(tmp_path, acks, after=None)

    assert len(printed) == LINES, "the last, undisturbed run finishes every line"
    seen = asyncio.run(_stored(tmp_path / "state.db", [str(record["session"]) for record in printed.values()]))
    for run, record in printed.items():
        assert seen.values[run, "Payment"] == record["outputs"]["Payment"][0], "what was printed is what is stored"
    acknowledged = [line.split("\t") for line in acks.read_text().splitlines()]
    assert len(acknowledged) > LINES
    for run, contract, text in acknowledged:
        value = seen.values[run, contract]
        assert text == (f"{value['order_id']} {value['cents']}" if contract == "Claim" else str(value["granted"]))
    assert set(seen.commits.values()) == {1}, "no step of any run has two results"


def _run_and_kill(folder: Path, acks: Path, *, after: int | None) -> dict[str, dict[str, object]]:
    """Start the command, kill it after so many result lines (`None`: let it finish), return the results."""
    child = subprocess.Popen(
        [sys.executable, "-m", "statepact", "run", "refund_flow:flow", "--input", "requests.jsonl",
         "--store", "sqlite:///state.db", "--json"],
        cwd=folder, env=environment(STATEPACT_TEST_ACKS=str(acks)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    results: dict[str, dict[str, object]] = {}
    new = 0
    for raw in child.stdout:
        if not raw.endswith(b"\n"):
            break  # torn by the kill: not acknowledged
        record = json.loads(raw)
        if "id" in record:
            assert record["status"] == "done", record
            results[record["id"]] = record
            new += 1
        if after is not None and new > after:
            child.kill()
            break
    child.stdout.close()
    errors = child.stderr.read().decode()
    child.stderr.close()
    assert child.wait() == (0 if after is None else -9), errors
    return results


class _Seen:
    def __init__(self) -> None:
        self.values: dict[tuple[str, str], dict[str, object]] = {}
        self.commits: Counter[tuple[str, str, str]] = Counter()


async def _stored(path: Path, sessions: list[str]) -> _Seen:
    seen = _Seen()
    async with open_store(f"sqlite:///{path}") as store:
        for session in sessions:
            log = await OpenLog.open(store, session_key("local", session))
            for run in log.log.runs:
                for entry in (await log.view(run)).entries:
                    if entry.kind is Kind.COMMIT:
                        seen.commits[run, entry.step, entry.branch] += 1
                        for cell in entry.cells:
                            seen.values[run, cell.contract.name] = dict(cell.values)
    return seen
