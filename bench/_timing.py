"""Times that can be compared on a shared machine: candidates take turns, and the best round counts."""

import gc
from collections.abc import Callable, Mapping
from time import perf_counter

Round = Callable[[], float]
"""Does the work once and returns the seconds that count."""


def best(candidates: Mapping[str, Round], rounds: int) -> dict[str, float]:
    """Return the best time of each candidate. They run in turns (ABAB), so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for name, run in candidates.items():
        run()  # first use makes plans, caches and files
        times[name].clear()
    for _ in range(rounds):
        for name, run in candidates.items():
            gc.collect()
            times[name].append(run())
    return {name: min(values) for name, values in times.items()}


class Laps:
    """Times of equal pieces of work inside a round; the round's time is their first decile.

    On a shared machine the middle says how busy the others were.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self._start = 0.0

    def __enter__(self) -> "Laps":
        self._start = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.times.append(perf_counter() - self._start)

    @property
    def typical(self) -> float:
        return sorted(self.times)[len(self.times) // 10]
