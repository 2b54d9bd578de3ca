"""Loss, computed from a run's log alone: no model, no clock, nothing stored for it.

Definitions (`docs/explain/loss.md` says what they cannot show):

- *Delivery*: of the pairs (fact, reader) that a reader was to get and that were known, how many
  stood in what the reader's model was sent, or were handed to its code.
- *Obligation*: of the facts that the outcome owes (pinned facts, `covers`, links), how many are
  proven by their exact value outside a negation or by a link whose values agree.
- *Contradiction*: linked fields that differ, and identifiers in model outputs that stand nowhere in
  what the step could know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from statepact.ledger import REQUEST_STEP
from statepact.ledger._described import FieldRecord, open_in
from statepact.ledger._header import Reached
from statepact.ledger._nodes import canonical
from statepact.ledger._suspicious import SUSPICIOUS
from statepact.ledger._view import CellView, EntryView, ReadView, RunView
from statepact.loss._conflicts import conflicts, losses_in
from statepact.loss._fact_ledger import fact_ledger
from statepact.loss._report import ChangedId, Delivery, DeliveryState, Loss, LossReport, Obligation, Standing
from statepact.meaning import ids_in, normal_id, stands_in, unknown_ids


def measure(run: RunView) -> LossReport:
    """Return what was lost in a run. A pure function: the same log gives the same report."""
    commits = [entry for entry in run.commits if entry.step != REQUEST_STEP]
    asked = [entry for entry in run.commits if entry.step == REQUEST_STEP and not _is_words(entry.cells[0])]
    outcome = _outcome(run, commits)
    deliveries = [delivery for entry in commits for delivery in _deliveries(entry)]
    obligations = list(_obligations([*asked, *commits], outcome))
    changed, ids = _changed_ids(run, commits)
    reads = [read for entry in commits for read in entry.reads if _counts(read)]
    unclaimed = tuple(_unclaimed(commits, outcome))
    in_conflict = conflicts(run)
    losses = (
        *_lost_deliveries(commits),
        *losses_in(in_conflict),
        *_lost_obligations(obligations, deliveries),
        *(Loss(item.id, "semantic", item.step, _id_cause(item)) for item in changed),
    )
    return LossReport(
        owner=run.owner,
        session=run.session,
        run=run.run,
        workflow=run.workflow,
        status=run.status,
        steps=len(commits),
        deliveries=tuple(deliveries),
        obligations=tuple(obligations),
        links_checked=sum(len(entry.extra.get("links", {})) for entry in commits),
        ids_checked=ids,
        changed_ids=tuple(changed),
        unclaimed=unclaimed,
        handoffs=len(reads),
        checked_handoffs=sum(read.reached is not Reached.UNKNOWN for read in reads),
        losses=losses,
        ledger=fact_ledger(commits, obligations, asked=asked),
        conflicts=in_conflict,
        suspicious=tuple(dict.fromkeys(path for entry in commits for path in _suspicious(entry))),
        locked=tuple(dict.fromkeys(_locked([*asked, *commits]))),
        deleted=tuple(dict.fromkeys(_erased(run.commits))),
    )


def _suspicious(entry: EntryView) -> Iterator[str]:
    """Where a text may mean no value. Logs of earlier versions hold paths into sensitive facts, keys and all."""
    contracts = {cell.contract.name: cell.contract for cell in entry.cells}
    for fact in map(str, entry.extra.get(SUSPICIOUS, ())):
        # A contract's name may hold dots, too.
        name = max((one for one in contracts if fact.startswith(f"{one}.")), key=len, default="")
        yield f"{name}.{open_in(contracts[name], fact[len(name) + 1 :])}" if name else fact


def _locked(entries: Iterable[EntryView]) -> Iterator[str]:
    """Facts whose values are encrypted and could not be read here."""
    for entry in entries:
        for cell in entry.cells:
            yield from (f"{cell.contract.name}.{f.name}" for f in cell.contract.fields if f.name in cell.locked)


def _erased(entries: Iterable[EntryView]) -> Iterator[str]:
    """Facts that were erased on purpose."""
    for entry in entries:
        for cell in entry.cells:
            yield from (f"{cell.contract.name}.{f.name}" for f in cell.contract.fields if f.name in cell.erased)


# -- delivery --------------------------------------------------------------------------------------


def _counts(read: ReadView) -> bool:
    """The words of the request are not facts of a contract: they are shown to every step anyway."""
    return not (read.cell.step == REQUEST_STEP and _is_words(read.cell))


def _is_words(cell: CellView) -> bool:
    """Whether a request is our `Request`, and not a contract of a user with the same name."""
    return cell.contract.name == "Request" and [field.name for field in cell.contract.fields] == ["text"]


def _deliveries(entry: EntryView) -> Iterator[Delivery]:
    for read in entry.reads:
        if not _counts(read):
            continue
        for number in entry.gave(read):
            field = read.cell.contract.fields[number]
            if read.declared or field.pinned:
                fact = f"{read.cell.contract.name}.{field.name}"
                yield Delivery(fact, read.cell.writer, entry.writer, _state(read.has(number)))


def _state(has: bool | None) -> DeliveryState:
    return "unchecked" if has is None else "delivered" if has else "lost"


def _lost_deliveries(commits: list[EntryView]) -> Iterator[Loss]:
    for entry in commits:
        shown = entry.extra.get("pinned_shown")
        for delivery in _deliveries(entry):
            if delivery.state != "lost":
                continue
            if entry.extra.get("own_prompt"):
                yield Loss(delivery.fact, "role", entry.writer, f"not in what {entry.writer} sent to its model")
            elif shown:
                cause = f"cut before {entry.writer}: {shown[0]} of {shown[1]} pinned values shown"
                yield Loss(delivery.fact, "time", entry.writer, cause)
            else:
                yield Loss(delivery.fact, "time", entry.writer, f"cut on the way to the model of {entry.writer}")


def _unclaimed(commits: list[EntryView], outcome: list[EntryView]) -> Iterator[str]:
    """Facts of steps before the outcome that no later step declared and that are not pinned."""
    read = {(r.cell.revision, r.cell.number) for entry in commits for r in entry.reads if r.declared}
    for entry in commits:
        if entry in outcome:
            continue
        for cell in entry.outputs:  # shared values are for the whole session: somebody may read them yet
            if (cell.revision, cell.number) not in read:
                yield from (
                    f"{cell.contract.name}.{f.name}"
                    for f in cell.contract.fields
                    if not f.pinned and f.name not in cell.erased
                )


# -- obligation ------------------------------------------------------------------------------------


def _outcome(run: RunView, commits: list[EntryView]) -> list[EntryView]:
    """What the run was for: commits of the results that its workflow named; else what nobody read and came last."""
    written = [entry for entry in commits if entry.outputs]
    named = next((set(entry.extra["results"]) for entry in run.commits if "results" in entry.extra), set())
    if named:
        return [entry for entry in written if named & {cell.contract.name for cell in entry.outputs}]
    if not written:
        return []
    read = {r.cell.revision for entry in commits for r in entry.reads if r.declared}
    final = written[-1]
    names = {cell.contract.name for cell in final.outputs}
    return [
        entry
        for entry in written
        if entry is final or (entry.revision not in read and names & {cell.contract.name for cell in entry.outputs})
    ]


def _obligations(commits: list[EntryView], outcome: list[EntryView]) -> Iterator[Obligation]:
    """What the outcome owes, and what single steps before it cover."""
    yield from _links(commits)
    if outcome:
        covers = {str(fact) for entry in outcome for fact in entry.extra.get("covers", ())}
        linked = {name.partition("=")[2] for entry in outcome for name in entry.extra.get("links", {})}
        before = [entry for entry in commits if entry not in outcome]
        for cell, field in _facts(before):
            fact = f"{cell.contract.name}.{field.name}"
            # Limits are obeyed and not repeated.
            owed = ((field.pinned and not field.limit) or fact in covers) and fact not in linked
            if owed and (found := _standing(cell.values[field.name], field.name, outcome)) is not None:
                yield Obligation(fact, outcome[-1].writer, *found, cell.writer)
    for entry in commits:
        if entry in outcome or not (covers := set(entry.extra.get("covers", ()))):
            continue
        for cell, field in _facts([earlier for earlier in commits if earlier.revision < entry.revision]):
            fact = f"{cell.contract.name}.{field.name}"
            if fact in covers and (found := _standing(cell.values[field.name], field.name, [entry])) is not None:
                yield Obligation(fact, entry.writer, *found, cell.writer)


def _links(commits: list[EntryView]) -> Iterator[Obligation]:
    for entry in commits:
        for name, agrees in entry.extra.get("links", {}).items():
            field, _, fact = name.partition("=")
            where = next((f"{c.contract.name}.{field}" for c in entry.cells if field in c.values), field)
            yield Obligation(fact, entry.writer, "proven" if agrees else "contradicted", where)


def _facts(entries: list[EntryView]) -> Iterator[tuple[CellView, FieldRecord]]:
    """Yield the facts that hold something which an answer could deal with."""
    for entry in entries:
        for cell in entry.cells:
            for number, field in enumerate(cell.contract.fields):
                known = cell.says(number) and field.name not in cell.locked
                if known and cell.values.get(field.name) not in (None, "", [], {}):
                    yield cell, field


def _standing(value: Any, field: str, outcome: list[EntryView]) -> tuple[Standing, str] | None:
    """Return how a fact stands and where that is seen; `None` if that could only be seen in what
    is locked or erased."""
    for entry in outcome:
        for cell in entry.cells:
            for name, answer in cell.values.items():
                if name in cell.locked:
                    continue
                if isinstance(value, bool) and name != field:
                    continue  # every other True is no answer to this one
                if answer == value and type(answer) is type(value):
                    return "proven", f"{cell.contract.name}.{name}"
                found = stands_in(value, text_of(answer)) if not isinstance(answer, (bool, int, float)) else None
                if found is not None and not found.negated:
                    return "proven", f"{cell.contract.name}.{name}"
    return None if any(cell.locked or cell.erased for entry in outcome for cell in entry.cells) else ("open", "")


def text_of(value: Any) -> str:
    """Return all strings inside a JSON value, one a line."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(filter(None, map(text_of, value.values())))
    if isinstance(value, list):
        return "\n".join(filter(None, map(text_of, value)))
    return ""


