"""Where logs live. Names are loaded on first use, so that a store nobody opens costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statepact.stores._base import (
        Entity,
        EntityUse,
        Hold,
        NewEntry,
        Rewrite,
        SessionInfo,
        Store,
        StoredHeader,
    )
    from statepact.stores._cached import CacheCounts, CachedStore
    from statepact.stores._erase import Erasure, erase
    from statepact.stores._find import FoundSession, find_sessions
    from statepact.stores._memory import MemoryStore
    from statepact.stores._missing import missing
    from statepact.stores._postgres import PostgresStore
    from statepact.stores._redis import RedisStore
    from statepact.stores._retain import Keep, Retention, Stay, retain
    from statepact.stores._rotate import Rotation, rotate
    from statepact.stores._sqlite import SqliteStore
    from statepact.stores._urls import open_store
    from statepact.stores._verify import verify

_HOMES = {
    "CacheCounts": "_cached",
    "CachedStore": "_cached",
    "Entity": "_base",
    "EntityUse": "_base",
    "Erasure": "_erase",
    "FoundSession": "_find",
    "Hold": "_base",
    "Keep": "_retain",
    "MemoryStore": "_memory",
    "NewEntry": "_base",
    "PostgresStore": "_postgres",
    "RedisStore": "_redis",
    "Retention": "_retain",
    "Rewrite": "_base",
    "Rotation": "_rotate",
    "SessionInfo": "_base",
    "SqliteStore": "_sqlite",
    "Stay": "_retain",
    "Store": "_base",
    "StoredHeader": "_base",
    "erase": "_erase",
    "find_sessions": "_find",
    "missing": "_missing",
    "open_store": "_urls",
    "retain": "_retain",
    "rotate": "_rotate",
    "verify": "_verify",
}

__all__ = [
    "CacheCounts",
    "CachedStore",
    "Entity",
    "EntityUse",
    "Erasure",
    "FoundSession",
    "Hold",
    "Keep",
    "MemoryStore",
    "NewEntry",
    "PostgresStore",
    "RedisStore",
    "Retention",
    "Rewrite",
    "Rotation",
    "SessionInfo",
    "SqliteStore",
    "Stay",
    "Store",
    "StoredHeader",
    "erase",
    "find_sessions",
    "missing",
    "open_store",
    "retain",
    "rotate",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
