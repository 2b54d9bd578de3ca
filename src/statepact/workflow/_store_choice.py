"""The one place where running steps meets the choice of a store.

Runners receive a store. A user may also name one by URL, or none; what that means is decided here,
so that nothing else in this package knows a backend.
"""

from __future__ import annotations

from statepact.stores import MemoryStore, open_store
from statepact.stores._base import Store


def chosen_store(choice: Store | str | None) -> tuple[Store, bool]:
    """Return the store of a choice and whether the caller has to close it.

    `None` is a store in memory of its own.
    """
    if choice is None:
        return MemoryStore(), False
    if isinstance(choice, str):
        return open_store(choice), True
    return choice, False
