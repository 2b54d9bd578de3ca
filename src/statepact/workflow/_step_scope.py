"""One turn of one step: read, show, check, commit.

Everything that runs steps is built on this class: `Workflow` with its wiring, and `session.step(...)` for
scripts that keep their own control flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from statepact.contracts import Contract, check_version
from statepact.errors import MissingInput, StepIdReused
from statepact.ledger import Cell, Entry
from statepact.ledger._codec import encode, upgraded
from statepact.ledger._digest import input_digest, leaf_digest
from statepact.ledger._header import Reached, Read
from statepact.ledger._lifetime import USUAL_KEEP
from statepact.models._base import Prompt, Reply, Usage
from statepact.stores._draft import NO_PINNED, Draft, Requirement
from statepact.workflow._beside import Beside
from statepact.workflow._entities import MOST_ENTITIES
from statepact.workflow._fan_out import Awaited, Gathered
from statepact.workflow._one_of import one_of
from statepact.workflow._outputs import Outputs
from statepact.workflow._pinned import Shown
from statepact.workflow._render import Item, mark_sent, neutral, prompt_of, show
from statepact.workflow._run_scope import RunScope, erased_for, must_be_there, value_of
from statepact.workflow._shared import Shared
from statepact.workflow._shared_values import SharedValues
from statepact.workflow._wiring import Input, Wanted

if TYPE_CHECKING:
    from statepact.workflow._recalled import Recalled

C = TypeVar("C", bound=Contract)


class StepScope:
    """One turn of one step: what it reads, what its model was sent, what it commits."""

    def __init__(self, run: RunScope, name: str, inputs: Sequence[Input], *, branch: str = "") -> None:
        self.run = run
        self.name = name
        self.branch = branch
        self.inputs = inputs
        self.extra = Beside()
        """What is recorded beside the output; empty values are left out."""
        self.keep = USUAL_KEEP
        """Seconds for which a cache keeps the session after the step; `None` until it is deleted."""
        self.asked = False
        self.used = False
        """True once the caller has taken a value out of the scope."""
        self.acted = False
        """True once the work of the step is done and only has to be recorded: an effect has happened."""
        self.awaited: Mapping[type[Contract], Awaited] = {}
        """For each contract that the step gathers, whom it waited for."""
        self._items: list[Item] = []
        self._pinned: Shown | None = None
        self._revision = 0
        self._cells: dict[type[Contract], list[Cell]] = {}
        self.shared: SharedValues | None = None
        """The shared values of the session that the step holds, `None` if it holds none."""
        self._merged: dict[type[Contract], Contract] = {}
        """What several writers make together, for readers of one value."""
        self._digest = b"\x00" * 16
        self._usage = Usage(estimated=False)
        self._own_prompts: list[str] = []

    @property
    def writer(self) -> str:
        """Step, and branch where there is one."""
        return f"{self.name}/{self.branch}" if self.branch else self.name

    # -- reading ---------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the declared inputs. Raises `MissingInput`, `ConflictingValues`, `VersionMismatch`, `Deleted`."""
        snapshot = self.run.snapshot()
        self._revision = snapshot.revision
        chosen: list[Cell] = []
        for wire in self.inputs:
            cells = snapshot.cells(wire.contract.contract_name)
            for cell in cells:
                check_version(wire.contract, cell.contract.version)
            self._cells[wire.contract] = cells
            chosen += cells
        await self.run.log.fetch(chosen)
        declared = {wire.contract.contract_name: wire.contract for wire in self.inputs}
        gone = [cell for cell in chosen if erased_for(cell, declared[cell.contract.name])]
        if gone:
            self._leave_out(gone)
        missing = []
        for wire in self.inputs:
            cells = self._cells[wire.contract]
            if any(cell.contract.name == wire.contract.contract_name for cell in gone) and not cells:
                continue  # whether it is needed at all is seen below
            if not cells and wire.wanted is Wanted.ONE:
                missing.append(wire.contract.contract_name)
            if len(cells) > 1 and wire.wanted in (Wanted.ONE, Wanted.MAYBE):
                self._merged[wire.contract] = one_of(cells, wire.contract)
        if missing:
            raise MissingInput(
                f"step {self.name!r} did not run: {', '.join(missing)} has no committed value in this run",
                hint="the step that returns it must have committed first",
            )
        self._items = [
            Item(cell, document=_readable(cell, declared[cell.contract.name])) for cell in chosen if cell not in gone
        ]
        if self._merged:
            self._show_as_one()
        self._digest = input_digest(self.run.run, self.name, self.branch, self._digested(chosen))
        for contract, awaited in self.awaited.items():
            came = len(awaited.names) - len(awaited.missing)
            self.extra.setdefault("gathered", {})[contract.contract_name] = [came, *awaited.names]
        if gone and snapshot.commit(self.name, self.branch) is None:
            self._must_not_need(gone)

    def _leave_out(self, gone: Sequence[Cell]) -> None:
        """Go on without cells that were erased."""
        for contract, cells in self._cells.items():
            self._cells[contract] = [cell for cell in cells if cell not in gone]

    def _must_not_need(self, gone: Sequence[Cell]) -> None:
        """Raise `Deleted` if a required input was erased. What a step has committed before needs it no more."""
        for wire in self.inputs:
            if wire.wanted is Wanted.ONE and not self._cells[wire.contract]:
                for cell in gone:
                    if cell.contract.name == wire.contract.contract_name:
                        must_be_there(cell, wire.contract)

    async def hold(self, contracts: Iterable[type[Contract]]) -> None:
        """Read shared values of the session as it has them now."""
        shared = self.shared or SharedValues(self.name)
        new = [contract for contract in contracts if shared.get(contract) is None]
        if new:
            await self.run.log.refresh()
        for contract in new:
            shared.add(await self.run.log.shared(contract))
            self.shared = shared

    def held(self, contract: type[C]) -> Shared[C]:
        """Return the step's hold on a shared value that it has read."""
        self.used = True
        held = self.shared.get(contract) if self.shared is not None else None
        assert held is not None
        return held

    def _digested(self, chosen: Sequence[Cell]) -> Iterator[bytes]:
        """Yield what decides whether this is the same step again.

        Of what it gathers that is whom it waits for, not what came: what comes later must not run it again.
        """
        gathered = {contract.contract_name for contract in self.awaited}
        yield from (self._leaf(cell) for cell in chosen if cell.contract.name not in gathered)
        for contract, awaited in self.awaited.items():
            yield "\x00".join((contract.contract_name, *awaited.names)).encode()

    def _show_as_one(self) -> None:
        """Let one line of the baton carry what several writers make together."""
        for contract, value in self._merged.items():
            first, *others = [item for item in self._items if item.cell in self._cells[contract]]
            writers = ", ".join(cell.writer for cell in self._cells[contract])
            first.label = f"{first.cell.contract.name} (from {writers})"
            first.document = encode(value)
            for item in others:
                item.document, item.quiet = first.document, True

    def _leaf(self, cell: Cell) -> bytes:
        if not cell.leaf:
            salt = self.run.log.log.entry(cell.revision).header.salt
            cell.leaf = leaf_digest(salt, cell.number, cell.stored or b"")
        return cell.leaf

    def value(self, wire: Input) -> Any:
        """Return what a wire carries: one value, `None`, or a list."""
        self.used = True
        if wire.contract in self._merged:
            return self._merged[wire.contract].model_copy(deep=True)
        cells = {id(cell) for cell in self._cells[wire.contract]}
        # From the items: an open log lets go of old values while other steps run.
        take = self.run.take
        values = [take(item.cell, item.document, wire.contract) for item in self._items if id(item.cell) in cells]
        if wire.wanted is Wanted.ALL:
            return values
        if wire.wanted is Wanted.SOME:
            awaited = self.awaited.get(wire.contract, Awaited(tuple(c.writer for c in self._cells[wire.contract]), ()))
            return Gathered(tuple(values), awaited.missing, len(awaited.names))
        return values[0] if values else None

    async def earlier(self, contract: type[C]) -> list[C]:
        """Return the values of a kind that other runs of the session had committed before this one began."""
        log = self.run.log.log
        ours = log.runs[self.run.run].entries[0].revision if self.run.run in log.runs else log.revision + 1
        cells = [
            cell
            for name, run in log.runs.items()
            if name != self.run.run
            for cell in run.by_contract.get(contract.contract_name, ())
            if cell.revision < ours
        ]
        await self.run.log.fetch(cells)
        if cells:
            self.extra["earlier"] = sorted({*self.extra.get("earlier", ()), contract.contract_name})
        return [value_of(cell, contract) for cell in cells if not erased_for(cell, contract)]

    @property
    def digest(self) -> bytes:
        """What decides whether this is the same step again; set by `load`."""
        return self._digest

    def note_recalled(self, contract: type[C], recalled: Recalled[C]) -> None:
        """Record what came from earlier runs: it is known here although it stands nowhere in this run."""
        found = [[one.id, one.session, one.run] for one in recalled.candidates]
        self.extra.setdefault("recalled", []).append([contract.contract_name, *found[:MOST_ENTITIES]])

    async def stored(self) -> Entry | None:
        """Return what this step has already committed from the same inputs, with its values loaded.

        Raises `StepIdReused` if it committed from other inputs, and `KeyMissing` if it has to run and cannot
        read its inputs.
        """
        entry = self.run.snapshot().commit(self.name, self.branch)
        if entry is None:
            for item in self._items:
                item.cell.must_be_open()
            return None
        if entry.header.input_digest != self._digest:
            raise StepIdReused(
                f"step {self.name!r} of run {self.run.run!r} has already committed a result for other inputs",
                hint="give a repeated step its own branch name, or start a new run",
            )
        await self.run.log.fetch(entry.cells)
        return entry

    # -- showing ---------------------------------------------------------------------------------

    async def prompt(self, instruction: str, fields: Iterable[str] = (), *, budget: int | None = None) -> Prompt:
        """Return the baton and the instruction as a prompt. Raises `ContextTooLarge`."""
        self.run.check_request()
        pinned = await self._show_baton()
        shared: Sequence[Item] = ()
        if self.shared is not None:
            self.shared.shown()
            shared = self.shared.items()
        return prompt_of(
            self.request,
            pinned.text,
            [item for item in (*self._items, *shared) if not item.cell.is_request],
            instruction,
            fields=fields,
            budget=budget or self.run.budget,
            step=self.name,
            cut=pinned.cut,
        )

    async def _show_baton(self) -> Shown:
        if self._pinned is None:
            # From the snapshot of the inputs: what others commit meanwhile is for later steps.
            declared = [wire.contract.contract_name for wire in self.inputs]
            self._pinned = await self.run.pinned.shown(self._revision, declared, self.request)
            if self._pinned.cut:
                total = self._pinned.total
                self.extra["pinned_shown"] = [total - self._pinned.cut, total]
            for item in self._items:
                self._show(item)
            self.asked = True
        return self._pinned

    @property
    def request(self) -> str:
        """What the run was asked, without sensitive facts unless this step declares the contract."""
        declared = any(item.cell.is_request for item in self._items)
        return self.run.request if declared else self.run.open_request

    def _show(self, item: Item) -> None:
        if item.cell.is_request:
            item.text = neutral(self.request)
        else:
            show(item)

    async def _look_through_own_prompts(self) -> None:
        if not self._own_prompts:
            return
        await self._show_baton()
        for text in self._own_prompts:
            self.sent(text)
        self._own_prompts.clear()

    def sent(self, text: str) -> None:
        """Note what a model was really sent: delivery is measured on it."""
        if self._pinned is None:
            # A prompt of the caller's own: it is looked through once the baton is known.
            self._own_prompts.append(text)
            return
        self._pinned.sent(text)
        mark_sent(self._items, text)
        if self.shared is not None:
            mark_sent(self.shared.items(), text)
        self.used = True

    def replied(self, reply: Reply) -> None:
        """Note a model's reply: what was sent for it, and what it cost."""
        self.sent(reply.sent)
        self._usage += reply.usage
        self.run.usage += reply.usage
        calls = self.extra.get("usage", {}).get("calls", 0) + 1
        self.extra["usage"] = {
            "calls": calls,
            "input": self._usage.input_tokens,
            "output": self._usage.output_tokens,
            "estimated": self._usage.estimated,
            "model": reply.model,
        }

    # -- committing ------------------------------------------------------------------------------

    async def commit(self, values: Sequence[Contract]) -> Entry:
        """Check and commit the outputs, all or none. Returns the entry, the stored one for a repeat.

        Raises `ContractViolation`, `NotExact`, `StepIdReused`, `SharedConflict`, `StoreError`.
        """
        self.acted = True
        await self._look_through_own_prompts()
        outputs = Outputs(self.run, self.name, self.extra)
        for value in values:
            await outputs.add(value)
        entities = outputs.entities()
        outputs.note_links()
        requires: tuple[Requirement, ...] = ()
        shared: Sequence[Item] = ()
        if self.shared is not None:
            outputs.add_changes(self.shared)
            requires, shared = self.shared.requires(), self.shared.items()
        pinned, exceptions = self._pinned.reads(known=self.used) if self._pinned else (NO_PINNED, ())
        draft = Draft(
            at=self.run.clock.now(),
            run=self.run.run,
            step=self.name,
            branch=self.branch,
            input_digest=self._digest,
            documents=outputs.documents,
            reads=(*map(self._read, self._items), *map(self._read, shared), *exceptions),
            pinned=pinned,
            entities=entities,
            keep=self.keep,
            extra=self.extra.stored(),
            as_of=self._revision or None,
            requires=requires,
        )
        entry = await self.run.log.append(draft)
        if self.shared is not None:
            self.shared.close()
        outputs.offer(entry.cells)
        return entry

    def _read(self, item: Item) -> Read:
        cell = item.cell
        if not self.asked:
            return Read(cell.revision, cell.number, Reached.ARGUMENT if self.used else Reached.UNKNOWN)
        if not self.used:
            return Read(cell.revision, cell.number)
        if item.whole:
            return Read(cell.revision, cell.number, Reached.SENT)
        return Read(cell.revision, cell.number, Reached.PARTLY, item.mask)


def _readable(cell: Cell, contract: type[Contract]) -> bytes:
    """Return a cell's document as its reader knows the contract; one that is locked as it is."""
    if cell.locked:
        return cell.document or b""
    return upgraded(contract, cell.document or b"", written=cell.contract.version)
