"""A step: its name, its body, its wires, and what happens when it fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statepact.contracts import Contract, fact_fields
from statepact.errors import SetupError
from statepact.ledger._lifetime import USUAL_PRIORITY

if TYPE_CHECKING:
    from statepact.workflow._wiring import Body, Wires

Fallback = Contract | tuple[Contract, ...] | Callable[..., Any]
"""What a failed step commits instead: a value, or a function with the step's own parameters."""

Settled = Contract | tuple[Contract, ...] | None
"""What a person says about an effect that may have happened: its result, or `None` if it did not."""


MOST_RERUNS = 10
"""How often a step runs again because somebody changed a shared value that it had read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRules:
    """How a step behaves when something goes wrong, and what its prompts may cost."""

    timeout: float | None = None
    """Seconds for one attempt; `None` waits for ever."""
    retries: int = 0
    """Further attempts after a failed one."""
    fallback: Fallback | None = None
    """What to commit when the last attempt has failed; the result is labelled as degraded."""
    covers: tuple[tuple[type[Contract], str], ...] = ()
    """Facts that this step's output must deal with, as (contract, field)."""
    budget: int | None = None
    """Most tokens of a prompt; `None` takes the workflow's."""
    priority: int = USUAL_PRIORITY
    """How long a cache keeps the session after the step; see `Lifetimes`."""
    effect: bool = False
    """Whether the step does something outside that must not happen twice."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a workflow."""

    name: str
    body: Body
    wires: Wires
    rules: StepRules

    @property
    def is_async(self) -> bool:
        """Whether the body is a coroutine function; others run in a thread."""
        return inspect.iscoroutinefunction(self.body)


def checked_priority(name: str, priority: int) -> int:
    """Return a priority, or raise `SetupError` for one below 0."""
    if priority < 0:
        raise SetupError(f"step {name!r} has priority {priority}", hint="use 0 (until deleted) or more")
    return priority


def checked_rules(name: str, rules: StepRules) -> StepRules:
    """Return the rules, or raise `SetupError` if one makes no sense."""
    if rules.timeout is not None and rules.timeout <= 0:
        raise SetupError(f"step {name!r} has a timeout of {rules.timeout} seconds", hint="use a positive number")
    checked_priority(name, rules.priority)
    if rules.retries < 0:
        raise SetupError(f"step {name!r} has {rules.retries} retries", hint="use 0 or more")
    if rules.budget is not None and rules.budget <= 0:
        raise SetupError(f"step {name!r} has a budget of {rules.budget} tokens", hint="use a positive number")
    for contract, field in rules.covers:
        if field not in {fact.name for fact in fact_fields(contract)}:
            raise SetupError(f"step {name!r} covers {contract.__name__}.{field}, which does not exist")
    return rules
