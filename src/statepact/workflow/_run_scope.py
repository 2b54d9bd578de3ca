"""One run on an open log: what it was asked, what it can see now, how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import orjson

from statepact.contracts import Contract
from statepact.contracts._upgrade import path_of, renamed
from statepact.errors import Deleted
from statepact.ledger import Cell, Snapshot, check_name
from statepact.ledger._codec import decode, upgraded
from statepact.ledger._header import Kind
from statepact.ledger._plan import plan_of
from statepact.ledger._unset import mark_unset
from statepact.models._base import Usage
from statepact.stores._draft import Draft
from statepact.stores._open_log import OpenLog
from statepact.workflow._clock import SYSTEM_CLOCK, Clock
from statepact.workflow._entities import FindEntities
from statepact.workflow._pinned import PinnedFacts

C = TypeVar("C", bound=Contract)

MOST_UNTAKEN = 16
"""Committed values that are kept as objects until their first reader comes."""


class RunScope:
    """A run on an open log: its request, its snapshots, its end."""

    def __init__(
        self,
        log: OpenLog,
        run: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        budget: int | None = None,
        entities: FindEntities | None = None,
    ) -> None:
        self.log = log
        self.run = check_name(run, what="run")
        self.clock = clock
        self.budget = budget
        self.entities = entities
        self.request = ""
        """What the run was asked, as text; empty if nothing was."""
        self.open_request = ""
        """The same without sensitive facts, for steps that do not declare the request's contract."""
        self.request_cell: tuple[Cell, frozenset[str]] | None = None
        """Where the request stands, and what of it had been erased when it was read."""
        self.usage = Usage(estimated=False)
        self.pinned = PinnedFacts(log, run)
        self._untaken: dict[Cell, Contract] = {}

    def snapshot(self) -> Snapshot:
        """Return what the run can see now."""
        return Snapshot(self.log.log, self.run)

    def check_request(self) -> None:
        """Raise `Deleted` if what the run was asked has been erased since it was read."""
        if self.request_cell is not None and self.request_cell[0].erased != self.request_cell[1]:
            raise Deleted(
                f"what run {self.run!r} was asked has been erased",
                hint="the log says who erased it, when and why; start a new run if the work is to be done again",
            )

    async def values(self, contract: type[C]) -> list[C]:
        """Return what the run has committed of a kind, in the order of the commits."""
        cells = self.snapshot().cells(contract.contract_name)
        await self.log.fetch(cells)
        return [value_of(cell, contract) for cell in cells]

    def offer(self, cell: Cell, stored: bytes, value: Contract) -> None:
        """Keep what was committed for its first reader, who then need not decode it.

        `value` came out of the check of the output, so the step that committed it does not hold it.
        """
        if cell.stored != stored or not _is_rebuilt_by_check(type(value)):
            return
        self._untaken[cell] = value
        if len(self._untaken) > MOST_UNTAKEN:
            del self._untaken[next(iter(self._untaken))]

    def take(self, cell: Cell, document: bytes, contract: type[C]) -> C:
        """Return the value of a cell as an object that nobody else holds.

        `document` are its bytes as the contract reads them, after its upgrades.
        """
        value = self._untaken.pop(cell, None)
        return value if type(value) is contract and not cell.erased else decoded(cell, document, contract)

    async def close(self, status: str) -> None:
        """Seal the log at the end of the run, with the head over everything up to here."""
        mountain = self.log.log.mountain()
        seal = {"status": status, "size": mountain.size, "head": mountain.root().hex()}
        await self.note(Kind.SEAL, "", seal)

    async def note(self, kind: Kind, step: str, record: Mapping[str, Any], *, branch: str = "") -> None:
        """Append an entry that is not state: a failed attempt, a refusal, a seal."""
        extra = orjson.dumps({key: value for key, value in record.items() if value})
        await self.log.append(
            Draft(kind=kind, at=self.clock.now(), run=self.run, step=step, branch=branch, extra=extra)
        )


@cache
def _is_rebuilt_by_check(contract: type[Contract]) -> bool:
    """Whether checking an instance makes a new one down to its leaves, as decoding would.

    So it is for what JSON has a form for. Open fields and validators of the user may pass objects on.
    """
    return all(node.direct and node.native and not node.checked for node in plan_of(contract).root.reachable())


def erased_for(cell: Cell, contract: type[Contract]) -> tuple[str, ...]:
    """Return the erased fields of a fetched cell without which a contract cannot be read."""
    if not cell.erased:
        return ()
    names = [field.name for field in cell.contract.fields if field.name in cell.erased]
    if cell.gone or path_of(contract, cell.contract.version):
        return tuple(names)  # an upgrade may need any of them
    fields = contract.model_fields
    return tuple(name for name in names if name in fields and fields[name].is_required())


def must_be_there(cell: Cell, contract: type[Contract]) -> None:
    """Raise `Deleted` if a contract cannot be read from a fetched cell without what was erased."""
    if names := erased_for(cell, contract):
        what = cell.contract.name if cell.gone else f"{cell.contract.name}.{', '.join(names)}"
        raise Deleted(
            f"{what} of step {cell.step!r} in run {cell.run!r} has been erased",
            hint="the log says who erased it, when and why; start a new run if the work is to be done again",
        )


def value_of(cell: Cell, contract: type[C]) -> C:
    """Return the value of a fetched cell, a fresh object each time: nobody can change what others see.

    Raises `KeyMissing` for one that is locked, and `Deleted` for one that cannot be without what was erased.
    """
    must_be_there(cell, contract)
    cell.must_be_open()
    return decoded(cell, upgraded(contract, cell.document or b"", written=cell.contract.version), contract)


def decoded(cell: Cell, document: bytes, contract: type[C]) -> C:
    """Return the value of a cell with `model_fields_set` as the writer's.

    `document` are its bytes as the contract reads them, after its upgrades.
    """
    must_be_there(cell, contract)
    cell.must_be_open()
    value = decode(contract, document)
    if cell.omitted or cell.unset:
        names = [field.name for field in cell.contract.fields]
        mark_unset(value, cell.omitted, cell.unset, renamed(contract, cell.contract.version, names))
    return value
