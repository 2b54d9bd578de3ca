"""Listing sessions by conditions, every one of which is applied or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from statepact.errors import UnknownFilter
from statepact.stores._base import Store

_KNOWN = ("owner", "session")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSession:
    """A session that fits all conditions."""

    owner: str
    session: str
    revision: int
    """Revision of the newest entry."""


async def find_sessions(
    store: Store, where: Mapping[str, str], *, every_owner: bool = False
) -> tuple[FoundSession, ...]:
    """Return the sessions that fit every condition, by owner and name.

    Conditions are `owner` and `session`, each compared as a whole. To look at more than one owner's
    sessions takes `every_owner=True`, for those who run the store.

    Raises `UnknownFilter` for a condition that is none of these or has no text as its value, and for a
    listing without an owner that does not say `every_owner`: nothing is ever left out silently.
    """
    unknown = sorted(str(name) for name in where if name not in _KNOWN)
    if unknown:
        raise UnknownFilter(
            f"sessions cannot be found by {', '.join(unknown)}", hint=f"conditions are {' and '.join(_KNOWN)}"
        )
    # `None` is what a request without an owner becomes, and it must not mean "any".
    empty = [name for name in _KNOWN if name in where and (not isinstance(where[name], str) or not where[name])]
    if empty:
        raise UnknownFilter(
            f"the condition {' and '.join(empty)} has no text", hint="leave out a condition that does not matter"
        )
    if "owner" not in where and not every_owner:
        raise UnknownFilter(
            "a listing without an owner would show everybody's sessions",
            hint="name the owner, or say every_owner=True if the reader may see all",
        )
    found: list[FoundSession] = []
    for owner in [where["owner"]] if "owner" in where else await store.owners():
        found += [
            FoundSession(owner=owner, session=info.session, revision=info.revision)
            for info in await store.sessions(owner)
            if where.get("session", info.session) == info.session
        ]
    return tuple(found)
