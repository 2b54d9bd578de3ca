"""What has changed in a session between two revisions, field by field. No I/O.

Outputs are written once, so between two revisions they come into being or are erased; shared values
change. Each side is a state: what each field holds, and who has put it there. Two states of any origin
can be compared: of two revisions, of two runs, of a session and its fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from statepact.contracts._marks import MASK
from statepact.ledger._shown import shown, visible

How = Literal["added", "changed", "null", "deleted", "erased", "absent", "locked"]

SIGNS: Mapping[str, str] = {
    "added": "+", "changed": "~", "null": "∅", "deleted": "-", "erased": "✗", "absent": "·", "locked": "?",
}  # fmt: skip


class FactPlace(NamedTuple):
    """Which field of what is meant, on both sides."""

    run: str
    """Empty for a shared value, which belongs to no run."""
    writer: str
    """Step, and branch where there is one; empty for a shared value."""
    contract: str
    number: int
    """Which one, where a step has written several values of a contract."""
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a field holds in a state."""

    state: Literal["value", "null", "deleted", "erased"]
    value: Any = field(default=None, repr=False)
    merged: tuple[Any, ...] = field(default=(), repr=False)
    """What was merged into it since, where the rule for that is not known here."""
    writer: str = ""
    run: str = ""
    revision: int = 0
    """Where it was written, deleted or erased."""
    sensitive: bool = False
    is_known: bool = True
    """False for a sealed value without its key, and for one that was erased later."""
    remark: str = ""
    """Who erased it and why, or that it was erased later."""

    def equals(self, other: Held) -> bool | None:
        """Whether both hold the same; `None` if nobody can tell without a key."""
        if self.state != other.state:
            return False
        if self.state != "value" or (self.run, self.writer, self.revision) == (other.run, other.writer, other.revision):
            return True
        if not (self.is_known and other.is_known):
            return None
        return bool(self.value == other.value and self.merged == other.merged)

    @property
    def text(self) -> str:
        """As it is shown to people."""
        if self.state != "value":
            return self.state
        if self.sensitive:
            return MASK
        if not self.is_known:
            return self.remark or MASK
        if not self.merged:
            return shown(self.value)
        return f"merge of {', '.join(map(shown, self._parts))}"

    def as_json(self) -> Any:
        """As plain JSON, masked like everywhere."""
        if self.sensitive and self.state == "value":
            return MASK
        return {"merge_of": list(self._parts)} if self.merged else self.value

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.merged if self.value is None else (self.value, *self.merged)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """One field that is different."""

    how: How
    place: FactPlace
    before: Held | None
    after: Held | None

    @property
    def fact(self) -> str:
        """`Order.status`."""
        return visible(f"{self.place.contract}.{self.place.field}")

    @property
    def by(self) -> str:
        """Who has changed it, and at which revision."""
        held = self.after or self.before
        if held is None:
            return ""
        who = visible(held.writer if not held.run or held.run == self.place.run else f"{held.writer} of {held.run}")
        return f"{who} · {held.revision}" if held.revision and who else who or str(held.revision or "")

    @property
    def values(self) -> str:
        """From what to what, as it is shown to people."""
        if self.how == "erased" and self.after is not None:
            return self.after.remark
        before = self.before.text if self.before is not None else ""
        if self.after is None or self.before is None:
            return before or (self.after.text if self.after is not None else "")
        return f"{before} → {self.after.text}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values; a side on which the field is not there has no key."""
        place = self.place
        plain: dict[str, Any] = {"change": self.how, "contract": place.contract, "field": place.field}
        plain |= {"run": place.run, "step": place.writer, "number": place.number} if place.run else {"shared": True}
        for name, held in (("from", self.before), ("to", self.after)):
            if held is not None and held.state in ("value", "null"):
                plain[name] = held.as_json()
        last = self.after or self.before
        if last is not None:
            plain |= {"writer": last.writer, "writer_run": last.run, "revision": last.revision}
            plain |= {"remark": last.remark} if last.remark else {}
        return plain


