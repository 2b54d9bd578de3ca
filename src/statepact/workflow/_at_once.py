"""Results of coroutines that do not have to wait."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from statepact.errors import SetupError

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
