"""Which server a URL means, and how its clients are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from statepact.errors import MissingExtra, SetupError

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.cluster import RedisCluster

_SCHEMES = {
    "redis": ("single", False),
    "rediss": ("single", True),
    "unix": ("single", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}

_TLS_OPTIONS = ("ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile", "ssl_keyfile_password")
"""What the URL of several servers may say about TLS; that of one server, whatever the driver knows."""


class Target:
    """A server, a cluster, or what Sentinel calls the primary of a name."""

    def __init__(self, url: str, *, timeout: float, connections: int) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES:
            raise SetupError(f"{parts.scheme!r} is no scheme of a Redis URL", hint=f"use one of {', '.join(_SCHEMES)}")
        self.kind, self._tls = _SCHEMES[parts.scheme]
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if options.pop("cluster", "0") in ("1", "true", "yes"):
            self.kind = "cluster"
        place = parts.netloc.rpartition("@")[2]
        self.shown = f"{parts.scheme}://{place or parts.path}"
        """The URL as it may be shown to anybody."""
        self._url = urlunsplit(parts._replace(query=urlencode(options)))
        self._parts = parts
        self._connections = connections
        self._common: dict[str, Any] = {
            # Both versions of the client would choose differently; RESP2 answers are plain lists.
            "protocol": 2,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "decode_responses": False,
        }
        self._secrets: dict[str, Any] = {}
        if parts.username:
            self._secrets["username"] = unquote(parts.username)
        if parts.password:
            self._secrets["password"] = unquote(parts.password)
        if self.kind == "sentinel" and not parts.path.strip("/"):
            raise SetupError(
                "this URL does not say what Sentinel calls the primary", hint="add it as the path: /mymaster"
            )
        self._watcher_secrets = {
            name: options.pop(f"sentinel_{name}")
            for name in ("username", "password")
            if self.kind == "sentinel" and f"sentinel_{name}" in options
        }
        """Sentinels have users of their own."""
        self._common_tls: dict[str, Any] = {"ssl": self._tls}
        if self.kind != "single":
            for name in [name for name in options if self._tls and name in _TLS_OPTIONS]:
                self._common_tls[name] = options.pop(name)
            if options:
                raise SetupError(f"unknown store option: {', '.join(sorted(options))}")

    def client(self) -> Redis:
        """Return a client of the one server that takes commits. It never sends anything twice."""
        redis = driver()
        common = {**self._common, "retry": _no_retry(), "max_connections": self._connections + 2}
        if self.kind == "sentinel":
            places = self._places(26379)
            # They are asked one after the other, and one whose host is silent must leave time for the rest.
            each = self._common["socket_timeout"] / (len(places) + 1)
            patience = {"socket_timeout": each, "socket_connect_timeout": each, "retry": _no_retry()}
            sentinel = redis.asyncio.sentinel.Sentinel(
                places,
                sentinel_kwargs={**self._common, **self._common_tls, **patience, **self._watcher_secrets},
                **self._common,
                **self._common_tls,
                **self._secrets,
            )
            primary: Redis = sentinel.master_for(unquote(self._parts.path.strip("/")), retry=_no_retry())
            return primary
        try:
            client: Redis = redis.asyncio.Redis.from_url(self._url, **common)
            # Connects to nothing yet, but an unknown option is found only here.
            client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        except (ValueError, TypeError):
            raise SetupError(
                "this Redis URL cannot be understood, or has an option that the client does not know",
                hint="redis://user:password@host:6379/0",
            ) from None
        return client

    def cluster(self) -> RedisCluster:
        """Return a client of a cluster; it follows redirections, which mean that nothing was done."""
        redis = driver()
        nodes = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in self._places(6379)]
        client: RedisCluster = redis.asyncio.cluster.RedisCluster(
            startup_nodes=nodes,
            retry=_no_retry(),
            max_connections=self._connections + 2,
            **self._common_tls,
            **self._common,
            **self._secrets,
        )
        return client

    def node(self, host: str, port: int) -> Redis:
        """Return a client of one node, for listening."""
        redis = driver()
        client: Redis = redis.asyncio.Redis(
            host=host, port=port, retry=_no_retry(), **self._common_tls, **self._common, **self._secrets
        )
        return client

    def _places(self, usual: int) -> list[tuple[str, int]]:
        places = []
        for place in self._parts.netloc.rpartition("@")[2].split(","):
            host, _, port = place.rpartition(":") if place.rpartition(":")[2].isdigit() else (place, "", str(usual))
            places.append((host.strip("[]"), int(port)))
        return places


def split_options(url: str, ours: Mapping[str, type]) -> tuple[str, dict[str, Any]]:
    """Take our own options out of a URL."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    known: dict[str, Any] = {}
    for name, text in given:
        if name in ours:
            try:
                known[name] = ours[name](text)
            except ValueError:
                raise SetupError(f"{name} is not a number") from None
    rest = urlencode([(name, text) for name, text in given if name not in ours])
    return urlunsplit(parts._replace(query=rest)), known


def driver() -> Any:
    """Return the client library; raise `MissingExtra` if it is not there."""
    try:
        import redis.asyncio.cluster
        import redis.asyncio.sentinel
    except ImportError as error:
        raise MissingExtra("RedisStore", extra="redis") from error
    return redis


def _no_retry() -> Any:
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    return Retry(NoBackoff(), 0)
