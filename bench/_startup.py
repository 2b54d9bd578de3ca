"""How long a program takes before it does anything, and what it weighs once it does."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from bench._report import Report
from bench._scenarios import Plan
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


_WORKER = """
import asyncio, sys
from statepact import Contract, Request, Workflow
class Order(Contract):
    order_id: str
workflow = Workflow("worker", store=sys.argv[1])
@workflow.step
async def look_up(request: Request) -> Order:
    return Order(order_id="KX-1")
async def main():
    for number in range(20):
        assert (await workflow.run("Go on.", session="s", id=f"r-{number}")).ok
asyncio.run(main())
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].split()[0])
"""


def memory(report: Report, plan: Plan) -> None:
    """Measure the memory of a worker that has run twenty runs, in a process of its own."""
    report.title("most memory of a bare worker")
    if not Path("/proc/self/status").exists():
        report.missing("memory", "this system does not tell")
        return
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        stores = [("SQLite", f"sqlite:///{folder}/state.db", 45)]
        try:
            from tests._valkey import Server
        except ImportError:
            report.missing("worker, Redis", "not installed: pip install -e '.[test]'")
        else:
            server = Server(Path(folder))
            server.start()
            stack.callback(server.kill)
            stores.append(("Redis", server.url, 55))
        for name, url, limit in stores:
            ended = subprocess.run([sys.executable, "-c", _WORKER, url], check=True, capture_output=True, text=True)
            megabytes = int(ended.stdout) / 1024
            report.add(f"worker, {name}", megabytes, "MB", against=f"{limit} MB", base=limit, aim="<= 1")