def _lost_obligations(obligations: list[Obligation], deliveries: list[Delivery]) -> Iterator[Loss]:
    arrived = {(d.fact, d.writer, d.reader): d.state for d in deliveries}
    for item in obligations:
        if item.standing == "contradicted":
            yield Loss(item.fact, "semantic", item.owed_by, f"{item.where} says something else")
        elif item.standing == "open":
            state = arrived.get((item.fact, item.writer, item.owed_by))
            if state == "lost":
                continue  # its delivery is the loss; counting it twice would move the place
            before = f"delivered to {item.owed_by}" if state == "delivered" else f"{item.owed_by} owes it"
            yield Loss(item.fact, "semantic", item.owed_by, f"{before}, not dealt with in its output")


# -- contradiction ---------------------------------------------------------------------------------


def _changed_ids(run: RunView, commits: list[EntryView]) -> tuple[list[ChangedId], int]:
    """Identifiers in outputs of steps that asked a model, against everything committed before."""
    first = [entry for entry in run.commits[:1] if entry.step == REQUEST_STEP]
    known = [canonical(cell.values).decode() for entry in first for cell in entry.cells]
    hidden = {span for entry in first for cell in entry.cells for span in _sensitive_ids(cell)}
    locked = any(cell.locked or cell.erased for entry in first for cell in entry.cells)
    changed: list[ChangedId] = []
    checked = 0
    for entry in commits:
        for shared in {read.cell for read in entry.reads if read.cell.shared}:
            known.append(text_of(_given(shared, entry)))  # perhaps of another run of the session
            hidden |= set(_sensitive_ids(shared))
        # What a step recalled from earlier runs is known to it, wherever it was said.
        known += [str(found[0]) for recalled in entry.extra.get("recalled", ()) for found in recalled[1:] if found]
        for cell in entry.cells:
            # What seems unknown may stand in a value that is locked here, or erased.
            if ("usage" in entry.extra or "own_prompt" in entry.extra) and not locked:
                text = _open_text(cell)
                checked += len({span.text for span in ids_in(text)})
                for item in unknown_ids(text, known):
                    nearest = item.nearest if item.nearest and normal_id(item.nearest) not in hidden else ""
                    changed.append(ChangedId(item.id, entry.writer, item.kind, nearest))
        known += [text_of(dict(cell.values)) for cell in entry.cells]
        hidden |= {span for cell in entry.cells for span in _sensitive_ids(cell)}
        locked = locked or any(cell.locked or cell.erased for cell in entry.cells)
    return changed, checked


