"""Connections to Redis or Valkey: one client for each event loop, one server, Sentinel or Cluster."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote, urlsplit

from statepact.errors import MissingExtra, SetupError
from statepact.stores._redis_notices import Notices

FORMS = "redis://:password@host:6379/0, rediss://…, redis+sentinel://host:26379,host:26379/primary, redis+cluster://host:6379"


AT_ONCE = 32
"""Most operations of one event loop under way at the same time; the others wait for a connection."""


class Line:
    """Client and listener of one event loop, and who is using them: `async with line as client`."""

    def __init__(self, client: Any) -> None:
        self.notices = Notices(client.pubsub)
        self._client = client
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._users = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def __aenter__(self) -> Any:
        self._users += 1
        self._idle.clear()
        try:
            await self._slots.acquire()
        except BaseException:
            self._leave()
            raise
        return self._client

    async def __aexit__(self, *error: object) -> None:
        self._slots.release()
        self._leave()

    def _leave(self) -> None:
        self._users -= 1
        if not self._users:
            self._idle.set()

    async def aclose(self) -> None:
        """Close it once nobody uses it any more."""
        await self._idle.wait()
        await self.notices.aclose()
        await self._client.aclose()
        await asyncio.sleep(0)  # the driver closes some of its sockets with the next turn of the loop


class Clients:
    """Makes the clients of a store and keeps them, each for the event loop on which it was made.

    Raises `SetupError` for a URL that cannot be understood, and `MissingExtra`.
    """

    def __init__(self, url: str, *, timeout: float) -> None:
        try:
            import redis.asyncio  # noqa: F401 - looked for, so that a missing extra is named at once
        except ImportError as error:
            raise MissingExtra("RedisStore", extra="redis") from error
        self._timeout = timeout
        try:
            parts = urlsplit(url)
            self._scheme = parts.scheme
            self._user = unquote(parts.username) if parts.username else None
            self._password = unquote(parts.password) if parts.password else None
            self._hosts = [_host(text) for text in parts.netloc.rpartition("@")[2].split(",")]
            self._path = unquote(parts.path.strip("/"))
        except ValueError:
            raise SetupError("this Redis URL cannot be understood", hint=f"use one of {FORMS}") from None
        if self._scheme not in ("redis", "rediss", "redis+sentinel", "redis+cluster", "unix"):
            raise SetupError("this is no Redis URL", hint=f"use one of {FORMS}")
        if self._scheme == "redis+sentinel" and not self._path:
            raise SetupError(
                "this Sentinel URL names no primary", hint="redis+sentinel://host:26379,host:26379/primary"
            )
        if self._scheme in ("redis", "rediss") and self._path and not self._path.isdigit():
            raise SetupError("the database of this Redis URL is not a number", hint=f"use one of {FORMS}")
        shown = ", ".join(f"{host}:{port}" for host, port in self._hosts)
        self.place = {
            "redis+sentinel": f"Redis primary {self._path!r} of Sentinels {shown}",
            "redis+cluster": f"Redis Cluster at {shown}",
            "unix": f"Redis at /{self._path}",
        }.get(self._scheme, f"Redis at {shown}")
        """Names the server in messages; never a password."""
        # Not weak: somebody has to close the connections of every loop that used the store.
        self._by_loop: dict[asyncio.AbstractEventLoop, Line] = {}

    @property
    def is_cluster(self) -> bool:
        """Whether keys live on several servers."""
        return self._scheme == "redis+cluster"

    def here(self) -> Line:
        """Return the line of the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None:
            for other in [one for one in list(self._by_loop) if one.is_closed()]:
                self._by_loop.pop(other, None)  # its connections have ended with it
            found = self._by_loop[loop] = Line(self._made())
        return found

    def _made(self) -> Any:
        from redis.asyncio import Redis, RedisCluster
        from redis.asyncio.cluster import ClusterNode
        from redis.asyncio.retry import Retry
        from redis.asyncio.sentinel import Sentinel
        from redis.backoff import NoBackoff

        # Never again by itself: only the library knows whether a commit may be sent twice.
        once: dict[str, Any] = {"retry": Retry(NoBackoff(), 0), "retry_on_error": []}
        options: dict[str, Any] = {
            "username": self._user,
            "password": self._password,
            "socket_timeout": self._timeout,
            "socket_connect_timeout": self._timeout,
            "protocol": 2,
            "client_name": "statepact",
        }
        if self._scheme == "redis+cluster":
            nodes = [ClusterNode(host, port) for host, port in self._hosts]
            return RedisCluster(startup_nodes=nodes, **options)
        if self._scheme == "redis+sentinel":
            # A Sentinel seldom has the password of the servers that it watches.
            watchers = Sentinel(self._hosts, socket_timeout=self._timeout)  # type: ignore[no-untyped-call]
            return watchers.master_for(self._path, **options, **once)
        if self._scheme == "unix":
            return Redis(unix_socket_path=f"/{self._path}", **options, **once)
        host, port = self._hosts[0]
        tls: dict[str, Any] = {"ssl": True} if self._scheme == "rediss" else {}
        return Redis(host=host, port=port, db=int(self._path or 0), **options, **once, **tls)

    async def aclose(self) -> None:
        """Close the clients of all loops, each on its own."""
        ours = asyncio.get_running_loop()
        for loop, line in list(self._by_loop.items()):
            self._by_loop.pop(loop, None)
            if loop is ours:
                await line.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(line.aclose(), loop))


def _host(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if text.rpartition("]")[2].startswith(":") or ":" in text else (text, "", "")
    return (host or "localhost").strip("[]"), int(port or 6379)
