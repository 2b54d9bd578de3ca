"""What a retention has done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Stay(NamedTuple):
    """A run that the rule would let go, and that stays."""

    session: str
    run: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a retention has removed, or would remove."""

    sessions: tuple[str, ...] = ()
    """The sessions of which something goes."""
    runs: int = 0
    entries: int = 0
    values: int = 0
    """Values of facts that are nowhere any more."""
    large_values: int = 0
    """Large and sensitive values that lay beside their documents."""
    entities: int = 0
    """Things that the sessions are not about any more."""
    bytes: int = 0
    """Stored bytes of all that."""
    carried: int = 0
    """Changes of shared values that go on in the base of a log."""
    stays: tuple[Stay, ...] = ()
    """Runs that the rule would let go and that stay, with the reason."""
    dry_run: bool = False
    scrubbed: bool = True
    """Whether the store has also written over the bytes it had let go of; see `Erasure.scrubbed`."""

    def __add__(self, other: Retention) -> Retention:
        return Retention(
            sessions=self.sessions + other.sessions,
            runs=self.runs + other.runs,
            entries=self.entries + other.entries,
            values=self.values + other.values,
            large_values=self.large_values + other.large_values,
            entities=self.entities + other.entities,
            bytes=self.bytes + other.bytes,
            carried=self.carried + other.carried,
            stays=self.stays + other.stays,
            dry_run=self.dry_run or other.dry_run,
            scrubbed=self.scrubbed and other.scrubbed,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "dry_run": self.dry_run,
            "sessions": list(self.sessions),
            "runs": self.runs,
            "entries": self.entries,
            "values": self.values,
            "large_values": self.large_values,
            "entities": self.entities,
            "bytes": self.bytes,
            "carried": self.carried,
            "stays": [{"session": one.session, "run": one.run, "why": one.why} for one in self.stays],
            "scrubbed": self.scrubbed,
        }

    def __str__(self) -> str:
        how = "would be removed" if self.dry_run else "removed"
        lines = [
            f"{_count(self.runs, 'run')} {how} from {_count(len(self.sessions), 'session')}"
            f" · {self.entries} entries, {self.values} values, {self.large_values} large ones, {self.bytes} bytes"
        ]
        if self.carried:
            lines.append(f"  carried on in the base: {_count(self.carried, 'change')} of shared values")
        if self.entities:
            lines.append(f"  {'to be ' * self.dry_run}forgotten by the index: {self.entities} entities")
        lines += [f"  {one.session}: run {one.run!r} stays: {one.why}" for one in self.stays[:MOST_SHOWN]]
        if len(self.stays) > MOST_SHOWN:
            lines.append(f"  and {len(self.stays) - MOST_SHOWN} more runs stay")
        if not self.scrubbed:
            lines.append("  the store still holds the old bytes: somebody reads an old state, so scrub it later")
        return "\n".join(lines)


MOST_SHOWN = 20


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
