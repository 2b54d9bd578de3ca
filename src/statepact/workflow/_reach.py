"""Which fact can reach which reader, computed before anything runs.

A fact reaches a step if the step declares its contract, or if the field is pinned and its writer
comes before the step. Everything else never arrives, however good the model is; so it is an error
here and not a wrong answer later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from statepact.contracts import Contract, FactField, fact_fields, label
from statepact.errors import SetupError, Unreachable
from statepact.ledger import REQUEST_STEP
from statepact.workflow._step import Step


class UnclaimedFacts(UserWarning):
    """A step hands on facts that no later step declares and that are not pinned."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The checked graph of a workflow."""

    steps: tuple[Step, ...]
    """In an order in which every step comes after those it reads from."""
    writers: dict[type[Contract], tuple[str, ...]]
    """Names of the steps that write a contract, `request` for what the run is asked."""
    results: tuple[type[Contract], ...]
    """Contracts that are the outcome of the workflow."""
    unclaimed: tuple[FactField, ...]

    sources: dict[str, frozenset[str]]
    """For each step by name, the names of the steps that it waits for."""


def wiring(
    workflow: str,
    steps: Sequence[Step],
    *,
    request: type[Contract],
    results: Sequence[type[Contract]] | None,
) -> Wiring:
    """Check the graph of a workflow and return it; raises `SetupError` with all problems of a kind."""
    if not steps:
        raise SetupError(f"workflow {workflow!r} has no steps")
    writers: dict[type[Contract], list[str]] = {request: [REQUEST_STEP]}
    for step in steps:
        for contract in step.wires.outputs:
            writers.setdefault(contract, []).append(step.name)
    _refuse_same_name([*writers, *(held.contract for step in steps for held in step.wires.shared)])
    _refuse_unwritten(workflow, steps, writers)
    ordered = _ordered(workflow, steps, writers)
    frozen = {contract: tuple(names) for contract, names in writers.items()}
    outcome = tuple(results) if results is not None else _outcome(steps, frozen)
    for contract in outcome:
        if contract not in frozen:
            raise Unreachable(f"workflow {workflow!r} promises {contract.__name__}, which no step returns")
    sources = {step.name: frozenset(_sources(step, frozen)) for step in steps}
    graph = Wiring(ordered, frozen, outcome, tuple(_unclaimed(steps, frozen, outcome)), sources)
    _refuse_unreachable(graph)
    return graph


def _sources(step: Step, writers: Mapping[type[Contract], Sequence[str]]) -> set[str]:
    return {writer for wire in step.wires.inputs for writer in writers[wire.contract]} - {REQUEST_STEP}


def _refuse_same_name(writers: Iterable[type[Contract]]) -> None:
    seen: dict[str, type[Contract]] = {}
    for contract in writers:
        other = seen.setdefault(contract.contract_name, contract)
        if other is not contract:
            raise SetupError(
                f"two contracts of the workflow are stored as {contract.contract_name!r}",
                hint="rename one, or give it a name: class Order(Contract, name=...)",
            )


def _refuse_unwritten(workflow: str, steps: Sequence[Step], writers: dict[type[Contract], list[str]]) -> None:
    lines = []
    for step in steps:
        for wire in step.wires.inputs:
            names = writers.get(wire.contract, [])
            if not names:
                lines.append(f"step {step.name!r} reads {wire.contract.__name__}, which no step returns")
            elif names == [step.name]:
                lines.append(f"step {step.name!r} reads {wire.contract.__name__}, which only itself returns")
    if lines:
        known = ", ".join(sorted(contract.__name__ for contract in writers))
        raise Unreachable(
            f"workflow {workflow!r} cannot run\n" + "\n".join(f"  {line}" for line in lines),
            hint=f"add the step that returns it; known here: {known}",
        )


def _ordered(workflow: str, steps: Sequence[Step], writers: dict[type[Contract], list[str]]) -> tuple[Step, ...]:
    waiting = {step.name: _sources(step, writers) for step in steps}
    done: list[Step] = []
    left = list(steps)
    while left:
        ready = [step for step in left if not waiting[step.name] - {other.name for other in done}]
        if not ready:
            names = ", ".join(step.name for step in left)
            raise SetupError(
                f"workflow {workflow!r} goes round in a circle: {names}",
                hint="a step must not wait for its own result; give the later value a contract of its own",
            )
        done += ready
        left = [step for step in left if step not in ready]
    return tuple(done)


def _outcome(steps: Sequence[Step], writers: dict[type[Contract], tuple[str, ...]]) -> tuple[type[Contract], ...]:
    """Without a declaration, the outcome is what the last step returns that nobody reads."""
    read = {wire.contract for step in steps for wire in step.wires.inputs}
    for step in reversed(steps):
        unread = tuple(contract for contract in step.wires.outputs if contract not in read)
        if unread:
            # Branches that end in the same or in alternative contracts are all the outcome.
            return unread
    return ()


def _unclaimed(
    steps: Sequence[Step], writers: dict[type[Contract], tuple[str, ...]], outcome: tuple[type[Contract], ...]
) -> Iterator[FactField]:
    read = {wire.contract for step in steps for wire in step.wires.inputs}
    for contract, names in writers.items():
        if contract in read or contract in outcome or names == (REQUEST_STEP,):
            continue
        yield from (fact for fact in fact_fields(contract) if not fact.pinned)


def _refuse_unreachable(graph: Wiring) -> None:
    before = _before(graph)
    lines = []
    for step in graph.steps:
        declared = {wire.contract for wire in step.wires.inputs}
        for contract, field in _owed(step):
            fact = next(fact for fact in fact_fields(contract) if fact.name == field)
            names = graph.writers.get(contract)
            if names is None:
                lines.append(f"{fact.label} is owed by {step.name!r}, but no step returns {label(contract)}")
            elif contract in declared:
                continue
            elif not fact.pinned:
                others = ", ".join(sorted(c.__name__ for c in declared)) or "nothing"
                lines.append(
                    f"{fact.label} is owed by {step.name!r} but cannot reach it:"
                    f" it declares only {others}, and the field is not pinned"
                )
            elif not before[step.name] & set(names) and REQUEST_STEP not in names:
                lines.append(
                    f"{fact.label} is owed by {step.name!r} but may not be there yet:"
                    f" nothing makes it wait for {' or '.join(map(repr, names))}"
                )
    if lines:
        raise Unreachable("\n".join(lines), hint="let the step read the contract, or pin the field: Pinned[...]")


def _owed(step: Step) -> Iterator[tuple[type[Contract], str]]:
    yield from step.rules.covers
    for output in step.wires.outputs:
        for fact in fact_fields(output):
            for link in fact.links:
                yield link.contract, link.field


def _before(graph: Wiring) -> dict[str, frozenset[str]]:
    """Return for each step the names of all steps that have certainly ended when it starts."""
    before: dict[str, frozenset[str]] = {}
    for step in graph.steps:
        sources = graph.sources[step.name]
        before[step.name] = sources.union(*(before[name] for name in sources))
    return before
