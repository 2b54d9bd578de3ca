"""The one place where running steps meets the choice of a store, and of the key of its logs.

Runners receive a store. A user may also name one by URL, or none; what that means is decided here,
so that nothing else in this package knows a backend.
"""

from __future__ import annotations

import os

from statepact.ledger._keyed import checked_key
from statepact.stores import MemoryStore, open_store
from statepact.stores._base import Store

LOG_KEY = "STATEPACT_LOG_KEY"
"""Environment variable with the key of logs, for programs that are not given one."""


def chosen_log_key(choice: bytes | None) -> bytes | None:
    """Return the key under which logs are kept: the one that was given, else that of the environment, else none.

    Raises `SetupError` for a key that is too short.
    """
    if choice is None and (given := os.environ.get(LOG_KEY)):
        choice = given.encode()
    return checked_key(choice) if choice is not None else None


def chosen_store(choice: Store | str | None) -> tuple[Store, bool]:
    """Return the store of a choice and whether the caller has to close it.

    `None` is a store in memory of its own.
    """
    if choice is None:
        return MemoryStore(), False
    if isinstance(choice, str):
        return open_store(choice), True
    return choice, False
