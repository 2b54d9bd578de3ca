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
    from statepact.stores._memory import MemoryStore
    from statepact.stores._rotate import Rotation, rotate
    from statepact.stores._sqlite import SqliteStore
    from statepact.stores._urls import open_store

_HOMES = {
    "Entity": "_base",
    "EntityUse": "_base",
    "Hold": "_base",
    "MemoryStore": "_memory",
    "NewEntry": "_base",
    "Rewrite": "_base",
    "Rotation": "_rotate",
    "SessionInfo": "_base",
    "SqliteStore": "_sqlite",
    "Store": "_base",
    "StoredHeader": "_base",
    "open_store": "_urls",
    "rotate": "_rotate",
}

__all__ = [
    "Entity",
    "EntityUse",
    "Hold",
    "MemoryStore",
    "NewEntry",
    "Rewrite",
    "Rotation",
    "SessionInfo",
    "SqliteStore",
    "Store",
    "StoredHeader",
    "open_store",
    "rotate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
