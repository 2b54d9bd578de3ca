"""Values and rules of the log: keys, headers, cells, snapshots, digests, the codec. No I/O."""

from __future__ import annotations

from statepact.ledger._key import DEFAULT_OWNER, SessionKey, check_name, session_key
from statepact.ledger._log import REQUEST_STEP, Cell, Entry, RunLog, SessionLog, Snapshot

__all__ = [
    "DEFAULT_OWNER",
    "REQUEST_STEP",
    "Cell",
    "Entry",
    "RunLog",
    "SessionKey",
    "SessionLog",
    "Snapshot",
    "check_name",
    "session_key",
]
