"""The store for teams that have Redis or Valkey: as the record in a named weaker mode, or as a cache."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from statepact.errors import (
    Behind,
    CorruptState,
    Expired,
    LeaseLost,
    SessionHeld,
    SetupError,
    StatepactError,
    StoreTimeout,
    StoreUnavailable,
)
from statepact.ledger import SessionKey
from statepact.stores._base import Entity, EntityUse, Hold, NewEntry, Rewrite, SessionInfo, StoredHeader
from statepact.stores._redis_check import Mode
from statepact.stores._redis_connections import Connections, Here
from statepact.stores._redis_entities import EntityIndex, Note
from statepact.stores._redis_keys import BATCH, Names, pack
from statepact.stores._redis_scripts import APPEND, HEADERS, HOLD, REWRITE, Script
from statepact.stores._redis_target import Target, split_options
from statepact.stores._redis_values import claim_of, columns_of

LOOK_AGAIN = 1.0
"""Most seconds between two looks of somebody who waits for a change and may expect a notice."""

LOOK_OFTEN = 0.1
"""The same for somebody who cannot expect one."""

_OPTIONS: Mapping[str, type] = {
    "mode": str,
    "prefix": str,
    "timeout": float,
    "connections": int,
    "wait": int,
    "trace": float,
}


class RedisStore:
    """A log in a Redis 7 or Valkey server, for all processes of many machines.

    | URL | |
    |---|---|
    | `redis://user:password@host:6379/0`, `rediss://…` | one server, in the clear or over TLS |
    | `redis+sentinel://host:26379,host:26379/mymaster` | the server that Sentinel calls the primary |
    | `redis+cluster://host:6379,host:6379` | a cluster; `redis://…?cluster=1` means the same |

    Sentinels with a password of their own get `sentinel_password` (and `sentinel_username`) of the URL. With TLS
    (`rediss…://`) all servers, Sentinels too, are reached over it; `ssl_ca_certs=FILE` names who is trusted.

    `mode="record"` keeps everything until it is erased, and refuses a server that evicts keys. What survives
    a crash depends on the server's settings; `promise` says it once the store is in use. `mode="cache"` lets
    a session end as a whole with the longest lifetime that its entries asked for; afterwards reading it
    raises `Expired` for another `trace` seconds.

    `wait=N` is called reduced loss: each commit waits until N replicas have it, or raises `StoreTimeout`. It
    is no consensus. `prefix` begins all keys; `timeout` is the most seconds that anything takes;
    `connections` how many this store opens at most in one event loop, besides one that listens.

    Errors: `StoreUnavailable`, `StoreReadOnly` (a replica), `StoreFull` (out of memory, nothing kept),
    `StoreTimeout` (not known whether a commit was kept), `CorruptState` (the server has lost a session).
    """

    needs_loop = True

    def __init__(
        self,
        url: str,
        *,
        mode: Mode = "record",
        prefix: str = "statepact",
        timeout: float = 10.0,
        connections: int = 8,
        wait: int = 0,
        trace: float = 86_400.0,
    ) -> None:
        if mode not in ("record", "cache"):
            raise SetupError(f"mode is {mode!r}", hint='choose "record" or "cache"')
        if not 0 < timeout < 1e6 or connections < 1 or wait < 0 or not 0 <= trace < 1e9:
            raise SetupError("timeout and connections must be greater than 0, wait and trace not less")
        self.mode: Mode = mode
        self.losses = 0
        """How often a session was asked for that the server has evicted, or somebody has deleted."""
        target = Target(url, timeout=timeout, connections=connections)
        if wait and target.kind == "cluster":
            raise SetupError("wait is not available in a cluster", hint="use Sentinel, or min-replicas-to-write")
        self._names = Names(prefix)
        self._connections = Connections(target, self._names, mode=mode, timeout=timeout, most=connections, wait=wait)
        self._shown = target.shown
        self._wait = wait
        self._trace = b"%d" % int(trace * 1000)
        self._lock = threading.Lock()
        self._listed: dict[SessionKey, None] = {}

    def __repr__(self) -> str:
        return f"<RedisStore: {self._shown}, {self.mode}>"

    @classmethod
    def from_url(cls, url: str) -> RedisStore:
        """Return the store of a URL whose options may be those of the store, too."""
        url, options = split_options(url, _OPTIONS)
        return cls(url, **options)

    @property
    def promise(self) -> str:
        """What survives what, as the server's settings were when the store was first used."""
        return self._connections.promise

    # -- writing ---------------------------------------------------------------------------------

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        here = await self._connections.here()
        late: bytes | int = b""
        if entries and key not in self._listed:
            await self._list(here, key)
        note = None
        about = self.mode == "record" and any(entry.entities for entry in entries)
        if about:
            note = await here.index.note(key)
            late = note.latest
        values = [after, late, self._keep(entries), self._trace, self._names.session(key).channel]
        values += [*claim_of(hold), *columns_of(entries)]
        try:
            await self._commit(here, APPEND, key, values, after=after, hold=hold)
        except StoreTimeout:
            raise  # it may have been kept: the note stays, and readers look for themselves
        except BaseException as error:
            if note is not None and isinstance(error, StatepactError):
                await self._forgive(here.index.take_back(key, note))
            raise
        if note is not None:
            await self._finish(here.index, key, entries, (), note)

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        here = await self._connections.here()
        if entries and key not in self._listed:
            await self._list(here, key)
        forgotten = None if change.forget is None else list(change.forget)
        note = None
        if self.mode == "record" and (forgotten != [] or any(entry.entities for entry in entries)):
            note = await here.index.note(key)
        before = await here.index.of_session(key) if note is not None and forgotten is None else forgotten or ()
        values: list[Any] = [after, b"" if note is None else note.latest, self._keep(entries), self._trace]
        values += [self._names.session(key).channel, len(change.replace)]
        for revision, (header, payload) in change.replace.items():
            values += [revision, header, payload]
        values += [change.first if after or entries else 0, len(change.blocks)]
        for address, data in change.blocks.items():
            values += [b"b" + address, b"0" if data is None else b"1", data or b""]
        values.append(-1 if forgotten is None else len(forgotten))
        values += [pack(*entity) for entity in forgotten or ()]
        await self._commit(here, REWRITE, key, [*values, *columns_of(entries)], after=after)
        if note is not None:
            await self._finish(here.index, key, entries, before, note)

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        here = await self._connections.here()
        values = [self._keep(()), self._trace, *claim_of(hold)]
        await self._commit(here, HOLD, key, values, after=0, hold=hold)

    async def _commit(
        self,
        here: Here,
        script: Script,
        key: SessionKey,
        values: Sequence[Any],
        *,
        after: int,
        hold: Hold | None = None,
    ) -> None:
        keys = self._names.session(key)[:2]
        answer = await here.link.run(script, keys, values, writing=True, wait=self._wait)
        said = bytes(answer[0])
        if said == b"ok":
            return
        if said == b"behind":
            raise Behind(f"session {key.session!r} is at revision {answer[1]}, not {after}")
        if said == b"gone":
            raise self._lost(key)
        if said == b"late":
            raise StoreUnavailable(
                f"a commit to {self._shown} came so late that the server refused it; nothing was kept",
                hint="try again; look for what stopped this process for half a minute",
            )
        assert hold is not None
        if said == b"lost":
            raise LeaseLost(key.session, holder=hold.holder, run=hold.run)
        holder, run, left = (bytes(part) for part in answer[1:])
        raise SessionHeld(key.session, holder=holder.decode(), run=run.decode(), seconds=int(left) / 1000)

    async def _list(self, here: Here, key: SessionKey) -> None:
        """Write the session into the listings, before it can exist."""
        if self.mode == "record":
            await here.listing.add(key)
        self._listed[key] = None
        if len(self._listed) > 10_000:
            with self._lock:
                self._listed.pop(next(iter(self._listed)), None)

    def _keep(self, entries: Sequence[NewEntry]) -> bytes:
        if self.mode == "record":
            return b""
        lifetimes = [entry.keep for entry in entries]
        if None in lifetimes:
            return b"-1"
        return b"%d" % int(max((life or 0.0 for life in lifetimes), default=0.0) * 1000)

    async def _finish(
        self, index: EntityIndex, key: SessionKey, entries: Sequence[NewEntry], gone: Collection[Entity], note: Note
    ) -> None:
        """Bring the index up to what was just committed.

        That is kept, whatever happens here: an error of the index must not pass for one of the commit. The
        note then stays, and readers look for themselves.
        """
        try:
            await index.add(key, entries)
            if gone:
                await index.remove(key, gone)
        except StatepactError:
            return
        await self._forgive(index.take_back(key, note))

    async def _forgive(self, work: Any) -> None:
        """Do what only tidies up: a note that stays costs readers a look, nothing else."""
        try:
            await work
        except StatepactError:
            return

    # -- reading ---------------------------------------------------------------------------------

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        here = await self._connections.here()
        found: list[StoredHeader] = []
        rewritten: int | None = None
        seen = after
        while True:
            newest, first, times, gone, *some = await self._headers(here, key, seen)
            if bytes(gone):
                raise self._ended(key, bytes(gone))
            if rewritten is not None and times != rewritten:
                # Somebody erased something between two portions: what we have may be of both sides.
                found, seen, rewritten = [], after, None
                continue
            rewritten = times
            start = max(seen + 1, first)
            found += [StoredHeader(start + number, bytes(header or b"")) for number, header in enumerate(some)]
            seen = start + len(some) - 1
            if seen >= newest or not some:
                break
        if found and self._wait:
            await self._confirm(here)
        return found

    async def _confirm(self, here: Here) -> None:
        """Make sure that what was read has reached the replicas, too. Raises `StoreTimeout`.

        A commit that reached too few was not acknowledged, and stands on this server all the same. Who
        reads it must not take it for committed: a primary that was cut off forgets it when it comes back.
        Replication keeps the order, so a write of now that has arrived says that all before it have.
        """
        await here.link.confirm(self._names.confirmed, self._wait)

    async def _headers(self, here: Here, key: SessionKey, after: int) -> Any:
        return await here.link.run(HEADERS, self._names.session(key)[:2], [after, BATCH], writing=False)

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        wanted = list(revisions)
        return await self._fields(key, wanted, [b"p%d" % revision for revision in wanted])

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        wanted = list(addresses)
        return await self._fields(key, wanted, [b"b" + address for address in wanted])

    async def _fields(self, key: SessionKey, wanted: Sequence[Any], names: Sequence[bytes]) -> dict[Any, bytes]:
        here = await self._connections.here()
        state = self._names.session(key).state
        found: dict[Any, bytes] = {}
        for start in range(0, len(names), BATCH):
            values = await here.link.ask(b"HMGET", state, *names[start : start + BATCH])
            pairs = zip(wanted[start : start + BATCH], values, strict=True)
            found.update((name, bytes(value)) for name, value in pairs if value is not None)
        if names and not found:
            gone = bytes((await self._headers(here, key, 2**50))[3])
            if gone:
                raise self._ended(key, gone)
        return found

    async def drop(self, key: SessionKey) -> None:
        """Let go of everything of a session, as if it had never been there; for a cache only.

        Raises `SetupError` for a record, which lets go of nothing.
        """
        if self.mode == "record":
            raise SetupError("a record cannot drop a session", hint="open it with mode='cache', or erase the session")
        await (await self._connections.here()).link.ask(b"UNLINK", *self._names.session(key)[:2])

    def _ended(self, key: SessionKey, gone: bytes) -> StatepactError:
        if gone == b"expired":
            return Expired(f"session {key.session!r} has left the cache: its lifetime is over", hint="read the record")
        return self._lost(key)

    def _lost(self, key: SessionKey) -> CorruptState:
        self.losses += 1
        return CorruptState(
            f"{self._shown} has lost session {key.session!r}: it was evicted, or deleted by somebody else",
            hint="set maxmemory-policy noeviction, and restore the session from a backup"
            if self.mode == "record"
            else "read the record; give the server more memory",
        )

    # -- finding ---------------------------------------------------------------------------------

    async def owners(self) -> Sequence[str]:
        return await (await self._connections.here()).listing.owners()

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        return await (await self._connections.here()).listing.sessions(owner)

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        return await (await self._connections.here()).index.find(owner, kind, value, most)

    # -- waiting ---------------------------------------------------------------------------------

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        give_up = time.monotonic() + within
        here = await self._connections.here()
        channel = self._names.session(key).channel
        revision = await self._revision(here, key)
        if revision > after or within <= 0:
            return revision
        woken = asyncio.Event()
        try:
            while True:
                woken.clear()
                most = LOOK_AGAIN if await here.listener.expect(channel, woken) else LOOK_OFTEN
                failed: StatepactError | None = None
                try:
                    revision = await self._revision(here, key)
                except (StoreUnavailable, StoreTimeout) as error:
                    # The server may come back before the time is up.
                    if self._connections.closed:
                        raise
                    failed, most = error, LOOK_OFTEN
                left = give_up - time.monotonic()
                if revision > after:
                    return revision
                if left <= 0:
                    if failed is not None:
                        raise failed
                    return revision
                if self._connections.closed:
                    raise self._connections.closed_error()
                if not woken.is_set():
                    await _wait(woken, min(most, left))
        finally:
            here.listener.forget(channel, woken)

    async def _revision(self, here: Here, key: SessionKey) -> int:
        return int(await here.link.ask(b"HGET", self._names.session(key).state, b"n") or 0)

    async def aclose(self) -> None:
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return