def _given(shared: CellView, entry: EntryView) -> dict[str, Any]:
    """Return what of a change of a shared value still showed when an entry was given it.

    What had been set anew or deleted by then need not be in the log any more.
    """
    later = [
        read.cell
        for read in entry.reads
        if read.cell.shared
        and (read.cell.contract.name, read.cell.contract.version) == (shared.contract.name, shared.contract.version)
        and (read.cell.revision, read.cell.number) > (shared.revision, shared.number)
    ]
    gone = {one.name for cell in later for i, one in enumerate(cell.contract.fields) if cell.deleted >> i & 1}
    return {name: value for name, value in shared.values.items() if name not in gone}


def _sensitive_ids(cell: CellView) -> Iterator[str]:
    """Identifiers that no report may show, not even as the nearest known one."""
    if any(field.sensitive for field in cell.contract.fields):
        # As JSON: numbers and the keys of dicts are values as well.
        values = {field.name: cell.values.get(field.name) for field in cell.contract.fields if field.sensitive}
        text = f"{canonical(values).decode()}\n{text_of(values)}"
        yield from (normal_id(span.text) for span in ids_in(text))


def _open_text(cell: CellView) -> str:
    return text_of({field.name: cell.values.get(field.name) for field in cell.contract.fields if not field.sensitive})


def _id_cause(item: ChangedId) -> str:
    if item.nearest:
        return f"{item.kind} identifier, the nearest known one is {item.nearest}"
    return "this identifier stands nowhere in the run before"
