"""What errors of PostgreSQL and its driver mean to us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statepact.errors import StatepactError, StoreError, StoreFull, StoreReadOnly, StoreTimeout, StoreUnavailable

if TYPE_CHECKING:
    import psycopg

AGAIN = frozenset({"40001", "40P01"})
"""The transaction was undone because of another one: the same again is right."""

_ENDED = frozenset({"57P01", "57P02", "57P03", "57P05"})
"""The server ended the connection, perhaps after the commit."""

_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (
        "password authentication failed",
        "the server does not take this role and password",
        "check user and password of the URL, or PGPASSWORD",
    ),
    ("no password supplied", "the server wants a password", "put it into the URL, PGPASSWORD or a password file"),
    ("pg_hba.conf", "the server takes no connection of this role from here", "add a line to its pg_hba.conf"),
    ("too many clients", "the server has no connection left", "close some, or raise max_connections"),
    ("remaining connection slots", "the server has no connection left", "close some, or raise max_connections"),
    ("too many connections", "the server has no connection left for us", "close some, or raise the connection limit"),
    ("starting up", "the server is starting", "try again in a moment"),
    ("shutting down", "the server is shutting down", "try again when it is back"),
    ("not yet accepting connections", "the server is recovering", "try again in a moment"),
    ("permission denied for database", "this role may not connect to the database", "grant connect to it"),
    ("could not translate host name", "the name of the host is not known", "check the host of the URL"),
    ("connection refused", "no server answers there", "start it, or check host and port of the URL"),
    ("no such file or directory", "no server answers there", "start it, or check host and port of the URL"),
    ("certificate", "the certificate of the server was not accepted", "check sslmode and sslrootcert"),
    ("ssl", "the server and we do not agree about TLS", "check sslmode"),
)
"""The driver has no codes for a refused connection, only the server's words, which may be in any
language: what is not among these gets a text that fits them all."""


def cannot_connect(error: BaseException, where: str) -> StatepactError:
    """Return the error a user sees when a connection could not be made."""
    text = str(error).lower()
    if "does not exist" in text and ("database" in text or "role" in text):
        what = "database" if 'database "' in text else "role"
        return StoreUnavailable(f"{where}: this {what} does not exist", hint=f"create the {what}, or name another one")
    for words, message, hint in _REFUSALS:
        if words in text:
            return StoreUnavailable(f"{where}: {message}", hint=hint)
    return StoreUnavailable(
        f"{where} cannot be reached", hint="check that the server runs, host and port, role and database"
    )


def explain(error: psycopg.Error, where: str, *, writing: bool) -> StatepactError:
    """Return the error a user sees for a statement that failed."""
    import psycopg

    state = error.sqlstate or ""
    if state in _ENDED or state.startswith("08"):
        return lost(where, writing=writing)
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return lost(where, writing=writing)
    if not state:  # the driver could not even send it
        return StoreError("a name holds NUL or half of a surrogate pair, which is not text")
    if state == "57014":
        return StoreTimeout(
            f"{where} did not finish in time; nothing was kept", hint="look for long transactions, or raise timeout"
        )
    if state in ("53100", "53200"):
        what = "room" if state == "53100" else "memory"
        return StoreFull(f"{where} has no {what} left; the commit was not kept", hint=f"free {what} on the server")
    if state == "53300":
        return StoreUnavailable(f"{where} has no connection left", hint="close some, or raise max_connections")
    if state in ("25006", "57P04"):
        return StoreReadOnly(
            f"{where} takes no commits: it is a standby or was set read-only", hint="name the primary server"
        )
    if state == "42501":
        return _no_right(where, writing=writing)
    if state in ("42883", "42P01", "3F000", "42703"):
        return StoreUnavailable(
            f"{where} has no tables of this version any more",
            hint="they were removed, or a newer version changed them: open the store again, or update statepact",
        )
    if state in ("22021", "22P05"):
        return StoreError("a name holds NUL or half of a surrogate pair, which is not text")
    if state == "54000":
        return StoreError(f"{where} refused an entry of more than a gigabyte", hint="commit smaller values")
    if state in AGAIN:
        return StoreTimeout(f"{where} undid the commit again and again; nothing was kept", hint="try again")
    return StoreError(f"{where} refused an operation (SQLSTATE {state})", hint="the cause has the server's words")


def lost(where: str, *, writing: bool) -> StatepactError:
    """Return the error for a connection that ended before the answer came."""
    if writing:
        return StoreTimeout(
            f"the connection to {where} ended before the answer came: whether the commit was kept is not known",
            hint="read the session again; running the same step again finds out and changes nothing twice",
        )
    return StoreUnavailable(f"the connection to {where} ended", hint="check that the server runs")


def late(where: str, seconds: float, *, writing: bool) -> StoreTimeout:
    """Return the error for an answer that did not come before the deadline."""
    return StoreTimeout(
        f"{where} did not answer within {seconds:g} s"
        + (": whether the commit was kept is not known" if writing else ""),
        hint="check the server and the network, or raise timeout",
    )


def _no_right(where: str, *, writing: bool) -> StatepactError:
    hint = "grant the role usage on the schema, and select, insert, update, delete and execute on what is in it"
    if writing:
        return StoreReadOnly(f"this role may not write at {where}", hint=hint)
    return StoreUnavailable(f"this role may not read at {where}", hint=hint)
