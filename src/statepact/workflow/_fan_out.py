"""One step for each of many values, and a reader that takes what came of them.

What a fan-out runs over is a list that an earlier step has committed, so the set is fixed and recorded
before the first branch starts, and is the same after a restart. Who gathers is ready when every branch
has ended, one way or another; it is told how many of how many came, and that is recorded with its
output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from statepact.contracts import Contract

C = TypeVar("C", bound=Contract)


@dataclass(frozen=True, slots=True)
class Each:
    """Mark of a parameter that takes one value of a list: `query: Annotated[str, Each(Plan, "queries")]`.

    The step then runs once for each value of that field, all at the same time, each as a branch of its
    own: `0`, `1`, … in the order of the list.
    """

    contract: type[Contract]
    field: str


@dataclass(frozen=True, slots=True)
class Gathered(Generic[C]):
    """What came of several steps or branches: `offers: Gathered[Offer]`.

    A step that reads this runs even if some of them failed; one that reads `list[Offer]` wants all of
    them and does not. At least one must have come, unless there was nothing to come. What arrives after
    the step has committed is kept, but does not run it again.
    """

    values: tuple[C, ...]
    """What was committed, in the order of the commits."""
    missing: tuple[str, ...] = ()
    """Who has not: names of steps, `step/branch` for branches."""
    expected: int = 0
    """How many were waited for."""

    def __iter__(self) -> Iterator[C]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        return f"{self.expected - len(self.missing)} of {self.expected}"


@dataclass(frozen=True, slots=True)
class Awaited:
    """Whom a gathering step waits for: fixed before it runs."""

    names: tuple[str, ...]
    """All steps and branches that could have committed a value."""
    missing: tuple[str, ...]
    """Those of them that failed."""
