"""Where a PostgreSQL store is, as its URL says it, and how a connection to there is made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from statepact.errors import MissingExtra, SetupError, StoreUnavailable
from statepact.stores._postgres_errors import cannot_connect

if TYPE_CHECKING:
    import psycopg

_NOT_UNDERSTOOD = "this PostgreSQL URL cannot be understood"
_FORM = "write postgresql://user:password@host:5432/database; special characters as %40, options after ?"
SCHEMES = ("postgresql", "postgres")


class Target:
    """Database, role and everything else that the driver must know; never shows a password.

    What the URL leaves out comes from where the driver always takes it: PGHOST, PGPASSWORD, a
    password file, a service file. Raises `SetupError` for a URL that the driver does not understand.
    """

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise MissingExtra("PostgresStore", extra="postgres") from error

        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise SetupError("this is no PostgreSQL URL", hint="write postgresql://user@host:5432/database")
        if parts.netloc.count("@") > 1 or "@" in parts.path:
            # What stands behind the first @ would be taken for a host or a database, and be shown.
            raise SetupError(_NOT_UNDERSTOOD, hint=_FORM)
        try:
            # Not `psycopg.connect(url)`: its errors repeat what they could not understand, and that
            # may be half of a password.
            self.options: Mapping[str, Any] = {
                "application_name": "statepact",
                "client_encoding": "UTF8",
                **conninfo_to_dict(url),
            }
        except psycopg.Error:
            raise SetupError(_NOT_UNDERSTOOD, hint=_FORM) from None
        ports = str(self.options.get("port") or "")
        if not ports.replace(",", "0").isdigit() and ports:
            raise SetupError("the port of this PostgreSQL URL is not a number", hint=_FORM)
        hosts = str(self.options.get("host") or "")
        if "," in hosts and "target_session_attrs" not in self.options:
            self.options = {**self.options, "target_session_attrs": "primary"}
        self._secrets = tuple(str(self.options[name]) for name in ("password", "sslpassword") if self.options.get(name))
        place = (hosts or "the local server") + (f":{ports}" if ports and not hosts.startswith("/") else "")
        database = self.options.get("dbname") or self.options.get("user")
        self.shown = f"PostgreSQL at {place}" + (f", database {database!r}" if database else "")
        """Names the place in messages."""

    def __repr__(self) -> str:
        return f"<{self.shown}>"

    async def connect(self, *, timeout: float) -> psycopg.AsyncConnection[Any]:
        """Return a new connection in autocommit mode. Raises `StoreUnavailable` with what is wrong."""
        import psycopg

        try:
            async with asyncio.timeout(timeout):
                return await psycopg.AsyncConnection.connect(
                    **self.options, autocommit=True, cursor_factory=psycopg.AsyncRawCursor
                )
        except TimeoutError:
            raise StoreUnavailable(
                f"{self.shown} did not answer within {timeout:g} s", hint="check host and port, and the network"
            ) from None
        except (psycopg.Error, OSError) as error:
            raise cannot_connect(error, self.shown) from self.cause(error)

    def cause(self, error: BaseException) -> BaseException | None:
        """Return the driver's error to be shown as the cause, or `None` if it repeats a password."""
        text = str(error)
        return None if any(secret in text for secret in self._secrets) else error


def split_options(url: str, known: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return a URL without the options that are ours, and these."""
    place, _, query = url.partition("?")
    ours: dict[str, str] = {}
    theirs: list[str] = []
    for option in query.split("&"):
        name, _, value = option.partition("=")
        if name in known:
            ours[name] = unquote(value)
        else:
            theirs.append(option)  # as it is: the driver has rules of its own
    return f"{place}?{'&'.join(theirs)}" if any(theirs) else place, ours