@dataclass(frozen=True, slots=True)
class RunState:
    """A run at a revision."""

    workflow: str = ""
    status: str = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What there is at a revision."""

    label: str
    facts: Mapping[FactPlace, Held] = field(default_factory=dict, repr=False)
    runs: Mapping[str, RunState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What is different between two states of a session; empty is false."""

    session: str
    before: str
    """`revision 3`, and more where that is not all."""
    after: str
    states: Mapping[str, tuple[RunState | None, RunState | None]] = field(default_factory=dict)
    """All runs in the order of the log, as they stand on both sides."""
    changes: tuple[Change, ...]
    """In the order of the log, run by run, then the shared values."""
    removed: int = 0
    """Entries that a retention rule has removed, so that nobody knows what they held."""

    @property
    def runs(self) -> Mapping[str, tuple[RunState | None, RunState | None]]:
        """Runs that are new, gone, or of another status."""
        return {run: (before, after) for run, (before, after) in self.states.items() if before != after}

    def __bool__(self) -> bool:
        return bool(self.runs or self.changes)

    @property
    def groups(self) -> Iterator[tuple[str, tuple[Change, ...]]]:
        """Yield a heading and its changes: each run that has any, then the shared values."""
        for run in dict.fromkeys((*self.states, *(one.place.run for one in self.changes if one.place.run))):
            changes = tuple(one for one in self.changes if one.place.run == run)
            if changes or run in self.runs:
                yield self._heading(run), changes
        if shared := tuple(one for one in self.changes if not one.place.run):
            yield "shared", shared

    def _heading(self, run: str) -> str:
        before, after = self.states.get(run, (None, None))
        known = after or before
        parts = [f"run {run}", *([known.workflow] if known is not None and known.workflow else [])]
        if before is not None and after is not None:
            parts.append(before.status if before == after else f"{before.status} → {after.status}")
        elif known is not None:
            parts += ["new" if after is not None else "not there", known.status]
        return visible(" · ".join(parts))

    @property
    def title(self) -> str:
        """What is compared."""
        return visible(f"session {self.session} · {self.before} → {self.after}")

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values, sensitive ones masked."""
        return {
            "session": self.session,
            "before": self.before,
            "after": self.after,
            "removed": self.removed,
            "runs": {
                run: {"from": before and before.status, "to": after and after.status}
                for run, (before, after) in self.runs.items()
            },
            "changes": [change.as_dict() for change in self.changes],
        }

    def __str__(self) -> str:
        lines = [self.title]
        for heading, changes in self.groups:
            lines.append(heading)
            lines += [f"  {SIGNS[one.how]} {one.fact}  {one.values}  ({one.by})" for one in changes]
        if self.removed:
            lines.append(removed_text(self.removed))
        return "\n".join(lines if self or self.removed else [*lines, "  nothing is different"])


def removed_text(removed: int) -> str:
    """Return what is said about entries that a retention rule has removed."""
    return f"the oldest {removed} entries have been removed by a retention rule: what they held is not compared"


def compared(session: str, before: State, after: State, *, removed: int = 0) -> Diff:
    """Return what is different between two states."""
    changes = [
        Change(how=how, place=place, before=before.facts.get(place), after=after.facts.get(place))
        for place in dict.fromkeys((*after.facts, *before.facts))
        if (how := _how(before.facts.get(place), after.facts.get(place))) is not None
    ]
    runs = {run: (before.runs.get(run), after.runs.get(run)) for run in dict.fromkeys((*before.runs, *after.runs))}
    return Diff(
        session=session, before=before.label, after=after.label, states=runs, changes=tuple(changes), removed=removed
    )


def _how(before: Held | None, after: Held | None) -> How | None:
    if after is None:
        return "absent" if before is not None and before.state != "deleted" else None
    if before is None:
        return "added" if after.state == "value" else after.state
    equal = before.equals(after)
    if equal is None:
        return "locked"
    if equal:
        return None
    return "changed" if after.state == "value" else after.state
