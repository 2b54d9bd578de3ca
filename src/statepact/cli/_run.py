"""`statepact run`: a workflow on every line of a file."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pydantic_core import from_json
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from statepact.cli._output import Exit, ExitCode, console, print_json, too_much_loss
from statepact.contracts import Contract, fact_fields, validate_json
from statepact.errors import SetupError, StatepactError, TooLarge
from statepact.ledger._codec import encode
from statepact.loss import MASK
from statepact.models import model_from_name
from statepact.models._base import Model
from statepact.stores import open_store
from statepact.stores._base import Store
from statepact.workflow import Request, Run, Workflow

LARGEST_LINE = 16 * 2**20
"""Most bytes of an input line; a longer one is reported and skipped without being parsed."""


@dataclass(frozen=True, slots=True)
class Line:
    """One readable line of the input."""

    number: int
    id: str
    session: str | None
    request: str | Contract


@dataclass(slots=True)
class Counts:
    """What became of the lines."""

    done: int = 0
    failed: int = 0
    unreadable: int = 0
    stored: int = 0
    too_lossy: int = 0


def run_file(
    *,
    workflow: str,
    path: Path,
    model: str | None,
    store: str,
    cache: str | None,
    owner: str,
    jobs: int,
    max_loss: float | None,
    base_url: str | None,
    as_json: bool,
) -> None:
    """Run the workflow on every line, print a result for each, and exit 1 if any is not well."""
    loaded = load_workflow(workflow)
    loaded.check()
    if not path.is_file():
        raise SetupError(f"there is no file {path}", hint="--input takes a JSON Lines file")
    chosen = model_from_name(model, base_url=base_url) if model else None
    batch = Batch(loaded, owner=owner, model=chosen, max_loss=max_loss, as_json=as_json)
    asyncio.run(batch.run(path, store, jobs, cache=cache))
    batch.summarise()
    counts = batch.counts
    if counts.failed or counts.unreadable or counts.too_lossy:
        raise Exit(ExitCode.NOT_WELL)


def load_workflow(where: str) -> Workflow:
    """Import `package.module:name`; raises `SetupError` if there is no workflow there."""
    module_name, colon, name = where.partition(":")
    if not colon or not module_name or not name:
        raise SetupError(f"{where!r} does not say where the workflow is", hint="write package.module:name")
    sys.path.insert(0, "")  # as `python -m` does, so that a module in the working directory is found
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SetupError(
            f"module {error.name!r} cannot be found", hint="run from the folder that holds it, or install it"
        ) from error
    workflow = getattr(module, name, None)
    if not isinstance(workflow, Workflow):
        found = [key for key, value in vars(module).items() if isinstance(value, Workflow)]
        raise SetupError(
            f"{module_name} has no workflow called {name!r}",
            hint=f"it has: {', '.join(found)}" if found else "make one: Workflow(...)",
        )
    return workflow


class Batch:
    """Runs the lines of a file, a few at a time."""

    def __init__(
        self, workflow: Workflow, *, owner: str, model: Model | None, max_loss: float | None, as_json: bool
    ) -> None:
        self.workflow = workflow
        self.owner = owner
        self.model = model
        self.max_loss = max_loss
        self.as_json = as_json
        self.counts = Counts()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console(stderr=True),
            transient=True,
            disable=as_json or not sys.stderr.isatty(),
        )

    async def run(self, path: Path, store_url: str, jobs: int, *, cache: str | None = None) -> None:
        """Run every line; one that cannot be read or that fails does not stop the others."""
        slots = asyncio.Semaphore(jobs)
        async with open_store(store_url, cache=cache) as store:
            with self._progress as progress:
                bar = progress.add_task(self.workflow.name, total=_count_lines(path))

                async def one(number: int, raw: bytes | None) -> None:
                    try:
                        await self._line(store, number, raw)
                    finally:
                        slots.release()
                        progress.advance(bar)

                async with asyncio.TaskGroup() as group:
                    for number, raw in _lines(path):
                        await slots.acquire()
                        group.create_task(one(number, raw))

    async def _line(self, store: Store, number: int, raw: bytes | None) -> None:
        try:
            line = self._read(number, raw)
        except StatepactError as error:
            self.counts.unreadable += 1
            self._report({"line": number, "status": "unreadable", "problem": error.as_dict()}, str(error))
            return
        try:
            run = await self.workflow.run(
                line.request, ask=self.model, owner=self.owner, session=line.session, id=line.id, store=store
            )
        except StatepactError as error:
            self.counts.failed += 1
            self._report({"line": number, "id": line.id, "status": "failed", "problem": error.as_dict()}, str(error))
            return
        self._result(line, run)

    def _read(self, number: int, raw: bytes | None) -> Line:
        if raw is None:
            raise TooLarge(f"line {number} has more than {LARGEST_LINE:,} bytes", hint="split it; the rest runs")
        try:
            value = from_json(raw)
        except ValueError as error:
            raise SetupError(f"line {number} is not JSON: {error}") from None
        if isinstance(value, str):
            value = {"request": value}
        if not isinstance(value, dict) or "request" not in value:
            raise SetupError(f'line {number} has no "request"', hint='write "text", or {"request": …, "id": …}')
        request = self._request(value["request"], number)
        digest = hashlib.sha256(raw).hexdigest()[:12]
        id = value.get("id", f"line-{number}-{digest}")
        session = value.get("session")
        if not isinstance(id, str) or not isinstance(session, str | None):
            raise SetupError(f'"id" and "session" of line {number} must be strings')
        return Line(number, id, session, request)

    def _request(self, request: Any, number: int) -> str | Contract:
        takes = self.workflow.takes
        if takes is Request:
            if not isinstance(request, str):
                raise SetupError(f"the request of line {number} is not a string, but the workflow takes words")
            if not request.strip():
                raise SetupError(f"the request of line {number} is empty")
            return request
        return validate_json(takes, json.dumps(request), side=f"the request of line {number}")

    def _result(self, line: Line, run: Run) -> None:
        loss = run.loss
        outputs = {
            contract.contract_name: [_masked(value) for value in run.all(contract)]
            for contract in self.workflow.check().results
        }
        stored = sum(step.ending == "stored" for step in run.steps.values())
        self.counts.stored += stored == len(run.steps)
        lossy = too_much_loss(loss.rates, self.max_loss)
        self.counts.too_lossy += lossy
        if run.ok:
            self.counts.done += 1
        else:
            self.counts.failed += 1
        record = {
            "line": line.number,
            "id": run.id,
            "session": run.session,
            "status": run.status,
            "outputs": outputs,
            "degraded": list(run.degraded),
            "problem": run.problem.as_dict() if run.problem else None,
            "rates": loss.rates,
            "losses": [{"fact": x.fact, "form": x.form, "step": x.step, "cause": x.cause} for x in loss.losses],
        }
        self._report(record, f"{run.problem}" if run.problem else str(loss))

    def _report(self, record: dict[str, Any], text: str) -> None:
        if self.as_json:
            print_json(record)
            return
        name = f"line {record['line']}" + (f" · {record['id']}" if "id" in record else "")
        self._progress.console.file.flush()
        click.echo(f"{name} · {record['status']} · {text}")
        sys.stdout.flush()

    def summarise(self) -> None:
        """Print what became of the lines."""
        c = self.counts
        if self.as_json:
            print_json({"summary": {f: getattr(c, f) for f in ("done", "failed", "unreadable", "stored", "too_lossy")}})
            return
        parts = [f"{c.done} done", f"{c.failed} failed", f"{c.unreadable} unreadable"]
        if c.stored:
            parts.append(f"{c.stored} of them answered from the store")
        if c.too_lossy:
            parts.append(f"{c.too_lossy} above --max-loss")
        click.echo(" · ".join(parts))


def _masked(value: Contract) -> dict[str, Any]:
    """A committed output as JSON, for a screen or a log: sensitive values are not in it."""
    shown: dict[str, Any] = from_json(encode(value))
    return {**shown, **{fact.name: MASK for fact in fact_fields(type(value)) if fact.sensitive and fact.name in shown}}


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield the numbered lines that are not blank; `None` for one over the limit."""
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(LARGEST_LINE + 1):
            number += 1
            too_long = len(raw) > LARGEST_LINE
            while too_long and not raw.endswith(b"\n") and (raw := file.readline(LARGEST_LINE)):
                pass
            if too_long or raw.strip():
                yield number, None if too_long else raw


def _count_lines(path: Path) -> int:
    return sum(1 for _ in _lines(path))
