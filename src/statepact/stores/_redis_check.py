"""What a Redis or Valkey server is set to do with our keys, asked before the first of them is written."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from statepact.errors import StoreUnavailable


class EvictingCache(UserWarning):
    """The server may drop keys before their time: as a cache that costs speed, and only that."""


class UnknownPolicy(UserWarning):
    """The server does not say what it does when its memory is full, so nobody has checked it."""


async def check(client: Any, place: str, *, is_record: bool) -> str:
    """Return what the server promises, in a few words.

    Raises `StoreUnavailable` if a record would be evicted; warns where a cache would be.
    """
    info: Mapping[str, Any] = _one(await client.info())
    policy = str(info.get("maxmemory_policy", ""))
    if not policy:
        warnings.warn(
            f"{place} does not say its maxmemory-policy: set noeviction, or committed facts may disappear",
            UnknownPolicy,
            stacklevel=2,
        )
    elif policy != "noeviction":
        if is_record:
            raise StoreUnavailable(
                f"{place} has maxmemory-policy {policy}: it would drop committed facts without a word",
                hint="set maxmemory-policy noeviction, or name it as a cache: ?mode=cache",
            )
        warnings.warn(
            f"{place} has maxmemory-policy {policy}: sessions may leave the cache before their time",
            EvictingCache,
            stacklevel=2,
        )
    return await _promise(client, info) if is_record else "a cache: nothing is promised"


async def _promise(client: Any, info: Mapping[str, Any]) -> str:
    replicas = "; a failover may lose the newest commits" if int(info.get("connected_slaves", 0)) else ""
    if not int(info.get("aof_enabled", 0)):
        return f"survives a lost client, not the end of the server (no append-only file){replicas}"
    fsync = await _setting(client, "appendfsync")
    if fsync == "always":
        return f"survives a killed server (append-only file, always){replicas}"
    return f"a killed server may lose about a second (append-only file, {fsync or 'unknown'}){replicas}"


async def _setting(client: Any, name: str) -> str:
    from redis.exceptions import RedisError

    try:
        found = _one(await client.config_get(name))
    except RedisError:
        return ""  # CONFIG is forbidden on many hosted servers
    return str(found.get(name, ""))


def _one(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the answer of one server; a Cluster answers with one for each node."""
    first = next(iter(answer.values()), None)
    return first if isinstance(first, Mapping) and "maxmemory_policy" not in answer else answer
