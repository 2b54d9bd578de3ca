"""What clients of a store did and heard: the operations that a history consists of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from statepact.stores._base import Hold

Kind = Literal["append", "read", "hold"]
Result = Literal["ok", "behind", "held", "lost", "unknown"]
"""What the client heard. `behind`, `held` and `lost` are the refusals `Behind`, `SessionHeld` and
`LeaseLost`; after `unknown` it may happen at any time after the call, or never."""

NEVER = math.inf
"""When an answer came that did not come."""

SHOWN = 6
"""Entries of a long read that are spelled out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of one client on one session, with its answer.

    Entries are names: each append uses names of its own, so that a read says what it saw.
    """

    process: str
    kind: Kind
    called: float
    returned: float = NEVER
    result: Result = "ok"
    after: int = 0
    """The revision that an append compares, or after which a read starts."""
    entries: tuple[str, ...] = ()
    """What was to be appended, or what was read."""
    hold: Hold | None = None
    """The claim of a hold, or of an append that carries one."""

    def __str__(self) -> str:
        ended = "no answer" if self.result == "unknown" else f"{self.returned:.6g}"
        heard = {"ok": "", "unknown": "", "behind": ": refused, behind"}.get(self.result, f": refused, {self.result}")
        return f"[{self.called:.6g} – {ended}] {self.process} {self._said()}{heard}"

    def _said(self) -> str:
        if self.kind == "hold":
            return _claim(self.hold)
        names = " ".join(self.entries[-SHOWN:]) or "nothing"
        if len(self.entries) > SHOWN:
            names = f"{len(self.entries)} entries, the last ones {names}"
        if self.kind == "read":
            return f"reads after {self.after}: {names}"
        claim = f" and {_claim(self.hold)}" if self.hold is not None else ""
        return f"appends {names} after {self.after}{claim}"


def _claim(hold: Hold | None) -> str:
    if hold is None:
        return "holds nothing"
    if hold.seconds <= 0:
        return f"gives up for {hold.holder}"
    return f"{'claims' if hold.claim else 'renews'} for {hold.holder}, {hold.seconds:g} s"
