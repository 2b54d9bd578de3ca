"""What a step commits, output by output: checked, written, and what is to be said beside it."""

from __future__ import annotations

from statepact.contracts import Contract, sensitive_fields, validate
from statepact.errors import StepFailed
from statepact.ledger import Cell
from statepact.ledger._blocks import Parts, take_apart
from statepact.ledger._codec import encode_clean
from statepact.ledger._described import describe
from statepact.ledger._unset import UNSET, unset_in
from statepact.stores._base import Entity
from statepact.stores._draft import Document
from statepact.workflow._beside import Beside
from statepact.workflow._entities import MOST_ENTITIES, entities_of
from statepact.workflow._links import check_links
from statepact.workflow._run_scope import RunScope
from statepact.workflow._shared_values import SharedValues


class Outputs:
    """The cells of one commit. What is noticed about them is added to `extra`."""

    def __init__(self, run: RunScope, step: str, extra: Beside) -> None:
        self._run = run
        self._step = step
        self._extra = extra
        self.documents: list[Document] = []
        self._offers: list[tuple[bytes, Contract | None]] = []
        self._links: dict[str, bool] = {}
        self._about: dict[Entity, None] = {}

    async def add(self, value: Contract) -> None:
        """Add an output. Raises `ContractViolation`, `NotExact`, and `StepFailed` for what is no contract."""
        run, contract = self._run, type(value)
        checked = self._checked(value)
        document, cleaned, members = encode_clean(checked)
        if cleaned:
            self._extra.note_paths("cleaned", contract, cleaned)
        log = run.log
        parts = take_apart(
            log.key.owner, document, members=members, sensitive=sensitive_fields(contract), keys=log.keys
        )
        self.documents.append(self._document(checked, document, parts))
        self._offers.append((parts.stored, None if cleaned else checked))
        await check_links(run, checked, self._links)
        self._about.update(dict.fromkeys(entities_of(checked, run.entities)))

    def add_changes(self, shared: SharedValues) -> None:
        """Add what the step changes of shared values as further cells of the same entry."""
        shared.settle()
        for contract, document, data, cleaned, unset in shared.changes(self._run.log.key.owner, self._run.log.keys):
            if unset:
                self._extra.setdefault(UNSET, {})[str(len(self.documents))] = unset
            if cleaned:
                self._extra.note_paths("cleaned", contract, cleaned)
            self._extra.note_suspicious(contract, data, document.parts, empty=True)
            self.documents.append(document)

    def entities(self) -> tuple[Entity, ...]:
        """Return what the outputs are about, as many as are kept."""
        entities = tuple(self._about)[:MOST_ENTITIES]
        if len(self._about) > MOST_ENTITIES:
            self._extra["entities"] = [len(entities), len(self._about)]
        return entities

    def note_links(self) -> None:
        """Record which links to earlier facts hold."""
        if self._links:
            self._extra["links"] = self._links

    def offer(self, cells: tuple[Cell, ...]) -> None:
        """Keep what was committed for its first readers."""
        for cell, (stored, exact) in zip(cells, self._offers, strict=False):
            if exact is not None:
                self._run.offer(cell, stored, exact)

    def _checked(self, value: Contract) -> Contract:
        if not isinstance(value, Contract):
            raise StepFailed(
                f"step {self._step!r} committed {type(value).__name__}, which is no contract",
                hint="commit instances of Contract subclasses",
            )
        return validate(type(value), value, side=f"step {self._step!r} returned an output that")

    def _document(self, value: Contract, document: bytes, parts: Parts) -> Document:
        """Return a cell, and note what its values do not say themselves."""
        contract = type(value)
        omitted, paths = unset_in(value)
        if paths:
            self._extra.setdefault(UNSET, {})[str(len(self.documents))] = paths
        defaults = tuple(contract.model_fields.keys() - value.model_fields_set) if omitted else ()
        self._extra.note_suspicious(contract, document, parts, defaults)
        return Document(describe(contract), parts, False, omitted)
