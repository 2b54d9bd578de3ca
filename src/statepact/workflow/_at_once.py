"""Results of coroutines for code that cannot await them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from statepact.errors import SetupError
from statepact.stores._base import Store

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that finishes without waiting, as reads of a local store do.

    Raises `SetupError` if it has to wait after all: its store needs an event loop.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    raise SetupError("this store cannot be read without an event loop", hint="read the values before the run ends")


def read_now(store: Store, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what a read of a store gives, before anything else happens on this thread.

    A store that has to wait for a server is read on the background loop meanwhile: as with a file, whoever
    must not stand still reads before, with `await`.
    """
    if not getattr(store, "needs_loop", False):
        return at_once(read())
    from statepact.workflow._portal import wait_for

    return wait_for(read())
