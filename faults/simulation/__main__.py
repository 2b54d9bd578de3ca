"""`python -m faults.simulation`: run simulations, print what is wrong with them, and prove that it would be found."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter

from faults.simulation import simulate
from faults.simulation._planted import PLANTED, found_by


def main() -> int:
    """Return 0 if every simulation is right and every planted bug was found."""
    options = argparse.ArgumentParser(prog="python -m faults.simulation", description=__doc__)
    options.add_argument("--seeds", type=int, default=2_000, help="how many simulations")
    options.add_argument("--first", type=int, default=0, help="the first seed; with --seeds 1 to look at one")
    options.add_argument("--planted", action="store_true", help="look for the planted bugs, too")
    chosen = options.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    failed = _run(seeds)
    if chosen.planted:
        failed += _find_planted(seeds)
    return min(failed, 1)


def _run(seeds: range) -> int:
    # What was imported up to here is nobody's garbage.
    gc.collect()
    gc.freeze()
    started, failed, commits, refusals, hours = time.perf_counter(), 0, 0, 0, 0.0
    faults: Counter[str] = Counter()
    for seed in seeds:
        outcome = simulate(seed)
        faults.update(outcome.faults)
        commits += outcome.commits
        refusals += outcome.refusals
        hours += outcome.virtual_seconds / 3600
        if outcome.wrong:
            failed += 1
            print(f"seed {seed}, trace {outcome.trace}:")
            for wrong in outcome.wrong[:10]:
                print("   ", wrong.replace("\n", "\n    "))
    seconds = time.perf_counter() - started
    print(f"{len(seeds)} simulations, {failed} of them wrong, in {seconds:.1f} s")
    print(f"{commits} commits checked, {refusals} late ones refused, {hours:.1f} virtual hours")
    print(", ".join(f"{count} × {fault}" for fault, count in sorted(faults.items())))
    return failed


def _find_planted(seeds: range) -> int:
    missed = 0
    for name, planted in PLANTED.items():
        outcome = found_by(planted, seeds)
        missed += outcome is None
        found = "NOT FOUND" if outcome is None else f"seed {outcome.seed}: {outcome.wrong[0].splitlines()[0][:90]}"
        print(f"{name:10} {planted.says:55} {found}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
