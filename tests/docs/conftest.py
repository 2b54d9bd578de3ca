"""How pages are tested: their code runs, in order, and prints what the page says.

- A `python` block is executed; all blocks of a page share their names. One that begins with a
  comment that names a file (`# shop.py`) is also written to that file.
- The `text` block that follows a `python` block which printed something holds what it printed.
- In a `console` block each `$ statepact ...` is run, and what follows is its output, standard error
  included; `$ cat FILE` writes the file that it shows, and `$ echo $?` shows the last exit code.

Everything else (`sh`, diagrams) is for people only. Nothing here needs the network or a key.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sybil.document import Document
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser

ROOT = Path(__file__).resolve().parents[2]

_FILE = re.compile(r"# (?P<name>[\w./-]+\.py)\n")
_PRINTED = "__printed__"


class PageError(AssertionError):
    """A page says something else than what happens."""


def run_python(example: Example) -> None:
    """Execute a block and remember what it printed."""
    source = str(example.parsed)
    if named := _FILE.match(source):
        Path(named["name"]).write_text(source, encoding="utf-8")
    # Empty lines in front, so that a traceback names the line of the page.
    code = compile("\n" * example.line + source, example.path, "exec", dont_inherit=True)
    out = io.StringIO()
    example.namespace.setdefault("__name__", "page")
    with contextlib.redirect_stdout(out):
        exec(code, example.namespace)
    example.namespace[_PRINTED] = out.getvalue()


def check_text(example: Example) -> None:
    """Compare a `text` block with what the block before it printed, if it printed anything."""
    printed = example.namespace.pop(_PRINTED, "")
    if printed:
        _same(example, str(example.parsed), printed)


def run_console(example: Example) -> None:
    """Run the commands of a block and compare their output."""
    example.namespace.pop(_PRINTED, None)
    code = 0
    for part in re.split(r"^\$ ", str(example.parsed), flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        words = shlex.split(command)
        match words:
            case ["cat", name]:
                Path(name).write_text(shown, encoding="utf-8")
            case ["echo", "$?"]:
                _same(example, shown, f"{code}\n")
            case ["statepact", *arguments]:
                done = _statepact(arguments)
                code = done.returncode
                _same(example, shown, done.stdout)
            case _:
                raise PageError(f"{_place(example)}: no rule for the command {command!r}")


def _statepact(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "statepact", *arguments],
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "110", "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def _same(example: Example, shown: str, happened: str) -> None:
    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in text.strip("\n").splitlines()]

    if lines(shown) != lines(happened):
        raise PageError(f"{_place(example)}: the page shows\n{shown}\nbut this happened:\n{happened}")


def _place(example: Example) -> str:
    return f"{os.path.relpath(example.path, ROOT)}:{example.line}"


PARSERS = (
    CodeBlockParser("python", run_python),
    CodeBlockParser("text", check_text),
    CodeBlockParser("console", run_console),
)

RunPage = Callable[[Path], int]


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPage]:
    """Run a page in an empty folder; returns how many blocks of Python it has."""
    # A page's commands are other processes: they find this checkout, and files of the page.
    paths = [str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def run(page: Path) -> int:
        document = Document.parse(str(page), *PARSERS)
        examples: list[Any] = list(document)
        for example in examples:
            example.evaluate()
        return sum(example.region.evaluator is run_python for example in examples)

    yield run

    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]  # the next page may have a file of the same name
