"""How the tables of the PostgreSQL store come to be, and what is asked of a server before it is used."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from statepact.errors import SetupError, StoreError, StoreReadOnly, StoreTooNew, StoreUnavailable
from statepact.stores._postgres_tables import FUNCTIONS, TABLES

if TYPE_CHECKING:
    import psycopg

LAYOUT = "statepact_layout"
"""The table that says which layout a schema has, and by its name that the schema is ours."""

MIGRATIONS: tuple[tuple[str, ...], ...] = ((*TABLES, *FUNCTIONS),)
"""Statements of each layout, forward only. A released one is never edited."""


class Schema:
    """A schema by name: its statements, its lock and its channel."""

    def __init__(self, name: str) -> None:
        if not name or "\x00" in name or len(name.encode()) > 63 or name.lower().startswith("pg_"):
            raise SetupError(
                f"{name[:80]!r} cannot be the name of a schema",
                hint="take 1 to 63 bytes of text that do not begin with pg_",
            )
        self.name = name
        self.quoted = '"' + name.replace('"', '""') + '"'
        self.channel = name
        self.lock = place_of(name)
        """Held by whoever makes or changes the tables."""

    def sql(self, statement: str) -> str:
        """Return a statement for this schema."""
        literal = "'" + self.name.replace("'", "''") + "'"
        return statement.replace("{schema}", self.quoted).replace("{channel}", literal)


def place_of(*names: str) -> int:
    """Return a number for names, for locks and notices: no name stands there in clear."""
    text = b"".join(len(raw).to_bytes(4) + raw for raw in (name.encode("utf-8", "surrogatepass") for name in names))
    return int.from_bytes(hashlib.sha256(b"statepact:place:" + text).digest()[:8], signed=True)


async def check_server(db: psycopg.AsyncConnection[Any], *, timeout: float) -> bool:
    """Refuse a server that cannot keep what it acknowledges; return whether it flushes at all.

    Makes the connection fit for the store: read committed, whatever the role prefers, and statements
    that the server itself ends before our deadline is over.
    """
    cursor = await db.execute(
        "select pg_is_in_recovery(), current_setting('fsync'), getdatabaseencoding(),"
        " set_config('default_transaction_isolation', 'read committed', false),"
        # Our statements look the same for every value, and planning costs as much as executing them.
        " set_config('plan_cache_mode', 'force_generic_plan', false),"
        " set_config('statement_timeout', $1, false)",
        (str(max(1, int(timeout * 800))),),
    )
    row = await cursor.fetchone()
    assert row is not None
    if row[0]:
        raise StoreReadOnly(
            "this PostgreSQL server is a standby, which may be behind and takes no commits",
            hint="name the primary, or all servers: postgresql://one,two/database",
        )
    if row[2] != "UTF8":
        raise StoreUnavailable(
            f"the database has the encoding {row[2]}, which cannot hold every name",
            hint="create a database with encoding UTF8",
        )
    return bool(row[1] == "on")


async def layout_of(db: psycopg.AsyncConnection[Any], schema: Schema) -> int:
    """Return the layout of the schema, 0 if there is none yet.

    Raises `StoreTooNew`, and `StoreUnavailable` for a schema of another program.
    """
    cursor = await db.execute(
        "select n.oid, (select count(*) from pg_class c where c.relnamespace = n.oid),"
        " (select c.oid from pg_class c where c.relnamespace = n.oid and c.relname = $2)"
        " from pg_namespace n where n.nspname = $1",
        (schema.name, LAYOUT),
    )
    row = await cursor.fetchone()
    if row is None:
        return 0
    if row[2] is None:
        if row[1]:
            raise StoreUnavailable(
                f"the schema {schema.name!r} holds tables of another program",
                hint="name a schema of our own: ?schema=statepact_state; this one is unchanged",
            )
        return 0
    cursor = await db.execute(schema.sql(f"select max(version) from {{schema}}.{LAYOUT}"))
    found = await cursor.fetchone()
    version: int = (found[0] if found else None) or 0
    if version > len(MIGRATIONS):
        raise StoreTooNew(
            f"the schema {schema.name!r} has layout {version}, this version of statepact knows {len(MIGRATIONS)}",
            hint="update statepact; the database is unchanged",
        )
    return version


async def migrate(db: psycopg.AsyncConnection[Any], schema: Schema) -> None:
    """Bring the tables to the newest layout, in one transaction and under a lock.

    Who is killed in between leaves nothing behind, and of two at once the second finds it done.
    """
    if await layout_of(db, schema) == len(MIGRATIONS):
        return
    async with db.transaction():
        await db.execute("select pg_advisory_xact_lock($1)", (schema.lock,))
        version = await layout_of(db, schema)
        if version == len(MIGRATIONS):
            return
        if version == 0:
            cursor = await db.execute("select 1 from pg_namespace where nspname = $1", (schema.name,))
            if await cursor.fetchone() is None:
                await db.execute(schema.sql("create schema {schema}"))
            await db.execute(schema.sql(f"create table {{schema}}.{LAYOUT}(version integer not null)"))
            await db.execute(schema.sql(f"insert into {{schema}}.{LAYOUT} values (0)"))
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                await db.execute(schema.sql(statement))
        await db.execute(schema.sql(f"update {{schema}}.{LAYOUT} set version = $1"), (len(MIGRATIONS),))


def refuse_unflushed() -> StoreError:
    """Return the error for a server that does not flush what it acknowledges."""
    return StoreError(
        "this PostgreSQL server runs with fsync=off: a power cut may destroy all of it",
        hint="set fsync=on, or say ?durability=process if the state may be lost",
    )
