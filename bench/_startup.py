"""How long a program takes before it does anything."""

import subprocess
import sys
from collections.abc import Callable
from time import perf_counter

from bench._report import Report
from bench._timing import best

_EMPTY = ""
_OURS = """
from statepact import Contract, Workflow
class Order(Contract, version="1.0"):
    order_id: str
    signed: bool
"""
_PYDANTIC = """
from pydantic import BaseModel
class Order(BaseModel):
    order_id: str
    signed: bool
"""
_LONGEST_HELP = 300


def startup(report: Report, rounds: int) -> None:
    """Measure imports net of Python itself, and the command line's help."""
    report.title("start, each in a process of its own")
    times = best({"python": _program(_EMPTY), "ours": _program(_OURS), "pydantic": _program(_PYDANTIC)}, rounds)
    bare = times["python"]
    report.add("bare Python", bare * 1e3, "ms")
    ours, plain = (times["ours"] - bare) * 1e3, (times["pydantic"] - bare) * 1e3
    report.add("BaseModel and one model, net", plain, "ms")
    report.add("Contract, Workflow and one contract, net", ours, "ms", against="BaseModel", base=plain, aim="<= 1.5")
    command = [sys.executable, "-m", "statepact", "--help"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        report.missing("statepact --help", "there is no command line yet")
        return
    wall = best({"help": _timed(command)}, rounds)["help"] * 1e3
    report.add("statepact --help", wall, "ms", against=f"{_LONGEST_HELP} ms", base=_LONGEST_HELP, aim="<= 1")


def _program(text: str) -> Callable[[], float]:
    return _timed([sys.executable, "-c", text])


def _timed(command: list[str]) -> Callable[[], float]:
    def run() -> float:
        start = perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return perf_counter() - start

    return run
