"""C11: the core under a seeded scheduler, virtual time and a simulated store, with all faults mixed.

`simulate(seed)` is one simulation; the same seed is the same simulation, down to its trace.
"""

from __future__ import annotations

from faults.simulation._world import Outcome, World

__all__ = ["Outcome", "World", "simulate"]


def simulate(seed: int, *, synced_every: float | None = None) -> Outcome:
    """Run one simulation and return what was wrong with it, if anything.

    `synced_every` is the control arm: a store that loses what it has acknowledged when it crashes.
    """
    return World(seed, synced_every=synced_every).run()
