"""`python -m bench` runs and writes what its readers expect. Its times are not looked at here."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIELDS = {"what", "value", "unit", "against", "ratio", "aim", "ok"}


def test_the_quick_bench_writes_its_rows(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    command = [sys.executable, "-m", "bench", "--quick", "--out", str(out), "--disk", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr

    rows = json.loads(out.read_text())
    assert all(set(row) == FIELDS for row in rows)
    judged = [row for row in rows if row["ok"] is not None]
    assert judged
    for row in judged:
        assert row["aim"].split()[0] in ("<=", ">=")
        assert row["ratio"] > 0
        assert row["what"] in done.stdout


def test_records_have_the_size_they_are_measured_by() -> None:
    command = [sys.executable, "-c", _SIZES]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["938", "18700", "True"], done.stderr


_SIZES = """
import orjson
from bench._payload import LARGE, SMALL, Record, values
for size in (SMALL, LARGE):
    print(*{len(orjson.dumps(Record(**values(seed, size)).model_dump())) for seed in range(50)})
print(values(1, SMALL) != values(2, SMALL))
"""
