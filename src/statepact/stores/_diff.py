"""Comparing a session with itself at another revision, two of its runs, or a session with its fork."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json

from statepact.contracts import Contract
from statepact.errors import SetupError, UnknownRun
from statepact.ledger import DEFAULT_OWNER, session_key
from statepact.ledger._cells import Cell
from statepact.ledger._claims import claims_in
from statepact.ledger._diff import Change, Diff, FactPlace, Held, RunState, State, compared
from statepact.ledger._header import Kind
from statepact.ledger._log import OF_THE_SESSION, RunLog
from statepact.ledger._partial import encode_fields
from statepact.ledger._shown import visible
from statepact.ledger._vault import KeyRing
from statepact.ledger._view import CellView
from statepact.stores._base import Store
from statepact.stores._log_reader import LogReader
from statepact.stores._viewing import cell_view

__all__ = ["Change", "Diff", "diff"]

_TOGETHER = 100
"""Cells whose values are fetched together."""


async def diff(
    store: Store,
    session: str,
    before: int | None = None,
    after: int | None = None,
    *,
    owner: str = DEFAULT_OWNER,
    runs: tuple[str, str] | None = None,
    other: str | None = None,
    contracts: Sequence[type[Contract]] = (),
    keys: KeyRing | None = None,
) -> Diff:
    """Return what is different in a session between two revisions, by default until now; 0 is before the first.

    With `runs` two runs of it are compared, as they stood at `before`; with `other` the session at `before`
    with another one of the same owner, such as its fork, at `after`; both by default as they are. A value that
    was merged into another one is shown beside it, because only the code of its contract knows the rule: pass
    the `contracts` of shared values to see what came of it. Sensitive values are masked; `keys` let them be
    compared.

    Raises `UnknownSession`, `UnknownRevision`, `UnknownRun`, `Expired` for a revision that is not kept, and
    `CorruptState`.
    """
    key = session_key(owner, session)
    if runs is not None:
        return await _of_runs(await LogReader.at(store, key, before, keys=keys), runs, contracts)
    if other is not None:
        one = await LogReader.at(store, key, before, keys=keys)
        two = await LogReader.at(store, session_key(owner, other), after, keys=keys)
        ours = await _Reader(one, contracts).state(one.log.revision)
        theirs = await _Reader(two, contracts).state(two.log.revision, named=f"session {other}, ")
        return compared(session, ours, theirs)
    if before is None:
        raise SetupError("a comparison needs a revision", hint="name one, and perhaps a second one")
    log = await LogReader.at(store, key, None if after is None else max(before, after) or None, keys=keys)
    after = log.log.revision if after is None else after
    for revision in (before, after):
        if revision:
            log.check_revision(revision)
    reader = _Reader(log, contracts, between=(min(before, after), max(before, after)))
    states = [await reader.state(revision) for revision in (before, after)]
    base = log.log.base
    return compared(session, *states, removed=base.size if base is not None and not (before and after) else 0)


async def _of_runs(log: LogReader, runs: tuple[str, str], contracts: Sequence[type[Contract]]) -> Diff:
    session, revision = log.key.session, log.log.revision
    for run in runs:
        if run not in log.log.runs:
            raise UnknownRun(
                f"session {session!r} has no run {run!r} at revision {revision}",
                hint=f"it has: {', '.join(list(log.log.runs)[-10:]) or 'none'}",
            )
    reader = _Reader(log, contracts)
    within = " → ".join(runs)
    return compared(session, *[await reader.state(revision, run=run, within=within) for run in runs])


class _Erased(NamedTuple):
    revision: int
    remark: str


class _Reader:
    """Reads states of one session; `between` two revisions only what may have changed there."""

    def __init__(
        self, log: LogReader, contracts: Sequence[type[Contract]], *, between: tuple[int, int] | None = None
    ) -> None:
        self._log = log
        self._contracts = contracts
        self._between = between
        self._erased: dict[tuple[int, int, str], _Erased] | None = None
        self._views: dict[tuple[int, int], CellView] = {}

    async def state(self, revision: int, *, run: str | None = None, within: str = "", named: str = "") -> State:
        if self._erased is None:
            self._erased = await self._erasures()
        runs = [one for one in self._log.log.runs.values() if run in (None, one.name)]
        outputs = [
            cell
            for one in runs
            for entry in one.entries
            if entry.header.kind is Kind.COMMIT and entry.revision <= revision
            for cell in entry.outputs
            if self._may_differ(cell)
        ]
        changed = [cells for cells in self._log.log.shared.values() if any(map(self._may_differ, cells))]
        shared = [cell for cells in changed for cell in cells if cell.revision <= revision and run is None]
        await self._read(outputs + shared)
        facts = {**self._outputs(outputs, revision, within), **self._shared(shared, revision)}
        for contract in self._contracts if run is None else ():
            facts = await self._folded(facts, contract, revision)
        label = f"run {run}" if run is not None else f"{named}revision {revision}"
        states = {one.name: state for one in runs if (state := await self._run_state(one, revision)) is not None}
        return State(label=label, facts=facts, runs=states if run is None else {})

    def _may_differ(self, cell: Cell) -> bool:
        if self._between is None:
            return True
        first, last = self._between
        erased = self._log.log.erased_at.get((cell.revision, cell.number), 0)
        return first < cell.revision <= last or first < erased

    async def _erasures(self) -> dict[tuple[int, int, str], _Erased]:
        found: dict[tuple[int, int, str], _Erased] = {}
        for entry in self._log.log.entries:
            if entry.header.kind not in OF_THE_SESSION:
                continue
            record = await self._log.record(entry)
            who, why = record.get("by"), record.get("reason")
            remark = visible(f"by {who}: {why}" if who else "before this session began")
            for claim in claims_in(record):
                for name in claim.fields:
                    found.setdefault((claim.revision, claim.leaf, name), _Erased(entry.revision, remark))
        return found

    async def _read(self, cells: Sequence[Cell]) -> None:
        missing = [cell for cell in cells if (cell.revision, cell.number) not in self._views]
        for start in range(0, len(missing), _TOGETHER):
            some = missing[start : start + _TOGETHER]
            await self._log.fetch(some)
            self._views |= {(cell.revision, cell.number): cell_view(cell) for cell in some}

    def _outputs(self, cells: Sequence[Cell], revision: int, within: str) -> dict[FactPlace, Held]:
        facts: dict[FactPlace, Held] = {}
        numbers: dict[tuple[int, str], int] = {}
        for cell in cells:
            view = self._views[cell.revision, cell.number]
            kind = cell.revision, cell.contract.name
            number = numbers[kind] = numbers.get(kind, -1) + 1
            where = within or cell.run
            for index, one in enumerate(cell.contract.fields):
                if (held := self._held(cell, view, index, revision)) is not None:
                    facts.setdefault(FactPlace(where, cell.writer, cell.contract.name, number, one.name), held)
        return facts

    def _held(self, cell: Cell, view: CellView, index: int, revision: int) -> Held | None:
        """Return what a field of a cell held at a revision; `None` if its writer has not set it."""
        one = cell.contract.fields[index]
        who: dict[str, Any] = {"writer": cell.writer, "run": cell.run, "sensitive": one.sensitive}
        if one.name in view.erased:
            assert self._erased is not None
            erased = self._erased.get((cell.revision, cell.number, one.name))
            if erased is not None and erased.revision <= revision:
                who["writer"] = ""
                return Held(state="erased", revision=erased.revision, remark=erased.remark, **who)
            return Held(state="value", is_known=False, revision=cell.revision, remark="(erased since)", **who)
        if not view.says(index) or one.name not in view.values:
            return None
        value = view.values[one.name]
        if value is None:
            return Held(state="null", revision=cell.revision, **who)
        known = one.name not in view.locked
        return Held(state="value", value=value, revision=cell.revision, is_known=known, **who)

    def _shared(self, cells: Sequence[Cell], revision: int) -> dict[FactPlace, Held]:
        facts: dict[FactPlace, Held] = {}
        for cell in sorted(cells, key=lambda one: (one.revision, one.number)):
            view = self._views[cell.revision, cell.number]
            for index, one in enumerate(cell.contract.fields):
                place = FactPlace("", "", cell.contract.name, 0, one.name)
                anew = bool(cell.deleted >> index & 1)
                held = self._held(cell, view, index, revision)
                if anew and not view.says(index):
                    facts[place] = Held(
                        state="deleted", writer=cell.writer, run=cell.run, revision=cell.revision,
                        sensitive=one.sensitive,
                    )  # fmt: skip
                elif held is not None and (anew or held.state == "erased"):
                    facts[place] = held
                elif held is not None:
                    facts[place] = _merged(facts.get(place), held)
        return facts

    async def _folded(
        self, facts: Mapping[FactPlace, Held], contract: type[Contract], revision: int
    ) -> dict[FactPlace, Held]:
        """Put in what the rules of a contract make of its merged values."""
        folded = await self._log.shared(contract, at=revision)
        values = from_json(encode_fields(contract, folded.values).data)
        found = dict(facts)
        for name, cell in folded.cells.items():
            place = FactPlace("", "", contract.contract_name, 0, name)
            held = found.get(place)
            if name in values and held is not None and held.merged and values[name] is not None:
                found[place] = Held(
                    state="value", value=values[name], writer=cell.writer, run=cell.run, revision=cell.revision,
                    sensitive=held.sensitive,
                )  # fmt: skip
        return found

    async def _run_state(self, run: RunLog, revision: int) -> RunState | None:
        entries = [entry for entry in run.entries if entry.revision <= revision]
        if not entries:
            return None
        workflow = str((await self._log.record(entries[0])).get("workflow", ""))
        last = next((one for one in reversed(entries) if one.header.kind is not Kind.REFUSAL), None)
        if last is None or last.header.kind is not Kind.SEAL:
            return RunState(workflow)
        return RunState(workflow, str((await self._log.record(last)).get("status", "open")))


def _merged(before: Held | None, new: Held) -> Held:
    """Return a value after another one was merged into it by a rule that is not known here."""
    start = before if before is not None and before.state == "value" else None
    earlier = (start.value, start.merged) if start is not None else (None, ())
    return Held(
        state="value", value=earlier[0], merged=(*earlier[1], new.value), writer=new.writer, run=new.run,
        revision=new.revision, sensitive=new.sensitive, is_known=new.is_known and (start is None or start.is_known),
        remark=new.remark,
    )  # fmt: skip
