"""Changing what is stored, and finding sessions by what they are about: a part of `StoreSuite`."""

from __future__ import annotations

import pytest

from statepact import Contract, Id, open_session
from statepact.errors import Behind
from statepact.ledger import SessionKey
from statepact.stores._base import Entity, EntityUse, NewEntry, Rewrite, Store
from statepact.testing._sentences import add, entry, texts


class Parcel(Contract, version="1.0"):
    """What is recalled."""

    order_id: Id[str]


ORDER = Entity("order", "67890")
PERSON = Entity("person", "Mara Lind")


def about(text: str, *entities: Entity, at: int = 1_767_225_600_000) -> NewEntry:
    """Return an entry that says what its session is about."""
    return NewEntry(b"header of " + text.encode(), text.encode(), entities=entities, at=at)


async def places(store: Store, owner: str, entity: Entity) -> list[str]:
    """Return the sessions that are about something, the latest first."""
    return [use.session for use in await store.entities(owner, kind=entity.kind, value=entity.value)]


class ChangeSuite:
    """Rewriting and entities, as every store promises them."""

    async def test_rewrite_replaces_header_and_payload(self, store: Store, key: SessionKey) -> None:
        """Only the entries that are named change, and what is appended comes with it."""
        await add(store, key, "one", "two", "three")

        await store.rewrite(key, Rewrite(replace={2: (b"header of gone", b"gone")}), [entry("erased 2")], after=3)

        assert await texts(store, key) == ["one", "gone", "three", "erased 2"]

    async def test_rewrite_removes_the_oldest_entries(self, store: Store, key: SessionKey) -> None:
        """Revisions stay what they were; the first ones are simply not there any more."""
        await add(store, key, "one", "two", "three", "four")

        await store.rewrite(key, Rewrite(first=3), after=4)

        assert [(one.revision, one.header) for one in await store.headers(key)] == [
            (3, b"header of three"),
            (4, b"header of four"),
        ]
        assert dict(await store.payloads(key, range(1, 6))) == {3: b"three", 4: b"four"}
        await store.append(key, [entry("five")], after=4)
        assert [one.revision for one in await store.headers(key, after=1)] == [3, 4, 5]
        assert [info.revision for info in await store.sessions(key.owner)] == [5]

    async def test_rewrite_puts_one_entry_in_the_place_of_the_oldest(self, store: Store, key: SessionKey) -> None:
        """What a retention rule does: all in one step, and the log goes on behind it."""
        await store.append(key, [about("one", ORDER), about("two"), entry("three", blocks=((b"a", b"1"),))], after=0)
        await store.append(key, [entry("four")], after=3)

        change = Rewrite(replace={3: (b"header of base", b"base")}, first=3, blocks={b"a": None, b"b": b"2"})
        await store.rewrite(key, change, [entry("note")], after=4)

        assert [(one.revision, one.header) for one in await store.headers(key)] == [
            (3, b"header of base"),
            (4, b"header of four"),
            (5, b"header of note"),
        ]
        assert dict(await store.payloads(key, range(1, 7))) == {3: b"base", 4: b"four", 5: b"note"}
        assert dict(await store.blocks(key, [b"a", b"b"])) == {b"b": b"2"}
        with pytest.raises(Behind):
            await store.append(key, [entry("late")], after=4)

    async def test_rewrite_changes_and_removes_blocks(self, store: Store, key: SessionKey) -> None:
        """A large value can be put under another key, or go; in this session and in no other."""
        blocks = ((b"a", b"one"), (b"b", b"two"))
        other = SessionKey(key.owner, "s-2")
        await store.append(key, [entry("x", blocks=blocks)], after=0)
        await store.append(other, [entry("y", blocks=blocks)], after=0)

        await store.rewrite(key, Rewrite(blocks={b"a": None, b"b": b"2", b"c": b"3", b"d": None}), after=1)

        assert dict(await store.blocks(key, [b"a", b"b", b"c", b"d"])) == {b"b": b"2", b"c": b"3"}
        assert dict(await store.blocks(other, [b"a", b"b"])) == {b"a": b"one", b"b": b"two"}

    async def test_rewrite_behind_the_log_changes_nothing(self, store: Store, key: SessionKey) -> None:
        """What is erased is decided on the log as it is: who has not seen all of it is told."""
        await store.append(key, [about("one", ORDER), about("two")], after=0)
        change = Rewrite(replace={1: (b"h", b"p")}, first=2, blocks={b"a": b"x"}, forget=None)

        with pytest.raises(Behind):
            await store.rewrite(key, change, [entry("erased")], after=1)

        assert await texts(store, key) == ["one", "two"]
        assert dict(await store.blocks(key, [b"a"])) == {}
        assert await places(store, key.owner, ORDER) == [key.session]

    async def test_a_session_can_begin_later(self, store: Store, key: SessionKey) -> None:
        """A copy of a log whose beginning was removed has the same revisions; nobody's session is overwritten."""
        await store.rewrite(key, Rewrite(first=7), [entry("seven"), entry("eight")], after=0)

        assert [(one.revision, one.header) for one in await store.headers(key)] == [
            (7, b"header of seven"),
            (8, b"header of eight"),
        ]
        assert dict(await store.payloads(key, range(1, 10))) == {7: b"seven", 8: b"eight"}
        assert [info.revision for info in await store.sessions(key.owner)] == [8]
        with pytest.raises(Behind):
            await store.rewrite(key, Rewrite(first=3), [entry("three")], after=0)
        await store.append(key, [entry("nine")], after=8)
        await store.rewrite(key, Rewrite(first=9), after=9)
        assert [one.revision for one in await store.headers(key)] == [9]

    async def test_rewrite_of_what_is_not_there_is_nothing(self, store: Store, key: SessionKey) -> None:
        """Revisions that do not exist are not made."""
        await store.rewrite(key, Rewrite(replace={1: (b"h", b"p")}, first=1), after=0)
        assert list(await store.headers(key)) == []
        assert list(await store.sessions(key.owner)) == []

    # -- entities ----------------------------------------------------------------------------------

    async def test_sessions_are_found_by_what_they_are_about(self, store: Store) -> None:
        """The latest use comes first, and each session once."""
        for session, at in (("s-1", 1_000_000), ("s-2", 3_000_000), ("s-3", 2_000_000)):
            await store.append(SessionKey("acme", session), [about(session, ORDER, PERSON, at=at)], after=0)
        await store.append(SessionKey("acme", "s-1"), [about("again", ORDER, at=9_000_000)], after=1)

        assert await places(store, "acme", ORDER) == ["s-1", "s-2", "s-3"]
        assert await places(store, "acme", PERSON) == ["s-2", "s-3", "s-1"]
        assert list(await store.entities("acme", value="67890", most=1)) == [
            EntityUse(kind="order", value="67890", session="s-1", at=9_000_000)
        ]
        assert len(await store.entities("acme")) == 6
        assert [use.kind for use in await store.entities("acme", kind="order")] == ["order"] * 3
        assert list(await store.entities("acme", kind="order", value="678")) == []

    async def test_entities_of_owners_are_apart(self, store: Store) -> None:
        """Two customers with the same order number learn nothing of each other. FC-75."""
        await store.append(SessionKey("ua", "s-1"), [about("ours", ORDER)], after=0)

        assert list(await store.entities("ub")) == []
        assert await places(store, "ub", ORDER) == []

    async def test_what_a_run_was_about_is_recalled_by_a_later_one(self, store: Store) -> None:
        """From a marked field to the answer to "the order ending in 890": through any store, for its owner only."""
        for session, number in (("s-1", "KX-67890"), ("s-2", "KX-12345")):
            async with (
                open_session(session, owner="ua", store=store, request=f"About {number}.") as earlier,
                earlier.step("look_up") as step,
            ):
                await step.commit(Parcel(order_id=number))

        async with open_session("now", owner="ua", store=store, request="the one ending in 890") as session_:
            found = (await session_.recall(Parcel)).one
            both = (await session_.recall(Parcel, "any news?")).several
        async with open_session("now", owner="ub", store=store, request="KX-67890") as stranger:
            theirs = await stranger.recall(Parcel)

        assert found is not None
        assert (found.value, found.session, found.quote) == (Parcel(order_id="KX-67890"), "s-1", "About KX-67890.")
        assert {one.id for one in both} == {"KX-67890", "KX-12345"}
        assert theirs.nothing

    async def test_entity_of_a_refused_append_is_not_there(self, store: Store, key: SessionKey) -> None:
        """The index never knows of what was not committed."""
        await add(store, key, "one")
        with pytest.raises(Behind):
            await store.append(key, [about("late", ORDER)], after=0)

        assert list(await store.entities(key.owner)) == []

    @pytest.mark.parametrize("value", ["*", "6789?", "[0-9]", "6:7", "订单-尾号 67890", " ", "x" * 512, "'; --", "\\"])
    async def test_entities_are_compared_as_a_whole(self, store: Store, key: SessionKey, value: str) -> None:
        """No value is a pattern, and none is cut. FC-69."""
        await store.append(key, [about("one", Entity("order", value), Entity("ord", "er" + value))], after=0)
        await store.append(SessionKey(key.owner, "s-2"), [about("two", ORDER)], after=0)

        assert await places(store, key.owner, Entity("order", value)) == [key.session]

    async def test_forgotten_entities_are_gone(self, store: Store, key: SessionKey) -> None:
        """One of them, or all; of this session and of no other."""
        other = SessionKey(key.owner, "s-2")
        await store.append(key, [about("one", ORDER, PERSON)], after=0)
        await store.append(other, [about("two", ORDER, PERSON)], after=0)

        await store.rewrite(key, Rewrite(forget=[ORDER]), after=1)
        assert await places(store, key.owner, ORDER) == ["s-2"]
        assert set(await places(store, key.owner, PERSON)) == {"s-1", "s-2"}

        await store.rewrite(key, Rewrite(forget=None), after=1)
        assert await places(store, key.owner, PERSON) == ["s-2"]

    async def test_owners_are_listed(self, store: Store) -> None:
        """By name; those that have sessions."""
        for owner in ("客户", "b", "a"):
            await add(store, SessionKey(owner, "s-1"), "one")

        assert list(await store.owners()) == ["a", "b", "客户"]
