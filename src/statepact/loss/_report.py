"""What a measurement found: one structure from which text, JSON and pages are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Form = Literal["time", "role", "lifecycle", "semantic"]
"""How something was lost: cut or expired; never handed over; overwritten or in conflict; squeezed out."""

DeliveryState = Literal["delivered", "lost", "unchecked"]
Standing = Literal["proven", "claimed", "open", "contradicted"]

SIGNS: Mapping[str, str] = {
    "not yet known": "·",
    "born": "●",
    "not declared": "-",
    "delivered": "→",
    "unchecked": "?",
    "proven": "✓",
    "claimed": "~",
    "lost": "✗",
    "contradicted": "≠",
    "deleted": "∅",
}
"""The sign of each cell of the fact ledger. The word always stands beside it or in a legend."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A known fact and a step that was to get it."""

    fact: str
    writer: str
    reader: str
    state: DeliveryState


@dataclass(frozen=True, slots=True)
class Obligation:
    """A fact that the outcome had to deal with."""

    fact: str
    owed_by: str
    standing: Standing
    where: str = ""
    """The output field that proves or contradicts it, empty if none does."""
    writer: str = ""
    """The step whose fact it is; empty for a link, which is about the newest value."""


@dataclass(frozen=True, slots=True)
class ChangedId:
    """An identifier in an output that stands nowhere in what its step could know."""

    id: str
    step: str
    kind: str
    """`changed`, `truncated`, `ambiguous` or `unknown`."""
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class Loss:
    """One loss: which fact, in which form, and where it happened."""

    fact: str
    form: Form
    step: str
    cause: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A fact on which several writers differ, and a step that was to read one value of it."""

    fact: str
    reader: str
    writers: tuple[str, ...]
    values: tuple[tuple[str, str], ...] = ()
    """Writer and what it wrote, as text, cut; masked if sensitive. Empty if the log does not say."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One fact and what became of it at each step."""

    fact: str
    value: str
    """As text, cut; masked if sensitive."""
    cells: tuple[str, ...]
    """One word for each step, see `SIGNS`."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The fact ledger: rows are facts in the order of their birth, columns are steps."""

    steps: tuple[str, ...]
    rows: tuple[LedgerRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """What was known, what reached each reader, what was owed, and what was contradicted, in one run.

    Three questions with three denominators, never added up: deliveries (facts that a reader declared
    and that were known), obligations (facts that the outcome owed), contradictions (linked fields
    and identifiers of outputs). `checked_handoffs` of `handoffs` is how much of the delivery figure
    rests on what was really sent.
    """

    owner: str
    session: str
    run: str
    workflow: str
    status: str
    steps: int
    deliveries: tuple[Delivery, ...]
    obligations: tuple[Obligation, ...]
    links_checked: int
    ids_checked: int
    changed_ids: tuple[ChangedId, ...]
    unclaimed: tuple[str, ...]
    handoffs: int
    checked_handoffs: int
    losses: tuple[Loss, ...]
    ledger: Ledger
    conflicts: tuple[Conflict, ...] = ()
    """Facts on which writers differ so that their reader did not run, with what each wrote."""
    suspicious: tuple[str, ...] = ()
    """Facts whose text says `null` or `N/A`: kept as they are, and perhaps meant as no value. In changes of
    shared values also empty ones."""
    locked: tuple[str, ...] = ()
    """Sensitive facts whose values could not be opened for want of a key. What would have to be seen in
    them, such as whether the outcome deals with them, is in no figure."""
    deleted: tuple[str, ...] = ()
    """Facts that were erased. On purpose, so they are no loss, and what could only be seen in them is in no
    figure."""

    @property
    def delivered(self) -> int:
        """How many known facts stood in what their reader was given."""
        return sum(d.state == "delivered" for d in self.deliveries)

    @property
    def checked_deliveries(self) -> int:
        """How many deliveries could be checked."""
        return sum(d.state != "unchecked" for d in self.deliveries)

    @property
    def open(self) -> int:
        """How many obligations nothing in the outcome deals with."""
        return sum(o.standing == "open" for o in self.obligations)

    @property
    def contradicted(self) -> int:
        """How many linked fields differ from the fact they answer."""
        return sum(o.standing == "contradicted" for o in self.obligations)

    @property
    def rates(self) -> Mapping[str, float | None]:
        """The lost share of each question; `None` where nothing could be checked, which is not 0 %."""
        return {
            "delivery": _share(self.checked_deliveries - self.delivered, self.checked_deliveries),
            "obligation": _share(self.open + self.contradicted, len(self.obligations)),
            "contradiction": _share(self.contradicted + len(self.changed_ids), self.links_checked + self.ids_checked),
        }

    @property
    def is_complete(self) -> bool:
        """True if nothing was lost and every handoff was checked."""
        return not self.losses and not self.locked and self.checked_handoffs == self.handoffs

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        plain: dict[str, Any] = asdict(self)
        plain["ledger"] = {
            "steps": list(self.ledger.steps),
            "rows": [{"fact": r.fact, "value": r.value, "cells": list(r.cells)} for r in self.ledger.rows],
        }
        plain["rates"] = dict(self.rates)
        plain["delivered"] = self.delivered
        plain["open"] = self.open
        return plain

    def __str__(self) -> str:
        return "\n".join(summary_lines(self))


def summary_lines(report: LossReport) -> Sequence[str]:
    """Return a report as text: a headline, one line for each loss, then what was not checked."""
    parts = [
        f"{report.steps} step{'' if report.steps == 1 else 's'}",
        f"{report.delivered} of {report.checked_deliveries} deliveries",
        f"{report.open} of {len(report.obligations)} obligations open",
    ]
    if report.contradicted or report.changed_ids:
        parts.append(f"{report.contradicted + len(report.changed_ids)} contradicted")
    if report.status == "failed":
        parts.insert(0, "failed")
    lines = [f"{report.workflow or report.session}  {' · '.join(parts)}"]
    width = max((len(loss.fact) for loss in report.losses), default=0)
    lines += [f"  {loss.fact:<{width}}  {loss.cause}  ({loss.form}, at {loss.step})" for loss in report.losses]
    if report.suspicious:
        lines.append(f"  suspicious (a text that may mean no value): {', '.join(report.suspicious)}")
    if report.unclaimed:
        lines.append(f"  unclaimed (no later step declares them): {', '.join(report.unclaimed)}")
    if report.locked:
        lines.append(f"  locked (encrypted, and no key given): {', '.join(report.locked)}")
    if report.deleted:
        lines.append(f"  deleted (on purpose, so no loss): {', '.join(report.deleted)}")
    if report.checked_handoffs < report.handoffs:
        lines.append(
            f"  checked {report.checked_handoffs} of {report.handoffs} handoffs:"
            " for the others nobody reported what was sent"
        )
    return lines


def _share(lost: int, checked: int) -> float | None:
    return lost / checked if checked else None
