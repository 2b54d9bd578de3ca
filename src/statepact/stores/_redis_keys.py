"""Names of keys in Redis: nothing that a user calls something can leave its place in one.

All keys of a session stand under one hash tag, `{owner/session}`, so one script may touch them in a
cluster. Both names are percent-encoded, which leaves no brace, colon, slash or wildcard, and gives
different names to different sessions; the slash between them is in neither.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from statepact.errors import SetupError
from statepact.ledger import SessionKey

BATCH = 1000
"""Most keys or fields that one command is about."""


class SessionKeys(NamedTuple):
    """The keys of one session, all in one slot."""

    state: bytes
    """A hash with everything: entries, large values, entities, who holds it. One key ends as a whole."""
    trace: bytes
    """Says that the session was there, and until when. Outlives `state`."""
    channel: bytes
    """Where a commit is announced."""


class OwnerKeys(NamedTuple):
    """The keys of one owner, all in one slot, but not in that of its sessions."""

    sessions: bytes
    """A set of names. May name sessions that have never come to be; the session decides."""
    pending: bytes
    """Sessions whose entities may not be in the index yet, by when that was said."""
    about: bytes
    """What the sessions are about, by the latest use: an index, the session decides."""


class Names:
    """Makes the names of keys that begin with `prefix`."""

    def __init__(self, prefix: str) -> None:
        if not prefix or not prefix.isascii() or not prefix.replace("-", "").replace("_", "").isalnum():
            raise SetupError("the prefix of the keys may hold letters, digits, '-' and '_' only")
        self.owners = f"{prefix}:owners".encode()
        self.confirmed = f"{prefix}:confirmed".encode()
        self._prefix = prefix
        self.session = lru_cache(4096)(self._session)
        self.owner = lru_cache(1024)(self._owner)

    def _session(self, key: SessionKey) -> SessionKeys:
        base = f"{self._prefix}:{{{_plain(key.owner)}/{_plain(key.session)}}}:"
        return SessionKeys(*(f"{base}{end}".encode() for end in ("state", "trace", "news")))

    def _owner(self, owner: str) -> OwnerKeys:
        base = f"{self._prefix}:{{{_plain(owner)}}}:"
        return OwnerKeys(*(f"{base}{end}".encode() for end in ("sessions", "pending", "about")))

    def about(self, owner: str, kind: str | None, value: str | None) -> bytes:
        """Return the key of the part of an owner's index that answers a question."""
        base = self.owner(owner).about
        if kind is None and value is None:
            return base
        if kind is None:
            return base + f":value/{_plain(value or '')}".encode()
        if value is None:
            return base + f":kind/{_plain(kind)}".encode()
        return base + f":both/{_plain(kind)}/{_plain(value)}".encode()


def _plain(name: str) -> str:
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:
        raise SetupError("a name holds half of a surrogate pair, which is not text") from error


def pack(*parts: str) -> bytes:
    """Put texts together so that they can be told apart again, whatever they hold."""
    encoded = [part.encode() for part in parts]
    return b"".join(b"%d:%b" % (len(part), part) for part in encoded)


def unpack(packed: bytes) -> tuple[str, ...]:
    """Return the texts that `pack` put together."""
    parts = []
    while packed:
        size, _, rest = packed.partition(b":")
        parts.append(rest[: int(size)].decode())
        packed = rest[int(size) :]
    return tuple(parts)
