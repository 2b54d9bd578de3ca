"""FC-69: clearing `foo` also cleared `foobar`, and a name with `*` matched everything."""

from __future__ import annotations

import pytest

from statepact import Store
from statepact.ledger import SessionKey
from statepact.stores import Entity, Hold, NewEntry, Rewrite, find_sessions
from statepact.testing._sentences import texts

NAMES = ("foo", "foobar", "foo:1", "*", "f?o", "[a-z]oo", "foo\\", "f%", "_oo", "foo/../foobar", "修*", "'; --", "foo ")


def of(name: str, owner: str = "acme") -> SessionKey:
    return SessionKey(owner, name)


def entries(name: str) -> list[NewEntry]:
    """What a session of this name holds: an entry, a large value and something that it is about."""
    text = f"in {name}".encode()
    return [NewEntry(b"header of " + text, text, ((b"large", text),), (Entity("order", name),), at=1)]


@pytest.fixture
async def filled(store: Store) -> Store:
    for name in NAMES:
        await store.append(of(name), entries(name), after=0)
    return store


async def contents(store: Store, name: str) -> tuple[list[str], dict[bytes, bytes], list[str]]:
    uses = await store.entities("acme", kind="order", value=name)
    return await texts(store, of(name)), dict(await store.blocks(of(name), [b"large"])), [use.session for use in uses]


@pytest.mark.parametrize("cleared", NAMES)
async def test_clearing_one_session_leaves_all_others(filled: Store, cleared: str) -> None:
    """Entries, large values and what it is about go; of the others nothing does."""
    await filled.rewrite(of(cleared), Rewrite(first=2, blocks={b"large": None}, forget=None), after=1)

    assert await contents(filled, cleared) == ([], {}, [])
    for name in NAMES:
        if name != cleared:
            assert await contents(filled, name) == ([f"in {name}"], {b"large": f"in {name}".encode()}, [name])


async def test_each_is_found_by_its_name_alone(filled: Store) -> None:
    """The listing an audit makes: one each, never two, never none."""
    for name in NAMES:
        assert [one.session for one in await find_sessions(filled, {"owner": "acme", "session": name})] == [name]
    assert [info.session for info in await filled.sessions("acme")] == sorted(NAMES)


async def test_holding_one_session_holds_no_other(filled: Store) -> None:
    """A claim on `*` is a claim on `*`."""
    for name in NAMES:
        await filled.hold(of(name), Hold(run="r-1", holder=f"worker of {name}", seconds=60))
    for name in NAMES:
        hold = Hold(run="r-1", holder=f"worker of {name}", seconds=60, claim=False)
        await filled.append(of(name), entries(name), after=1, hold=hold)


async def test_waiting_for_one_session_hears_of_no_other(filled: Store) -> None:
    """A commit to `foobar` does not end a wait for `foo`."""
    for name in NAMES[1:]:
        await filled.append(of(name), entries(name), after=1)
    assert await filled.changed(of("foo"), after=1, within=0.02) == 1


async def test_owners_are_no_patterns_either(store: Store) -> None:
    """The same names as owners: everybody has their own session and sees no other."""
    for owner in NAMES:
        await store.append(of("s-1", owner), entries(owner), after=0)
    for owner in NAMES:
        assert await texts(store, of("s-1", owner)) == [f"in {owner}"]
        assert [use.value for use in await store.entities(owner)] == [owner]
    await store.rewrite(of("s-1", "*"), Rewrite(first=2, forget=None), after=1)
    for owner in NAMES:
        assert await texts(store, of("s-1", owner)) == ([] if owner == "*" else [f"in {owner}"])
