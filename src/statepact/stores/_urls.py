"""Store URLs: `memory:`, `sqlite:///state.db`, `sqlite:////var/lib/app/state.db?durability=process`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from statepact.errors import SetupError

if TYPE_CHECKING:
    from statepact.stores._base import Store

_FORMS = "memory:, sqlite:///relative/path.db, sqlite:////absolute/path.db"


def open_store(url: str) -> Store:
    """Return the store of a URL; it connects at first use.

    Three slashes make a path relative to the working directory, four make it absolute. Options
    follow a question mark: `durability` (`power` or `process`), `lock_timeout` (seconds),
    `read_only` (`1`). Raises `SetupError` for anything else; a password in the URL is not repeated.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "memory":
        from statepact.stores._memory import MemoryStore

        _refuse_unknown(options)
        return MemoryStore()
    if parts.scheme == "sqlite" and not parts.netloc and parts.path.startswith("/") and len(parts.path) > 1:
        from statepact.stores._sqlite import SqliteStore

        known: dict[str, Any] = {}
        if "durability" in options:
            known["durability"] = options.pop("durability")
        if "lock_timeout" in options:
            known["lock_timeout"] = _seconds(options.pop("lock_timeout"))
        if "read_only" in options:
            known["read_only"] = options.pop("read_only") in ("1", "true", "yes")
        _refuse_unknown(options)
        return SqliteStore(unquote(parts.path[1:]), **known)
    raise SetupError(
        "this sqlite URL names no file"
        if parts.scheme == "sqlite"
        else f"{parts.scheme!r} is not a store this version can open"
        if parts.scheme
        else "a store is named by a URL, and this is none",
        hint=f"use one of {_FORMS}",
    )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SetupError("lock_timeout is not a number of seconds") from None


def _refuse_unknown(options: dict[str, str]) -> None:
    if options:
        raise SetupError(f"unknown store option: {', '.join(sorted(options))}")
