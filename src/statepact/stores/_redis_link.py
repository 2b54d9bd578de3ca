"""Connections of one event loop: each command is sent once, with a deadline, and its answer is waited for.

The client library sends a command again when a connection breaks. For a commit that may mean twice, so
we keep connections and talk over them ourselves; in a cluster, its retries are off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statepact.errors import StoreTimeout
from statepact.stores._redis_errors import late, lost, refused, unreachable
from statepact.stores._redis_scripts import Script
from statepact.stores._redis_target import Target, driver

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.cluster import RedisCluster

Command = tuple[Any, ...]


@dataclass(slots=True)
class _Sent:
    """Whether anything may have reached the server."""

    begun: bool = False


class Link:
    """A server, as one event loop sees it."""

    def __init__(self, target: Target, *, timeout: float, connections: int, client: Redis | None = None) -> None:
        self._errors = driver().exceptions
        self._target = target
        self._timeout = timeout
        self._free = asyncio.Semaphore(connections)
        self._idle: list[Any] = []
        self._closed = False
        self.cluster: RedisCluster | None = None
        self.client = client
        if client is None and target.kind == "cluster":
            self.cluster = target.cluster()
        elif client is None:
            self.client = target.client()

    @asynccontextmanager
    async def servers(self) -> AsyncIterator[list[Link]]:
        """Reach each server that takes commits by itself: the one, or all primaries of a cluster."""
        if self.cluster is None:
            yield [self]
            return
        await self.ask("GET", "statepact")  # finds out who there is
        found = []
        for node in self.cluster.get_primaries():
            client = self._target.node(str(node.host), int(node.port))
            found.append(Link(self._target, timeout=self._timeout, connections=1, client=client))
        try:
            yield found
        finally:
            for link in found:
                await link.aclose()

    def has_answered(self, error: BaseException) -> bool:
        """Return whether an error is the server's refusal, not its silence."""
        refusals = (self._errors.ResponseError, self._errors.NoPermissionError)
        return isinstance(error.__cause__, refusals) and not isinstance(
            error.__cause__, (self._errors.AuthenticationError, self._errors.BusyLoadingError)
        )

    async def run(
        self, script: Script, keys: Sequence[bytes], values: Sequence[Any], *, writing: bool, wait: int = 0
    ) -> Any:
        """Run a script once; the server is taught it when it does not know it yet.

        With `wait`, that many replicas must have it too, or `StoreTimeout` is raised.
        """
        rest = (len(keys), *keys, *values)
        try:
            answer = await self._send([(b"EVALSHA", script.sha, *rest)], writing=writing, wait=wait)
        except self._errors.NoScriptError:
            answer = await self._send([(b"EVAL", script.text, *rest)], writing=writing, wait=wait)
        return answer[0]

    async def confirm(self, key: bytes, replicas: int) -> None:
        """Return once this many replicas have everything that was written before; else `StoreTimeout`."""
        await self._send([(b"SET", key, b"1", b"PX", b"1000")], writing=True, wait=replicas)

    async def ask(self, *command: Any) -> Any:
        """Return the answer to one reading or repeatable command."""
        return (await self.ask_all([command]))[0]

    async def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to several; they may concern different slots."""
        return await self._send(commands, writing=False) if commands else []

    async def _send(self, commands: Sequence[Command], *, writing: bool, wait: int = 0) -> list[Any]:
        errors = self._errors
        where = self._target.shown
        sent = _Sent()
        try:
            async with asyncio.timeout(self._timeout), self._free:
                if self.cluster is not None:
                    sent.begun = True
                    return await self._through_cluster(self.cluster, commands)
                try:
                    answers = await self._through_one(commands, wait, sent)
                except (errors.ConnectionError, OSError) as error:
                    if writing or not sent.begun or isinstance(error, (errors.BusyLoadingError, errors.TimeoutError)):
                        raise
                    # The server has ended a connection that was idle, or was started again.
                    sent.begun = False
                    await self._drop_idle()
                    answers = await self._through_one(commands, wait, sent)
                if wait and (reached := answers.pop()) < wait:
                    raise StoreTimeout(
                        f"{where} kept the commit, but only {reached} of {wait} replicas have it by now",
                        hint="look at the replicas; a failover may lose it. Read the session again",
                    )
                return answers
        except (errors.NoScriptError, StoreTimeout):
            raise
        except (
            errors.ResponseError,
            errors.AuthenticationError,
            errors.BusyLoadingError,
            errors.ClusterDownError,
            errors.MasterDownError,
        ) as error:
            raise refused(error, where) from error
        except (TimeoutError, errors.TimeoutError) as error:
            if not sent.begun:
                raise unreachable(where) from error
            raise late(where, self._timeout, writing=writing) from error
        except (errors.RedisError, OSError) as error:
            if not sent.begun:
                raise unreachable(where) from error
            raise lost(where, writing=writing) from error

    async def _through_one(self, commands: Sequence[Command], wait: int, sent: _Sent) -> list[Any]:
        connection = await self._take()
        sent.begun = True
        answers: list[Any] = []
        refusal: Exception | None = None
        try:
            await connection.send_packed_command(_packed(connection, commands, wait, self._timeout))
            for _ in range(len(commands) + bool(wait)):
                try:
                    answers.append(await connection.read_response())
                except self._errors.ResponseError as error:
                    refusal = refusal or error
        except BaseException:
            # An answer may still come, and must not be taken for that of another question.
            await _hang_up(connection)
            raise
        if isinstance(refusal, (self._errors.ReadOnlyError, self._errors.MasterDownError)) or self._closed:
            # Somebody else is the primary now; the next connection asks who.
            await _hang_up(connection)
            await self._drop_idle()
        else:
            self._idle.append(connection)
        if refusal is not None:
            raise refusal
        return answers

    async def _take(self) -> Any:
        """Return a connection that is ready; one that is not is closed, whatever happened to it."""
        while self._idle:
            connection = self._idle.pop()
            reader = getattr(connection, "_reader", None)
            if reader is not None and not reader.at_eof():
                return connection
            await _hang_up(connection)
        assert self.client is not None
        made: Any = self.client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            await made.connect()
        except BaseException:
            await _hang_up(made)
            raise
        return made

    async def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await _hang_up(connection)

    async def _through_cluster(self, cluster: RedisCluster, commands: Sequence[Command]) -> list[Any]:
        if len(commands) == 1:
            return [await cluster.execute_command(*_named(commands[0]))]
        # May send again what a node did not answer: all of these are the same however often they are done.
        pipeline = cluster.pipeline()
        for command in commands:
            pipeline.execute_command(*_named(command))
        answers: list[Any] = await pipeline.execute()
        return answers

    async def aclose(self) -> None:
        """Close all connections."""
        if self.cluster is not None:
            await self.cluster.aclose()
        self._closed = True
        await self._drop_idle()
        if self.client is not None:
            for watcher in _sentinels(self.client):
                await watcher.aclose()
            await self.client.aclose()
        # A socket is closed one turn of the loop after it was told to, and this may be the last one.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def abandon(self) -> None:
        """Let go of the connections of a loop that has ended."""
        idle, self._idle = self._idle, []
        for connection in idle:
            drop(connection)
        if self.cluster is not None:
            for node in self.cluster.nodes_manager.nodes_cache.values():
                for connection in list(getattr(node, "_connections", ())):
                    drop(connection)
        if self.client is not None:
            for watcher in _sentinels(self.client):
                for connection in list(getattr(watcher.connection_pool, "_available_connections", ())):
                    drop(connection)


def _sentinels(client: Redis) -> Sequence[Redis]:
    """Return the clients with which a client asks Sentinels for its server; it does not close them itself."""
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    return manager.sentinels if manager is not None else ()


async def _hang_up(connection: Any) -> None:
    """Close a connection without waiting for the other side."""
    with suppress(Exception):
        await connection.disconnect(nowait=True)


def drop(connection: Any) -> None:
    """Close the socket of a connection whose loop has ended."""
    writer, connection._writer = getattr(connection, "_writer", None), None
    connection._reader = None
    transport = getattr(writer, "transport", None)
    sock = getattr(transport, "_sock", None)
    if sock is not None:
        # `close` would ask the loop. The writer asks whether that has been done.
        sock.close()
        transport._sock = None  # type: ignore[union-attr]
        transport._closing = True  # type: ignore[union-attr]


def _named(command: Command) -> Command:
    name = command[0]
    return (name.decode() if isinstance(name, bytes) else name, *command[1:])


def _packed(connection: Any, commands: Sequence[Command], wait: int, timeout: float) -> Any:
    if wait:
        commands = [*commands, (b"WAIT", wait, max(1, int(timeout * 900)))]
    if len(commands) == 1:
        return connection.pack_command(*commands[0])
    return connection.pack_commands(commands)
