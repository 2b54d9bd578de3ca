"""Names of keys. All keys of a session share one hash tag, so that one script may touch them in a Cluster.

Names of owners and sessions are percent-encoded, so that none of them is a pattern, closes the tag or
becomes another one: what stands between `{`, `/` and `}` holds none of these.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from statepact.ledger import SessionKey
from statepact.stores._base import Entity


class SessionKeys(NamedTuple):
    """The keys of one session."""

    meta: str
    """Hash: `first` and `last` revision, who holds the session, how long it is kept."""
    headers: str
    """List of headers, oldest first."""
    payloads: str
    """Hash of payloads by revision."""
    blocks: str
    """Hash of large values by address."""
    entities: str
    """Hash: when each entity was spoken of last."""
    grave: str
    """In a cache: outlives the others, so that what has expired is not taken for what never was."""


class Keys:
    """Makes the names of all keys, under one prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def of(self, key: SessionKey) -> SessionKeys:
        """Return the keys of a session."""
        tag = f"{self._prefix}{{{_safe(key.owner)}/{_safe(key.session)}}}"
        return SessionKeys(f"{tag}m", f"{tag}h", f"{tag}p", f"{tag}b", f"{tag}e", f"{tag}g")

    def channel(self, key: SessionKey) -> str:
        """Return the channel on which news of a session is told."""
        return f"{self._prefix}{{{_safe(key.owner)}/{_safe(key.session)}}}n"

    @property
    def owners(self) -> str:
        """Set of owners that have, or had, sessions."""
        return f"{self._prefix}owners"

    def sessions(self, owner: str) -> str:
        """Set of sessions that an owner has, or was about to have."""
        return f"{self._prefix}{{{_safe(owner)}}}s"

    def entities(self, owner: str, kind: str | None = None, value: str | None = None) -> str:
        """Sorted set of what an owner's sessions may be about, by time: all, of a kind, or one thing."""
        parts = [f"{self._prefix}{{{_safe(owner)}}}e"]
        if kind is not None:
            parts.append(_safe(kind))
            if value is not None:
                parts.append(_safe(value))
        return "/".join(parts)


def member(entity: Entity, session: str) -> str:
    """Return how an entity of a session stands in an index."""
    return "/".join(map(_safe, (entity.kind, entity.value, session)))


def entity_of(text: str) -> tuple[Entity, str]:
    """Return the entity and the session of a member of an index."""
    kind, value, session = text.split("/")
    return Entity(unquote(kind), unquote(value)), unquote(session)


def field_of(entity: Entity) -> str:
    """Return how an entity stands in its session's own hash."""
    return f"{_safe(entity.kind)}/{_safe(entity.value)}"


def _safe(name: str) -> str:
    return quote(name, safe="")
