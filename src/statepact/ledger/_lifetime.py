"""How long a session stays in a cache.

Lifetimes are policy, not storage: stores receive a number and obey. They concern copies only; what is
committed to a record stays until a retention rule or an erasure ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

USUAL_PRIORITY = 1
"""Priority of a step that states none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Lifetimes that grow with the priority of the step that committed."""

    hot: timedelta = timedelta(minutes=5)
    """How long the newest state stays, whoever committed it: nothing leaves sooner."""
    base: timedelta = timedelta(minutes=5)
    """What a step would get before its priority counts."""
    per_priority: timedelta = timedelta(minutes=1)
    """How much each point of priority adds."""

    def keep(self, priority: int) -> float | None:
        """Return seconds, or `None` for "until deleted".

        Batch work has priority 0: nobody waits for it, so nothing may expire under it.
        """
        if priority == 0:
            return None
        return max(self.hot, self.base + priority * self.per_priority).total_seconds()


LIFETIMES = Lifetimes()
USUAL_KEEP = LIFETIMES.keep(USUAL_PRIORITY)
"""Seconds for which a cache keeps what no step has given a priority."""
