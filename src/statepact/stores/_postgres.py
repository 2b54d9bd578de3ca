"""The store for many machines: a schema in a PostgreSQL database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from statepact.errors import Behind, LeaseLost, SessionHeld, SetupError, StoreTimeout, StoreUnavailable
from statepact.ledger import SessionKey
from statepact.stores._base import EntityUse, Hold, NewEntry, Rewrite, SessionInfo, StoredHeader
from statepact.stores._postgres_connections import Connections
from statepact.stores._postgres_schema import Schema, place_of
from statepact.stores._postgres_target import Target, split_options

Durability = Literal["power", "process"]

_PROMISES: Mapping[str, str] = {
    "power": "survives a power cut of the database server",
    "process": "survives a killed process of ours; a crash of the database server may lose the newest commits",
}
_UNFLUSHED = "survives a killed process of ours; a power cut of the database server may destroy everything"

LOOK_AGAIN = 1.0
"""Most seconds between two looks of somebody who waits for a change and may expect a notice."""

LOOK_OFTEN = 0.1
"""The same for somebody who cannot expect one."""

_SESSION = (
    "(select s.id from {schema}.session s join {schema}.owner o on o.id = s.owner where o.name = $1 and s.name = $2)"
)
_APPEND = (
    "select {schema}.append($1, $2, $3::bigint, $4::bigint, $5, $6::bytea[], $7::bytea[], $8::bytea[],"
    " $9::bytea[], $10::text[], $11::text[], $12::bigint[], $13, $14, $15::float8, $16, $17)"
)
# The driver takes longer for an array of one than for all the rest.
_APPEND_ONE = _APPEND.replace("$6::bytea[]", "array[$6::bytea]").replace("$7::bytea[]", "array[$7::bytea]")
_HOLD = "select {schema}.hold($1, $2, $3, $4, $5, $6::float8, $7, $8)"
_REWRITE = (
    "select {schema}.rewrite($1, $2, $3::bigint, $4::bigint, $5, $6::bigint[], $7::bytea[], $8::bytea[],"
    " $9::bigint, $10::bytea[], $11::bytea[], $12, $13::text[], $14::text[], $15::bytea[], $16::bytea[],"
    " $17::bytea[], $18::bytea[], $19::text[], $20::text[], $21::bigint[])"
)
_NOBODY = (None, None, None, None, None)


class PostgresStore:
    """A log in a PostgreSQL database, for all processes of many machines.

    `url` is `postgresql://user:password@host:5432/database`, with the driver's options after a question
    mark; what it leaves out comes from `PGHOST`, `PGPASSWORD` and so on. The tables stand in a schema
    of their own, `schema`, and are made at first use.

    `durability="power"` (the default, `synchronous_commit=on`) acknowledges a commit once the server's
    disk has it, and refuses a server that runs with `fsync=off`. `"process"` does not wait for the disk:
    a crash of the server may lose the newest commits.

    `timeout` is the most seconds that anything takes, waiting and connecting included; `connections`
    how many this store opens at most in one event loop, besides one that listens.

    Errors: `StoreUnavailable`, `StoreReadOnly` (a standby, missing rights), `StoreTooNew`, `StoreFull`, and
    `StoreTimeout`, after which it is not known whether a commit was kept.
    """

    needs_loop = True
    """Its answers have to be waited for, so code that cannot await reads on the background loop."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = "statepact",
        durability: Durability = "power",
        timeout: float = 10.0,
        connections: int = 8,
    ) -> None:
        if durability not in _PROMISES:
            raise SetupError(f"durability is {durability!r}", hint='choose "power" or "process"')
        if not 0 < timeout < 1e6 or connections < 1:
            raise SetupError("timeout and connections must be numbers greater than 0")
        self.durability: Durability = durability
        self._schema = Schema(schema)
        self._connections = Connections(
            Target(url), self._schema, durable=durability == "power", timeout=timeout, most=connections
        )
        self._append = self._schema.sql(_APPEND)
        self._append_one = self._schema.sql(_APPEND_ONE)

    def __repr__(self) -> str:
        return f"<PostgresStore: {self._connections.target.shown}, schema {self._schema.name!r}>"

    @classmethod
    def from_url(cls, url: str) -> PostgresStore:
        """Return the store of a URL whose options may be those of the store, too."""
        driver_url, options = split_options(url, ("schema", "durability", "timeout", "connections"))
        known: dict[str, Any] = dict(options)
        for name, kind, what in (("timeout", float, "a number of seconds"), ("connections", int, "a number")):
            if name in known:
                try:
                    known[name] = kind(known[name])
                except ValueError:
                    raise SetupError(f"{name} is not {what}") from None
        return cls(driver_url, **known)

    @property
    def promise(self) -> str:
        """What survives what. A server without `fsync` lowers it as soon as that is known."""
        return _PROMISES[self.durability] if self._connections.flushes else _UNFLUSHED

    # -- writing ---------------------------------------------------------------------------------

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        new: tuple[Any, ...] = _columns(entries)
        statement = self._append
        if len(entries) == 1:
            new = entries[0].header, entries[0].payload, *new[2:]
            statement = self._append_one
        values = (*key, after, self._place(key), self.durability == "power", *new, *_claim(hold))
        await self._write(key, statement, values, after=after, hold=hold)

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        replaced = list(change.replace.items())
        forgotten = list(change.forget or ())
        values = (
            *(*key, after, self._place(key), self.durability == "power"),
            [revision for revision, _ in replaced],
            [header for _, (header, _) in replaced],
            [payload for _, (_, payload) in replaced],
            change.first,
            list(change.blocks),
            list(change.blocks.values()),
            change.forget is None,
            [entity.kind for entity in forgotten],
            [entity.value for entity in forgotten],
            *_columns(entries),
        )
        await self._write(key, self._schema.sql(_REWRITE), values, after=after)

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        values = (*key, self.durability == "power", *_claim(hold))
        await self._write(key, self._schema.sql(_HOLD), values, hold=hold)

    async def _write(
        self, key: SessionKey, statement: str, values: Sequence[object], *, after: int = 0, hold: Hold | None = None
    ) -> None:
        ((refusal,),) = await self._connections.run(statement, values, writing=True)
        if refusal is None:
            return
        kind, *told = refusal
        if kind == "behind":
            raise Behind(f"session {key.session!r} is at revision {told[0]}, not {after}")
        assert hold is not None
        if kind == "lost":
            raise LeaseLost(key.session, holder=hold.holder, run=hold.run)
        holder, run, seconds = told
        raise SessionHeld(key.session, holder=holder, run=run, seconds=float(seconds))

    def _place(self, key: SessionKey) -> int:
        return place_of(self._schema.name, *key)

    # -- reading ---------------------------------------------------------------------------------

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        rows = await self._select(
            "select revision, header from {schema}.entry where session = " + _SESSION + " and revision > $3::bigint"
            " order by revision",
            (*key, after),
        )
        return [StoredHeader(revision, header) for revision, header in rows]

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        rows = await self._select(
            "select revision, payload from {schema}.entry where session = "
            + _SESSION
            + " and revision = any($3::bigint[])",
            (*key, list(revisions)),
        )
        return dict(rows)

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        rows = await self._select(
            "select address, bytes from {schema}.block where session = " + _SESSION + " and address = any($3::bytea[])",
            (*key, list(addresses)),
        )
        return dict(rows)

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        rows = await self._select(
            "select s.name, s.revision from {schema}.session s join {schema}.owner o on o.id = s.owner"
            " where o.name = $1 and s.revision > 0 order by s.name",
            (owner,),
        )
        return [SessionInfo(session=name, revision=revision) for name, revision in rows]

    async def owners(self) -> Sequence[str]:
        rows = await self._select(
            "select o.name from {schema}.owner o where exists"
            " (select 1 from {schema}.session s where s.owner = o.id and s.revision > 0) order by o.name"
        )
        return [name for (name,) in rows]

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        narrowed = "".join(
            [
                " and $2::text is null" if kind is None else " and e.kind = $2",
                " and $3::text is null" if value is None else " and left(e.value, 64) = left($3, 64) and e.value = $3",
            ]
        )
        rows = await self._select(
            "select e.kind, e.value, s.name, e.at from {schema}.entity e join {schema}.session s on s.id = e.session"
            " where e.owner = (select id from {schema}.owner where name = $1)"
            + narrowed
            + " order by e.at desc, s.name,"
            " e.kind, e.value limit $4::bigint",
            (owner, kind, value, most),
        )
        return [EntityUse(kind=kind, value=value, session=session, at=at) for kind, value, session, at in rows]

    async def _select(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return await self._connections.run(self._schema.sql(statement), values, writing=False)

    # -- waiting ---------------------------------------------------------------------------------

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        give_up = time.monotonic() + within
        place = self._place(key)
        revision = await self._revision(key)
        if revision > after or within <= 0:
            return revision
        listener = self._connections.listener
        woken = asyncio.Event()
        try:
            while True:
                woken.clear()
                most = LOOK_AGAIN if await listener.expect(place, woken) else LOOK_OFTEN
                failed: StoreUnavailable | StoreTimeout | None = None
                try:
                    revision = await self._revision(key)
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
                if not woken.is_set():
                    await _wait(woken, min(most, left))
        finally:
            listener.forget(place, woken)

    async def _revision(self, key: SessionKey) -> int:
        rows = await self._select("select revision from {schema}.session where id = " + _SESSION, key)
        return rows[0][0] if rows else 0

    # -- the end ---------------------------------------------------------------------------------

    async def aclose(self) -> None:
        await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _columns(entries: Sequence[NewEntry]) -> tuple[Any, ...]:
    """Return entries as the columns that the functions of the database take, `None` for empty ones."""
    blocks = [block for entry in entries for block in entry.blocks]
    entities = [(entity, entry.at) for entry in entries for entity in entry.entities]
    return (
        [entry.header for entry in entries],
        [entry.payload for entry in entries],
        [address for address, _ in blocks] or None,
        [data for _, data in blocks] or None,
        [entity.kind for entity, _ in entities] or None,
        [entity.value for entity, _ in entities] or None,
        [at for _, at in entities] or None,
    )


def _claim(hold: Hold | None) -> tuple[object, ...]:
    return _NOBODY if hold is None else (hold.run, hold.holder, hold.seconds, hold.claim, hold.succeeds)


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return
