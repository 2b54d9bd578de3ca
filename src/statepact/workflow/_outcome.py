"""How a step ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from statepact.errors import StatepactError

Ending = Literal["done", "stored", "degraded", "skipped", "blocked", "failed"]
"""How a step ended. `stored`: its result was already in the log. `degraded`: its fallback was
committed. `skipped`: the branch it belongs to was not taken. `blocked`: an input never came."""

_WORST_FIRST: tuple[Ending, ...] = ("failed", "blocked", "degraded", "done")

BROKEN: tuple[Ending, ...] = ("failed", "blocked")
"""Endings after which a value is still to come, once the run is resumed."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of a step."""

    ending: Ending
    problem: StatepactError | None = None
    """What went wrong, also for a degraded step."""
    attempts: int = 0
    wrote: tuple[str, ...] = ()
    """Names of the contracts that it committed."""
    branches: Mapping[str, StepOutcome] = field(default_factory=dict)
    """How each branch ended, for a step that runs over a list."""
    runs_over: bool = False
    """Whether the step runs over a list, which may be empty."""
    gathered: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """For each contract that it gathers: how many came, of how many."""


def together(branches: Mapping[str, StepOutcome]) -> StepOutcome:
    """Return how a step ended whose branches ended so."""
    endings = [outcome.ending for outcome in branches.values()]
    ending: Ending = next((one for one in _WORST_FIRST if one in endings), "stored")
    problems = (o.problem for o in branches.values() if o.problem is not None)
    return StepOutcome(
        ending if branches else "done",
        next(problems, None),
        attempts=sum(outcome.attempts for outcome in branches.values()),
        wrote=tuple(dict.fromkeys(name for outcome in branches.values() for name in outcome.wrote)),
        branches=branches,
        runs_over=True,
    )
