"""C1, `kill -9` of a worker: at random, and at every named crash point."""

import random
import time
from collections.abc import Callable

from faults import _points
from faults._checker import check
from faults._children import Child
from faults._place import Place, nothing
from faults._stores import Target
from faults._tally import Tally
from faults._worker import Job, run_worker

LIVES = 10
"""Workers that follow each other on one store before a new one is begun: what is checked grows."""


def kill_at_random(place: Place, target: Target, count: int, *, bug: Callable[[], None] = nothing) -> Tally:
    """Kill a worker at a random moment, start the next one, which does the last run again."""
    tally = Tally(target.store, target.mode, "kill -9 of a worker, at random", target.control, seeds=place.seeds(count))
    chance = random.Random(place.seed)
    for start in range(0, count, LIVES):
        with target.opened(place) as url:
            place.ledger.clear()
            for _ in range(min(LIVES, count - start)):
                _one_life(place, target, url, tally, bug, lambda child: _let_live(place, child, chance))
            tally.count(check(url, place.ledger.read()))
    return tally.done()


def kill_at_points(place: Place, target: Target, rounds: int, *, bug: Callable[[], None] = nothing) -> Tally:
    """Kill a worker at each named crash point."""
    chance = random.Random(place.seed)
    points = [name for name in _points.names(target.kind) for _ in range(rounds)]
    tally = Tally(target.store, target.mode, f"kill -9 at {len(set(points))} named crash points", target.control)
    tally.seeds = place.seeds(rounds)
    for start in range(0, len(points), LIVES):
        with target.opened(place) as url:
            place.ledger.clear()
            for point in points[start : start + LIVES]:
                nth = chance.randint(1, 2 if point.split()[-1] in _points.RARE else 12)

                def plant(point: str = point, nth: int = nth) -> None:
                    _points.CrashPoint(point, nth).install(target.kind)
                    bug()

                died = _one_life(place, target, url, tally, plant, lambda child: child.wait(3.0) == -9)
                if not died:
                    tally.trouble(f"crash point {point!r} was not reached")
            books = place.ledger.read()
            tally.count(check(url, books))
            if target.kind == "redis":
                with _points.much_later():
                    tally.add(check(url, books), hit=False)  # finishes what the dead had begun
                tally.add(check(url, books), hit=False)
    return tally.done()


def _one_life(
    place: Place, target: Target, url: str, tally: Tally, bug: Callable[[], None], end: Callable[[Child], bool]
) -> bool:
    before = place.ledger.read()
    job = Job(url, place.ledger.path).after(before)

    def live() -> None:
        bug()
        run_worker(job)

    child = Child(live)
    died = end(child)
    child.kill()
    books = place.ledger.read()
    found = check(url, books)
    tally.add(found, hit=books.flying_now > before.flying_now)
    return died


def _let_live(place: Place, child: Child, chance: random.Random) -> bool:
    before = place.ledger.acked()
    give_up = time.monotonic() + 5
    while place.ledger.acked() == before and time.monotonic() < give_up and child.wait(0) is None:
        time.sleep(0.005)
    time.sleep(chance.random() * 0.12)
    return True
