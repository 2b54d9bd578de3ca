"""Steps wired by their types, and single steps for scripts. Names are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statepact.workflow._context import Context
    from statepact.workflow._fan_out import Each, Gathered
    from statepact.workflow._outcome import StepOutcome
    from statepact.workflow._reach import UnclaimedFacts, Wiring
    from statepact.workflow._recalled import Candidate, Recalled
    from statepact.workflow._request import Request
    from statepact.workflow._run import Run
    from statepact.workflow._session import AsyncSession, Session, open_session
    from statepact.workflow._session_step import Uncommitted
    from statepact.workflow._shared import Shared
    from statepact.workflow._watch import watch
    from statepact.workflow._workflow import Workflow

_HOMES = {
    "AsyncSession": "_session",
    "Context": "_context",
    "Each": "_fan_out",
    "Candidate": "_recalled",
    "Gathered": "_fan_out",
    "Recalled": "_recalled",
    "Request": "_request",
    "Run": "_run",
    "Session": "_session",
    "StepOutcome": "_outcome",
    "UnclaimedFacts": "_reach",
    "Shared": "_shared",
    "Uncommitted": "_session_step",
    "Wiring": "_reach",
    "Workflow": "_workflow",
    "open_session": "_session",
    "watch": "_watch",
}

__all__ = [
    "AsyncSession",
    "Candidate",
    "Context",
    "Each",
    "Gathered",
    "Recalled",
    "Request",
    "Run",
    "Session",
    "Shared",
    "StepOutcome",
    "UnclaimedFacts",
    "Uncommitted",
    "Wiring",
    "Workflow",
    "open_session",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
