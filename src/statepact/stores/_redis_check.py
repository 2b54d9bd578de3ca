"""What the settings of a server mean for what it keeps: looked at once, before the first use."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from statepact.errors import StoreError, StoreUnavailable
from statepact.stores._redis_link import Link

Mode = Literal["record", "cache"]

_SETTINGS = ("maxmemory-policy", "appendonly", "appendfsync", "save", "min-replicas-to-write")


_SAID_BY_INFO = (("memory", "maxmemory_policy", "maxmemory-policy"), ("persistence", "aof_enabled", "appendonly"))


class EvictingCache(UserWarning):
    """The server may drop sessions before their time: as a cache that costs speed, and only that."""


class UnknownPolicy(UserWarning):
    """The server does not say what it does when its memory is full, so nobody has checked it."""


async def check(link: Link, *, mode: Mode, wait: int, where: str) -> str:
    """Return what survives what. Raises `StoreUnavailable` for a record that may be evicted."""
    described = []
    for settings in await _read(link):
        policy = settings.get("maxmemory-policy", "")
        if not policy:
            _warn(
                UnknownPolicy,
                f"{where} does not tell its maxmemory-policy",
                "allow the user CONFIG GET or INFO, and make sure that it is noeviction",
            )
        elif policy != "noeviction" and mode == "record":
            raise StoreUnavailable(
                f"{where} has maxmemory-policy {policy}: short of memory, it deletes what was committed",
                hint="set maxmemory-policy to noeviction on the server, or use this server as a cache only:"
                " mode='cache'",
            )
        elif policy != "noeviction" and mode == "cache":
            _warn(
                EvictingCache,
                f"{where} has maxmemory-policy {policy}: sessions may leave the cache before their time",
                "set maxmemory-policy to noeviction; what is evicted is counted, and read from the record",
            )
        described.append(_promise(settings, wait))
    if mode == "cache":
        return "a cache: sessions end with their lifetime, and the record decides"
    # Of several nodes the weakest counts.
    return min(described, key=_STRENGTH.index) + _replicas(wait) if described else _UNKNOWN


_NOTHING = "survives the end of our processes, not the end of the server"
_SNAPSHOTS = "survives a restart of the server up to its last snapshot: a crash loses what came after it"
_UNKNOWN = "what survives a crash of the server is not known"
_NO_SYNC = "a crash of the machine may lose what the operating system had not written (AOF, fsync no)"
_EVERYSEC = "a crash of the server or its machine may lose about a second (AOF everysec)"
_ALWAYS = "survives a power cut of the server (AOF always)"
_STRENGTH = (_NOTHING, _UNKNOWN, _SNAPSHOTS, _NO_SYNC, _EVERYSEC, _ALWAYS)


def _promise(settings: Mapping[str, str], wait: int) -> str:
    if settings.get("appendonly") == "yes":
        return {"always": _ALWAYS, "everysec": _EVERYSEC}.get(settings.get("appendfsync", ""), _NO_SYNC)
    if "appendonly" not in settings:
        return _UNKNOWN
    if "save" not in settings:
        return _UNKNOWN
    return _SNAPSHOTS if settings["save"].strip() else _NOTHING


def _replicas(wait: int) -> str:
    if wait:
        return f"; a failover: reduced loss, each commit waits for {wait} replica{'s' * (wait > 1)}"
    return "; a failover may lose the newest commits"


async def _read(link: Link) -> list[dict[str, str]]:
    async with link.servers() as servers:
        return [await _of_server(server) for server in servers]


async def _of_server(server: Link) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        for name in _SETTINGS:
            answer = await server.ask("CONFIG", "GET", name)
            if len(answer) >= 2:
                found[name] = _text(answer[1])
    except StoreError as error:
        if not server.has_answered(error):
            raise
        # CONFIG is forbidden on most hosted servers; INFO says some of it.
        for section, name, setting in _SAID_BY_INFO:
            with suppress(StoreError):
                lines = _text(await server.ask("INFO", section)).splitlines()
                pairs = dict(line.split(":", 1) for line in lines if ":" in line)
                if name in pairs:
                    found[setting] = {"1": "yes", "0": "no"}.get(pairs[name], pairs[name])
    return found


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _warn(kind: type[Warning], what: str, hint: str) -> None:
    warnings.warn(f"{what}\n  → {hint}", kind, stacklevel=2)
