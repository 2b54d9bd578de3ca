"""How a run begins: what it is asked is its first commit, and the same for everybody who continues it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pydantic_core import from_json

from statepact.contracts import Contract
from statepact.errors import (
    StepIdReused,
)
from statepact.ledger import REQUEST_STEP, Entry
from statepact.ledger._codec import encode
from statepact.ledger._described import ContractRecord
from statepact.ledger._nodes import canonical
from statepact.workflow._request import Request, request_of
from statepact.workflow._run_scope import RunScope, must_be_there, value_of
from statepact.workflow._step_scope import StepScope

C = TypeVar("C", bound=Contract)

_WORDS = tuple(Request.model_fields)


def is_words(contract: ContractRecord) -> bool:
    """Whether a stored contract is our `Request`, and not one of a user who chose the same name."""
    return contract.name == Request.contract_name and tuple(field.name for field in contract.fields) == _WORDS


async def start(
    run: RunScope, request: str | Contract | None, *, workflow: str = "", results: Iterable[str] = ()
) -> None:
    """Commit what a run is asked; a run that already has a request must get the same one, or `None`.

    `results` are the names of the contracts that are the outcome of the run, as far as known.

    Raises `StepIdReused` if the run was started with another request, `Deleted` if that was erased, and
    `Expired` if a retention rule has removed the run: what it has done must not be done again.
    """
    run.log.must_not_be_removed(run.run)
    entry = run.snapshot().commit(REQUEST_STEP)
    if entry is None:
        value = request if isinstance(request, Contract) else request_of(request)
        step = StepScope(run, REQUEST_STEP, ())
        step.extra |= {"workflow": workflow, "results": list(results)}
        if isinstance(value, Request) and isinstance(request, str) and value.text != request:
            step.extra["cleaned"] = ["Request.text"]
        entry = await step.commit([value])
    # Also after our own commit: another process may have started the run a moment earlier.
    await _check_same_request(run, entry, request)


async def _check_same_request(run: RunScope, entry: Entry, request: str | Contract | None) -> None:
    cell = entry.cells[0]
    await run.log.fetch([cell])
    if cell.gone:
        must_be_there(cell, Request)
    run.request_cell = cell, cell.erased
    asked = request if isinstance(request, Contract) or request is None else request_of(request)
    if asked is not None:
        cell.must_be_open()
    # Values and not stored bytes: a sealed value has other ones each time.
    if asked is not None and not cell.erased and encode(asked) != cell.document:
        raise StepIdReused(
            f"run {run.run!r} was started with another request",
            hint="use another id for another request, or resume the run without one",
        )
    document = cell.document or b""
    if is_words(cell.contract):
        run.request = run.open_request = value_of(cell, Request).text or ""
        return
    run.request = run.open_request = document.decode()
    if hidden := {field.name for field in cell.contract.fields if field.sensitive}:
        shown = {name: value for name, value in from_json(document).items() if name not in hidden}
        run.open_request = canonical(shown).decode()
