"""One event loop in a background thread, for code that has none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from statepact.errors import SetupError

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for its result.

    Raises `SetupError` on that loop itself, which would wait for itself for ever.
    """
    loop = _running_loop()
    if asyncio._get_running_loop() is loop:
        coroutine.close()
        raise SetupError("a coroutine uses a session opened with `with`", hint="open it with `async with`")
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="statepact-loop", daemon=True).start()
        return _loop
