"""Values and rules of the log: keys, headers, cells, snapshots, digests, the codec. No I/O.

Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statepact.ledger._cells import Cell, Entry
    from statepact.ledger._key import DEFAULT_OWNER, REQUEST_STEP, SessionKey, check_name, session_key
    from statepact.ledger._log import RunLog, SessionLog
    from statepact.ledger._receipt import Receipt
    from statepact.ledger._snapshot import Snapshot
    from statepact.ledger._vault import KeyRing

_HOMES = {
    "Cell": "_cells",
    "DEFAULT_OWNER": "_key",
    "Entry": "_cells",
    "KeyRing": "_vault",
    "REQUEST_STEP": "_key",
    "Receipt": "_receipt",
    "RunLog": "_log",
    "SessionKey": "_key",
    "SessionLog": "_log",
    "Snapshot": "_snapshot",
    "check_name": "_key",
    "session_key": "_key",
}

__all__ = [
    "DEFAULT_OWNER",
    "REQUEST_STEP",
    "Cell",
    "Entry",
    "KeyRing",
    "Receipt",
    "RunLog",
    "SessionKey",
    "SessionLog",
    "Snapshot",
    "check_name",
    "session_key",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
