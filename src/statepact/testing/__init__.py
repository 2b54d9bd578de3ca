"""Fakes and suites for tests, shipped to users. Names are loaded on first use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statepact.testing._clock import FakeClock
    from statepact.testing._history import History
    from statepact.testing._linearizability import Contradiction, contradiction
    from statepact.testing._operations import Operation
    from statepact.testing._simulated_loop import SimulatedLoop, SimulatedProcess, Stuck
    from statepact.testing._simulated_store import SimulatedStore, Weather
    from statepact.testing._store_suite import StoreSuite

_HOMES = {
    "Contradiction": "_linearizability",
    "FakeClock": "_clock",
    "History": "_history",
    "Operation": "_operations",
    "SimulatedLoop": "_simulated_loop",
    "SimulatedProcess": "_simulated_loop",
    "SimulatedStore": "_simulated_store",
    "StoreSuite": "_store_suite",
    "Stuck": "_simulated_loop",
    "Weather": "_simulated_store",
    "contradiction": "_linearizability",
}
_SUITES = (
    *("_sentences", "_change_suite", "_commit_suite", "_fault_suite", "_history_suite", "_turn_suite"),
    "_store_suite",
)

__all__ = [
    "Contradiction",
    "FakeClock",
    "History",
    "Operation",
    "SimulatedLoop",
    "SimulatedProcess",
    "SimulatedStore",
    "StoreSuite",
    "Stuck",
    "Weather",
    "contradiction",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if _HOMES[name] in _SUITES:
        _explain_asserts()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def _explain_asserts() -> None:
    """Let pytest show both sides of a failed assert in the suites, as it does in test files."""
    try:
        import pytest
    except ImportError as error:
        from statepact.errors import MissingExtra

        raise MissingExtra("StoreSuite", extra="test") from error
    suites = [f"{__name__}.{suite}" for suite in _SUITES]
    pytest.register_assert_rewrite(*(suite for suite in suites if suite not in sys.modules))
