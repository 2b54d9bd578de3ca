"""What the library asks of a store: an append-only log for each session, compared and appended.

A store moves bytes. It knows no contracts, does not hash and decides nothing except one question,
atomically: is the session still at the revision that the writer saw? Everything else (single
assignment, loss, rendering) is built on that one answer, which is why the same rules hold on every
backend. `statepact.testing.StoreSuite` is the definition of a store in tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from statepact.ledger import SessionKey


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What is to be appended: header and payload, both opaque to the store."""

    header: bytes
    payload: bytes
    blocks: tuple[tuple[bytes, bytes], ...] = ()
    """Large values that the payload refers to, as (address, bytes). Stored once per owner."""


@dataclass(frozen=True, slots=True)
class StoredHeader:
    """The header of an entry and its place in the log."""

    revision: int
    header: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """One line of a listing."""

    session: str
    revision: int
    """Number of entries, which is also the revision of the newest."""


@runtime_checkable
class Store(Protocol):
    """A place where logs live. Revisions of a session count 1, 2, 3 … without a gap."""

    @property
    def promise(self) -> str:
        """What survives what, in a few words: `survives a power cut`."""
        ...

    async def append(self, key: SessionKey, entries: Sequence[NewEntry], *, after: int) -> None:
        """Append all entries as revisions `after + 1`, `after + 2`, … or none of them.

        Returns once they are as durable as the store promises. Raises `Behind` if the session is
        not at revision `after`, and a `StoreError` for everything else; after an error nothing of
        the entries is readable, except that after `StoreTimeout` it is not known.
        """
        ...

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        """Return the headers after a revision, in order; empty for a session that does not exist."""
        ...

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        """Return the payloads of these revisions; a revision that does not exist is left out."""
        ...

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        """Return large values of the key's owner by address; unknown addresses are left out."""
        ...

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        """Return the sessions of one owner, by name."""
        ...

    async def aclose(self) -> None:
        """Finish what was acknowledged and let go of the backend. Closing twice is fine."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
