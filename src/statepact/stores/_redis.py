"""A store in Redis or Valkey: a cache, or a record in modes that say what they may lose."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from statepact.errors import (
    Behind,
    CorruptState,
    Expired,
    LeaseLost,
    SessionHeld,
    SetupError,
    StoreTimeout,
    StoreUnavailable,
)
from statepact.ledger import SessionKey
from statepact.stores._base import Entity, EntityUse, Hold, NewEntry, Rewrite, SessionInfo, StoredHeader
from statepact.stores._redis_check import check
from statepact.stores._redis_client import Clients, Line
from statepact.stores._redis_errors import explain
from statepact.stores._redis_keys import Keys, entity_of, field_of, member
from statepact.stores._redis_scripts import APPEND, HOLD, READ, REWRITE

T = TypeVar("T")

Mode = Literal["record", "cache"]

_AT_ONCE = 1000
"""Most keys or fields that one command asks for."""
_LONGEST_POLL = 0.2
"""Most seconds between two looks of somebody who waits for a change and hears nothing."""
_GRAVE_LASTS = 30 * 24 * 3600 * 1000
"""Milliseconds for which a cache remembers that a session has expired."""
_MOST_KNOWN = 100_000
"""Index members that a process remembers to have written."""


class RedisStore:
    """A log in Redis 7 or Valkey: one script for each commit, all keys of a session in one slot.

    `mode="record"` keeps sessions until somebody erases them, and refuses a server that would evict
    them. What survives a crash or a failover is up to the server, and `promise` says it once connected:
    replication is asynchronous, so no setting makes it as safe as `SqliteStore` or `PostgresStore`.
    `wait` is how many replicas must have a commit before it counts ("reduced loss", not "safe").

    `mode="cache"` promises nothing: a session leaves as a whole when the longest `NewEntry.keep` of its
    entries has passed since it was last used, and reading it then raises `Expired`.

    `timeout` (seconds) bounds each operation. `prefix` begins all keys. Errors: `StoreUnavailable`,
    `StoreTimeout`, `StoreFull`, `StoreReadOnly`, `CorruptState` for a session of which keys are missing.
    """

    needs_loop = True

    def __init__(
        self, url: str, *, mode: Mode = "record", wait: int = 0, timeout: float = 5.0, prefix: str = "statepact:"
    ) -> None:
        if mode not in ("record", "cache"):
            raise SetupError(f"mode is {mode!r}", hint='choose "record" or "cache"')
        if "{" in prefix or "}" in prefix:
            raise SetupError("the prefix of a Redis store cannot hold { or }")
        self._clients = Clients(url, timeout=timeout)
        self.mode: Mode = mode
        self.promise = "a cache: nothing is promised" if mode == "cache" else "what the server promises"
        self._wait = wait
        self._timeout = timeout
        self._keys = Keys(prefix)
        self._grave = _GRAVE_LASTS if mode == "cache" else 0
        self._checked = False
        self._closed = False
        self._known: set[str] = set()
        """Index members that this process has written."""
        self._shas: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<RedisStore {self.mode} at {self._clients.place}>"

    # -- the log ---------------------------------------------------------------------------------

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        await self._index(key, entries)
        words = [*_hold(hold), after, _longest(entries), self._grave, self._keys.channel(key), *_entries(entries)]
        self._settle(key, await self._write(APPEND, key, words), hold)

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        await self._index(key, entries)
        words: list[Any] = [*_hold(None), after, 0, self._grave, self._keys.channel(key), change.first]
        words.append(len(change.replace))
        for revision, (header, payload) in change.replace.items():
            words += (revision, header, payload)
        words.append(len(change.blocks))
        for address, data in change.blocks.items():
            words += (address, "0", b"") if data is None else (address, "1", data)
        forgotten = None if change.forget is None else list(change.forget)
        gone = await self._entities_of(key) if forgotten is None else forgotten
        words.append(-1 if forgotten is None else len(forgotten))
        words += [field_of(entity) for entity in forgotten or ()]
        self._settle(key, await self._write(REWRITE, key, [*words, *_entries(entries)]), None)
        await self._unindex(key, gone)

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        state, first, found = await self._run(READ, key, [after], writing=False)
        if state == b"gone":
            raise Expired(f"session {key.session!r} has left the cache", hint="its lifetime is over; begin a new one")
        if state == b"half":
            raise self._half(key)
        return [StoredHeader(int(first) + number, header) for number, header in enumerate(found)]

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        wanted = [revision for revision in dict.fromkeys(revisions) if revision > 0]
        return await self._fields(self._keys.of(key).payloads, wanted)

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        return await self._fields(self._keys.of(key).blocks, list(dict.fromkeys(addresses)))

    async def drop(self, key: SessionKey) -> None:
        """Let go of everything of a session, for one who uses this store as a cache.

        Raises `SetupError` for a record, which lets go of nothing.
        """
        if self.mode == "record":
            raise SetupError("a record cannot drop a session", hint="open it with mode='cache', or erase the session")
        await self._ask("UNLINK", *self._keys.of(key))

    # -- who runs, and what is new ---------------------------------------------------------------

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        words = [*_hold(hold), 0, 0, self._grave, self._keys.channel(key)]
        self._settle(key, await self._write(HOLD, key, words), hold)

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        give_up = time.monotonic() + within
        revision = await self._revision(key)
        if revision > after or within <= 0:
            return revision
        notices = self._clients.here().notices
        channel = self._keys.channel(key)
        event = await notices.listen(channel)
        wait = 0.02
        try:
            while True:
                event.clear()
                revision = await self._revision(key)
                left = give_up - time.monotonic()
                if revision > after or left <= 0:
                    return revision
                try:
                    async with asyncio.timeout(min(wait, left)):
                        await event.wait()
                except TimeoutError:
                    wait = min(wait * 2, _LONGEST_POLL)
        finally:
            await notices.leave(channel, event)

    async def _revision(self, key: SessionKey) -> int:
        found = await self._ask("HGET", self._keys.of(key).meta, "last")
        return int(found or 0)

    # -- finding ---------------------------------------------------------------------------------

    async def owners(self) -> Sequence[str]:
        names = sorted(name.decode() for name in await self._ask("SMEMBERS", self._keys.owners))
        return [name for name in names if await self.sessions(name)]

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        # The index is written before the first commit, so it names too many rather than too few.
        names = sorted(name.decode() for name in await self._ask("SMEMBERS", self._keys.sessions(owner)))
        found: list[SessionInfo] = []
        for some in _portions(names):
            metas = [self._keys.of(SessionKey(owner, name)).meta for name in some]
            lasts = await self._each(("HGET", meta, "last") for meta in metas)
            found += [
                SessionInfo(session=name, revision=int(last)) for name, last in zip(some, lasts, strict=True) if last
            ]
        return found

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        index = self._keys.entities(owner, kind, value if kind is not None else None)
        candidates = [entity_of(text.decode()) for text in await self._ask("ZRANGE", index, 0, -1)]
        candidates = [(entity, session) for entity, session in candidates if value in (None, entity.value)]
        uses: list[EntityUse] = []
        for some in _portions(candidates):
            places = [(self._keys.of(SessionKey(owner, session)).entities, field_of(one)) for one, session in some]
            times = await self._each(("HGET", place, name) for place, name in places)
            uses += [
                EntityUse(kind=entity.kind, value=entity.value, session=session, at=int(at))
                for (entity, session), at in zip(some, times, strict=True)
                if at is not None
            ]
        uses.sort(key=lambda use: (-use.at, use.session, use.kind, use.value))
        return uses[:most]

    async def _entities_of(self, key: SessionKey) -> list[Entity]:
        fields = await self._ask("HKEYS", self._keys.of(key).entities)
        return [entity_of(f"{field.decode()}/-")[0] for field in fields]

    async def _index(self, key: SessionKey, entries: Sequence[NewEntry]) -> None:
        """Name the session and what it is about in the owner's indexes, before the commit that makes it so.

        They live in other slots, so no script can write both. This way a crash in between leaves a name
        too many, which every reader looks up, and never one too few.
        """
        if not entries:
            return
        new: dict[str, list[tuple[Any, ...]]] = {}
        mark = f"{key.owner}\x00{key.session}"
        if mark not in self._known:
            new[mark] = [
                ("SADD", self._keys.owners, key.owner),
                ("SADD", self._keys.sessions(key.owner), key.session),
            ]
        for entry in entries:
            for entity in entry.entities:
                name = member(entity, key.session)
                if f"{mark}\x00{name}" not in self._known:
                    new[f"{mark}\x00{name}"] = [
                        ("ZADD", index, entry.at, name)
                        for index in (
                            self._keys.entities(key.owner),
                            self._keys.entities(key.owner, entity.kind),
                            self._keys.entities(key.owner, entity.kind, entity.value),
                        )
                    ]
        if new:
            await self._each(command for commands in new.values() for command in commands)
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known.update(new)

    async def _unindex(self, key: SessionKey, entities: Iterable[Entity]) -> None:
        mark = f"{key.owner}\x00{key.session}"
        commands: list[tuple[Any, ...]] = []
        for entity in entities:
            name = member(entity, key.session)
            self._known.discard(f"{mark}\x00{name}")
            commands += [
                ("ZREM", self._keys.entities(key.owner), name),
                ("ZREM", self._keys.entities(key.owner, entity.kind), name),
                ("ZREM", self._keys.entities(key.owner, entity.kind, entity.value), name),
            ]
        if commands:
            await self._each(commands)

    # -- talking to the server -------------------------------------------------------------------

    async def _write(self, script: str, key: SessionKey, words: Sequence[Any]) -> list[Any]:
        answer: list[Any] = await self._run(script, key, words, writing=True)
        if self._wait and answer[0] == b"done":
            reached = int(await self._ask("WAIT", self._wait, int(self._timeout * 500), writing=True))
            if reached < self._wait:
                raise StoreTimeout(
                    f"{reached} of {self._wait} replicas have the commit; whether it survives is not known",
                    hint="bring the replicas back, or lower wait=",
                )
        return answer

    async def _run(self, script: str, key: SessionKey, words: Sequence[Any], *, writing: bool) -> Any:
        from redis.exceptions import NoScriptError

        keys = self._keys.of(key)
        line = await self._line()
        try:
            async with asyncio.timeout(self._timeout * 2), line as client:
                sha = self._shas.get(script)
                if sha is not None:
                    try:
                        return await client.evalsha(sha, len(keys), *keys, *words)
                    except NoScriptError:
                        pass  # the server was started anew, and has forgotten it
                self._shas[script] = _sha(script)
                return await client.eval(script, len(keys), *keys, *words)
        except Exception as error:
            raise self._explained(error, writing=writing) from _cause(error)

    async def _ask(self, *command: Any, writing: bool = False) -> Any:
        line = await self._line()
        try:
            async with asyncio.timeout(self._timeout * 2), line as client:
                return await client.execute_command(*command)
        except Exception as error:
            raise self._explained(error, writing=writing) from _cause(error)

    async def _each(self, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Return the answers to commands that may concern different slots."""
        line = await self._line()
        try:
            async with asyncio.timeout(self._timeout * 2), line as client:
                pipeline = client.pipeline(transaction=False)
                for command in commands:
                    pipeline.execute_command(*command)
                return list(await pipeline.execute())
        except Exception as error:
            raise self._explained(error, writing=False) from _cause(error)

    async def _fields(self, name: str, fields: Sequence[T]) -> dict[T, bytes]:
        self._check_open()
        found: dict[T, bytes] = {}
        for some in _portions(fields):
            values = await self._ask("HMGET", name, *some)
            found.update({one: value for one, value in zip(some, values, strict=True) if value is not None})
        return found

    async def _line(self) -> Line:
        """Return the line of this event loop to a server that has been checked."""
        self._check_open()
        line = self._clients.here()
        if not self._checked:
            try:
                async with asyncio.timeout(self._timeout * 2), line as client:
                    self.promise = await check(client, self._clients.place, is_record=self.mode == "record")
            except (StoreUnavailable, UserWarning):
                raise
            except Exception as error:
                raise self._explained(error, writing=False) from _cause(error)
            self._checked = True
        return line

    def _explained(self, error: Exception, *, writing: bool) -> Exception:
        if type(error) is TimeoutError:  # ours, and not that of the driver
            return StoreTimeout(
                f"{self._clients.place} did not answer in time"
                + ("; whether the commit was kept is not known" if writing else "")
            )
        return explain(error, self._clients.place, writing=writing)

    def _settle(self, key: SessionKey, answer: Sequence[Any], hold: Hold | None) -> None:
        """Raise what a script has answered, unless it has done its work."""
        state = answer[0]
        if state == b"behind":
            raise Behind(f"session {key.session!r} is at revision {int(answer[1])}, not the one that was given")
        if state == b"held":
            raise SessionHeld(
                key.session, holder=answer[1].decode(), run=answer[2].decode(), seconds=float(answer[3]) / 1000
            )
        if state == b"lost" and hold is not None:
            raise LeaseLost(key.session, holder=hold.holder, run=hold.run)
        if state == b"half":
            raise self._half(key)

    def _half(self, key: SessionKey) -> CorruptState | Expired:
        if self.mode == "cache":
            return Expired(f"parts of session {key.session!r} have left the cache", hint="read it from the record")
        return CorruptState(
            f"keys of session {key.session!r} are missing: something has deleted or evicted them",
            hint="check maxmemory-policy and who else uses this server; restore the session from a backup",
        )

    # -- the end ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed", hint="keep it open until every run has ended")

    async def aclose(self) -> None:
        self._closed = True
        await self._clients.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _hold(hold: Hold | None) -> tuple[Any, ...]:
    if hold is None:
        return "", "", 0, "0", ""
    # At least one millisecond, or a very short hold would give up instead.
    lasts = max(int(hold.seconds * 1000), 1) if hold.seconds > 0 else 0
    return hold.holder, hold.run, lasts, "1" if hold.claim else "0", hold.succeeds


def _entries(entries: Sequence[NewEntry]) -> list[Any]:
    words: list[Any] = [len(entries)]
    for entry in entries:
        words += (entry.header, entry.payload, len(entry.blocks))
        for address, data in entry.blocks:
            words += (address, data)
        words.append(len(entry.entities))
        for entity in entry.entities:
            words += (field_of(entity), entry.at)
    return words


def _longest(entries: Sequence[NewEntry]) -> int:
    """Return for how many milliseconds a cache keeps what has these entries; -1 is "until deleted"."""
    if any(entry.keep is None for entry in entries):
        return -1
    return max((int((entry.keep or 0) * 1000) for entry in entries), default=0)


def _sha(script: str) -> str:
    import hashlib

    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


def _cause(error: BaseException) -> BaseException | None:
    """Return the driver's error to be shown as the cause, without what it may repeat of a password."""
    from redis.exceptions import AuthenticationError

    return None if isinstance(error, AuthenticationError) else error


def _portions(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]
