"""What the library asks of a store: an append-only log for each session, compared and appended.

A store moves bytes. It knows no contracts, does not hash and decides two questions, atomically: is
the session still at the revision that the writer saw, and does somebody else hold it? Everything else
(single assignment, loss, rendering) is built on those answers, which is why the same rules hold on
every backend. `statepact.testing.StoreSuite` is the definition of a store in tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Protocol, Self, runtime_checkable

from statepact.ledger import SessionKey


class Entity(NamedTuple):
    """A thing of the user's world that a session is about: `Entity("order", "67890")`."""

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What is to be appended: header and payload, both opaque to the store."""

    header: bytes
    payload: bytes
    blocks: tuple[tuple[bytes, bytes], ...] = ()
    """Large values that the payload refers to, as (address, bytes). Stored once per session."""
    entities: tuple[Entity, ...] = ()
    """What the session is about from this entry on. Found again with `Store.entities`."""
    at: int = 0
    """Time of the write in milliseconds since 1970, for the entities; 0 if there are none."""
    keep: float | None = None
    """Seconds that a cache keeps the session after this entry, `None` for "until deleted".

    A record ignores it: no lifetime ever deletes the only copy."""


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
    """Revision of the newest entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityUse:
    """Where an entity was spoken of last."""

    kind: str
    value: str
    session: str
    at: int
    """When, in milliseconds since 1970, by the writer's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A claim to be the only one who runs in a session: its lease.

    A hold lasts for `seconds` by the store's clock and is renewed by each append that carries it.
    0 seconds give it up. Who is later than that still has it, as long as nobody took it over.
    """

    run: str
    holder: str
    """Names the claimant: a worker, a task. Never two at once."""
    seconds: float
    claim: bool = True
    """False to renew only what is still ours: a claimant that was succeeded is then told so, even if
    its successor has finished in the meantime."""
    succeeds: str = ""
    """A holder that the claimant knows to be dead, so that its time need not be waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A change of what is already stored, for erasure, retention and new keys; nothing else does it."""

    replace: Mapping[int, tuple[bytes, bytes]] = field(default_factory=dict)
    """New header and payload of entries, by revision."""
    first: int = 0
    """Entries before this revision are removed; 0 removes none. A session without entries begins with it, so that
    a log whose beginning was removed can be copied as it is."""
    blocks: Mapping[bytes, bytes | None] = field(default_factory=dict)
    """New bytes of large values by address; `None` removes one."""
    forget: Iterable[Entity] | None = ()
    """Entities that the session is not about any more; `None` for all of them."""


@runtime_checkable
class Store(Protocol):
    """A place where logs live. Revisions of a session count 1, 2, 3 … without a gap.

    A store that has to wait for a server says so with `needs_loop = True`: code that cannot await its
    answers, such as `run.loss`, then reads it on a loop in the background, so it must serve several.
    """

    @property
    def promise(self) -> str:
        """What survives what, in a few words: `survives a power cut`."""
        ...

    # -- the log ---------------------------------------------------------------------------------

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        """Append all entries as revisions `after + 1`, `after + 2`, … or none of them.

        Returns once they are as durable as the store promises. With `hold` the session must be free
        or held by that holder, and is held afterwards; without, nobody asks who holds it.

        Raises, in this order, `SessionHeld` if somebody else holds the session, or `LeaseLost` if
        `hold` was to renew and is not ours any more; `Behind` if the session is not at revision
        `after`; and a `StoreError` for everything else. After an error nothing of the entries is
        readable, except that after `StoreTimeout` it is not known.
        """
        ...

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        """Return the headers after a revision, in order; empty for a session that does not exist."""
        ...

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        """Return the payloads of these revisions; a revision that does not exist is left out."""
        ...

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        """Return large values of the session by address; unknown addresses are left out."""
        ...

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Sequence[NewEntry] = (), *, after: int) -> None:
        """Change stored entries and append others, all in one step or nothing at all.

        Raises `Behind` if the session is not at revision `after`, and a `StoreError`.
        """
        ...

    # -- who runs, and what is new ---------------------------------------------------------------

    async def hold(self, key: SessionKey, hold: Hold) -> None:
        """Claim a session, renew the claim, or give it up; works on sessions without entries, too.

        Raises `SessionHeld` if somebody else has it and is not late, `LeaseLost` if it was to be
        renewed and is not ours any more. Giving up what one does not have changes nothing.
        """
        ...

    async def changed(self, key: SessionKey, *, after: int, within: float) -> int:
        """Return the session's revision once it is greater than `after`, at the latest `within` seconds.

        Notices of the backend only make it sooner: a lost one costs waiting, never a hang.
        """
        ...

    # -- finding ---------------------------------------------------------------------------------

    async def owners(self) -> Sequence[str]:
        """Return the owners that have sessions, by name. For those who run the store, not for users."""
        ...

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        """Return the sessions of one owner, by name."""
        ...

    async def entities(
        self, owner: str, *, kind: str | None = None, value: str | None = None, most: int = 100
    ) -> Sequence[EntityUse]:
        """Return what an owner's sessions are about, the latest use first, one for each session.

        `kind` and `value` narrow it; `most` is how many at most.
        """
        ...

    # -- the end ---------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Finish what was acknowledged and let go of the backend. Closing twice is fine."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
