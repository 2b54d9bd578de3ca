"""The shared values that one step holds: read at one revision, shown, and committed with its output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from statepact.contracts import Contract, sensitive_fields
from statepact.ledger import Cell
from statepact.ledger._blocks import Parts, take_apart
from statepact.ledger._described import describe
from statepact.ledger._partial import encode_fields
from statepact.ledger._shared import Folded, document_of
from statepact.ledger._vault import KeyRing
from statepact.stores._draft import Document, Requirement
from statepact.workflow._render import Item, neutral
from statepact.workflow._shared import Shared, check_shareable

C = TypeVar("C", bound=Contract)


class Change(NamedTuple):
    """A changed value as it is committed."""

    contract: type[Contract]
    document: Document
    data: bytes
    """Its bytes in one piece."""
    cleaned: tuple[str, ...]
    """Paths of texts that had to be cleaned."""
    unset: tuple[str, ...]
    """Paths of nested fields that the writer did not set."""


class SharedValues:
    """The shared values of one step, by contract."""

    __slots__ = ("_held", "_items", "_step")

    def __init__(self, step: str) -> None:
        self._step = step
        self._held: dict[type[Contract], Shared[Any]] = {}
        self._items: dict[type[Contract], list[Item]] = {}

    def get(self, contract: type[C]) -> Shared[C] | None:
        """Return the hold on a value if the step has it already."""
        return self._held.get(contract)

    def add(self, folded: Folded[C]) -> Shared[C]:
        """Hold a value as it was folded."""
        check_shareable(self._step, folded.contract)
        held = self._held[folded.contract] = Shared(folded, step=self._step)
        return held

    # -- showing ---------------------------------------------------------------------------------

    def items(self) -> list[Item]:
        """Return a line of the baton for each value, as items by the cells that it was made of."""
        for contract, held in self._held.items():
            if contract not in self._items:
                self._items[contract] = list(_lines(held._folded))
        return [item for items in self._items.values() for item in items]

    def shown(self) -> None:
        """Note that a model is shown all of them, also what is not there."""
        for contract, held in self._held.items():
            held._note_read(*contract.model_fields)

    # -- committing ------------------------------------------------------------------------------

    def settle(self) -> None:
        """Check what the changes make. Raises `ContractViolation`."""
        for held in self._held.values():
            held._settle()

    def requires(self) -> tuple[Requirement, ...]:
        """Return what must not have changed when the step commits."""
        return tuple(
            Requirement(contract.contract_name, contract.contract_version, frozenset(held._read), held.revision)
            for contract, held in self._held.items()
            if held._read
        )

    def changes(self, owner: str, keys: KeyRing | None) -> Iterator[Change]:
        """Yield what the step changes, sensitive values sealed if there are keys."""
        for contract, held in self._held.items():
            if not held._changes:
                continue
            fields, omitted, deleted, unset = held._masks()
            data, cleaned, _ = encode_fields(contract, fields)
            parts: Parts = take_apart(owner, data, sensitive=sensitive_fields(contract), keys=keys)
            document = Document(describe(contract), parts, True, omitted, deleted)
            yield Change(contract, document, data, cleaned, unset)

    def close(self) -> None:
        """From now on a change would be lost, so it is an error."""
        for held in self._held.values():
            held._closed = True


def _lines(folded: Folded[Any]) -> Iterator[Item]:
    """Yield one line for a value, and silent items for the other cells that its fields come from."""
    by_cell: dict[Cell, list[str]] = {}
    for name, cell in folded.cells.items():
        # Also what has only deleted something: it says that an earlier value was not read.
        by_cell.setdefault(cell, []).extend([name] if name in folded.values else ())
    document = document_of(folded.contract, folded.values)
    text = neutral(document.decode())
    for number, (cell, names) in enumerate(by_cell.items()):
        item = Item(cell, fields=tuple(names), document=document, text=text)
        item.label, item.quiet = f"{cell.contract.name} (shared)", number > 0
        yield item
