"""Store URLs: `memory:`, `sqlite:///state.db`, `postgresql://user@host/database?schema=state`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from statepact.errors import SetupError

if TYPE_CHECKING:
    from statepact.stores._base import Store


def open_store(url: str, *, cache: str | None = None) -> Store:
    """Return the store of a URL; it connects at first use.

    `cache` is the URL of a cache to put in front of it: `redis://…` or `memory:`.

    | URL | options after a question mark |
    |---|---|
    | `memory:` | |
    | `sqlite:///relative/path.db`, `sqlite:////absolute/path.db` | `durability`, `lock_timeout`, `read_only` |
    | `postgresql://user:password@host:5432/database` | `schema`, `durability`, `timeout`, `connections`, the driver's |
    | `redis://:password@host:6379/0`, `rediss://…`, `unix:///path` | `mode`, `wait`, `timeout`, `prefix`, `trace` |
    | `redis+sentinel://host:26379,host:26379/primary`, `redis+cluster://host:6379` | the same, see `RedisStore` |

    `durability` is `power` or `process`, times are in seconds, `read_only` is `1`. Raises `SetupError`
    for anything else, and `MissingExtra`; a password in the URL is not repeated.
    """
    if cache is not None:
        return _cached(url, cache)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise SetupError("this store URL cannot be understood", hint=f"use one of {_FORMS}") from None
    opener = _SCHEMES.get(parts.scheme)
    if opener is None:
        raise SetupError(
            f"{parts.scheme!r} is not a store this version can open"
            if parts.scheme
            else "a store is named by a URL, and this is none",
            hint=f"use one of {_FORMS}",
        )
    return opener(url, parts)


def _cached(url: str, cache: str) -> Store:
    from statepact.stores._cached import CachedStore

    scheme = cache.partition(":")[0]
    if scheme == "memory":
        from statepact.stores._memory import MemoryStore

        return CachedStore(open_store(url), MemoryStore())
    if not scheme.startswith(("redis", "unix")):
        raise SetupError(f"{scheme!r} is no cache", hint="use redis://host:6379/0, or memory:")
    from statepact.stores._redis import RedisStore

    found = open_store(cache if "mode=" in cache else f"{cache}{'&' if '?' in cache else '?'}mode=cache")
    assert isinstance(found, RedisStore)
    if found.mode != "cache":
        raise SetupError("a record cannot be the cache of another one", hint="leave out ?mode=record")
    return CachedStore(open_store(url), found)


def _memory(url: str, parts: SplitResult) -> Store:
    from statepact.stores._memory import MemoryStore

    return MemoryStore(**_options(parts, {}))


def _sqlite(url: str, parts: SplitResult) -> Store:
    from statepact.stores._sqlite import SqliteStore

    if parts.netloc or not parts.path.startswith("/") or len(parts.path) < 2:
        raise SetupError("this sqlite URL names no file", hint=f"use one of {_FORMS}")
    known = _options(parts, {"durability": str, "lock_timeout": _seconds, "read_only": _is_yes})
    return SqliteStore(unquote(parts.path[1:]), **known)


def _postgresql(url: str, parts: SplitResult) -> Store:
    from statepact.stores._postgres import PostgresStore

    # It knows its own options from those of its driver.
    return PostgresStore.from_url(url)


def _redis(url: str, parts: SplitResult) -> Store:
    from statepact.stores._redis import RedisStore

    return RedisStore.from_url(url)


_SCHEMES: Mapping[str, Callable[[str, SplitResult], Store]] = {
    "memory": _memory,
    "postgres": _postgresql,
    "postgresql": _postgresql,
    "redis": _redis,
    "redis+cluster": _redis,
    "redis+sentinel": _redis,
    "rediss": _redis,
    "rediss+cluster": _redis,
    "rediss+sentinel": _redis,
    "sqlite": _sqlite,
    "unix": _redis,
}
_FORMS = (
    "memory:, sqlite:///relative/path.db, sqlite:////absolute/path.db, postgresql://user@host/database,"
    " redis://host:6379/0"
)


def _options(parts: SplitResult, known: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Return the options of a URL as arguments; raise for one that is not known."""
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise SetupError(f"unknown store option: {', '.join(unknown)}")
    values: dict[str, Any] = {}
    for name, text in given.items():
        try:
            values[name] = known[name](text)
        except ValueError:
            raise SetupError(f"{name} is not a number of seconds") from None
    return values


def _seconds(text: str) -> float:
    return float(text)


def _is_yes(text: str) -> bool:
    return text in ("1", "true", "yes")
