"""A history that is recorded on a store says when the store has not kept its promise."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from statepact.errors import Behind, StoreTimeout
from statepact.ledger import SessionKey
from statepact.stores import Hold, MemoryStore, NewEntry, StoredHeader
from statepact.testing import History

KEY = SessionKey("acme", "s-1")


def entry(name: str) -> NewEntry:
    return NewEntry(name.encode(), b"")


async def test_good_store_leaves_a_good_history() -> None:
    """Appends, refusals and reads of two clients, in order."""
    history, store = History(), MemoryStore()
    ours, theirs = history.watch(store, "ours"), history.watch(store, "theirs")

    await ours.append(KEY, [entry("x"), entry("y")], after=0)
    with pytest.raises(Behind):
        await theirs.append(KEY, [entry("z")], after=0)
    await theirs.headers(KEY)
    await theirs.append(KEY, [entry("z")], after=2, hold=Hold(run="r", holder="theirs", seconds=60))

    assert not history.contradictions()
    assert [str(one).split("] ")[1] for one in history.operations[KEY]] == [
        "ours appends x y after 0",
        "theirs appends z after 0: refused, behind",
        "theirs reads after 0: x y",
        "theirs appends z after 2 and claims for theirs, 60 s",
    ]


class Outdated(MemoryStore):
    """Serves what it served first, like a replica that has stopped following."""

    kept: Sequence[StoredHeader] | None = None

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        if self.kept is None:
            self.kept = await super().headers(key, after=after)
        return self.kept


class Careless(MemoryStore):
    """Acknowledges an append that it has refused."""

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        try:
            await super().append(key, entries, after=after, hold=hold)
        except Behind:
            return


async def test_outdated_read_is_found() -> None:
    """Somebody reads an empty session after somebody else was told that it has an entry."""
    history = History()
    store = history.watch(Outdated(), "ours")
    await store.headers(KEY)
    await store.append(KEY, [entry("x")], after=0)
    await store.headers(KEY)

    assert "reads after 0: nothing" in str(history.contradictions()[KEY])


async def test_acknowledged_and_not_kept_is_found() -> None:
    """Two writers are told that they have written the same revision."""
    history = History()
    store = Careless()
    await history.watch(store, "ours").append(KEY, [entry("x")], after=0)
    await history.watch(store, "theirs").append(KEY, [entry("y")], after=0)

    assert "revision 1 is x and y" in str(history.contradictions()[KEY])


async def test_timed_out_append_may_have_happened_or_not() -> None:
    """Nothing is blamed on an append whose answer never came; what failed otherwise is not there."""

    class Silent(MemoryStore):
        async def append(
            self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
        ) -> None:
            await super().append(key, entries, after=after, hold=hold)
            raise StoreTimeout("no answer")

    history, store = History(), Silent()
    watched = history.watch(store, "ours")
    with pytest.raises(StoreTimeout):
        await watched.append(KEY, [entry("x")], after=0)
    await watched.headers(KEY)

    assert not history.contradictions()
    assert [one.result for one in history.operations[KEY]] == ["unknown", "ok"]
