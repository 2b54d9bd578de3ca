"""Runs the command line as a user does: another process, its output, its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent

Statepact = Callable[..., subprocess.CompletedProcess[str]]


def environment(**more: str) -> dict[str, str]:
    """The environment of a child: it finds the test workflows, and colours nothing."""
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "NO_COLOR": "1", "COLUMNS": "100", **more}


@pytest.fixture
def statepact(tmp_path: Path) -> Statepact:
    """Call `statepact ARGUMENTS` in an empty folder."""

    def call(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "statepact", *arguments],
            cwd=tmp_path,
            env=environment(**more),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )

    return call
