"""FC-81: a condition that the store did not know was dropped, and everybody's data came back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from statepact import Store
from statepact.errors import UnknownFilter
from statepact.ledger import SessionKey
from statepact.stores import FoundSession, find_sessions
from statepact.testing._sentences import add


@pytest.fixture
async def tenants(store: Store) -> Store:
    """Two tenants with three sessions each, of the same names."""
    for owner in ("acme", "globex"):
        for session in ("s-1", "s-2", "s-3"):
            await add(store, SessionKey(owner, session), f"of {owner}")
    return store


def names(found: tuple[FoundSession, ...]) -> list[str]:
    return [f"{one.owner}/{one.session}" for one in found]


async def test_known_condition_is_applied(tenants: Store) -> None:
    """One tenant's sessions, and one of them."""
    assert names(await find_sessions(tenants, {"owner": "acme"})) == ["acme/s-1", "acme/s-2", "acme/s-3"]
    assert await find_sessions(tenants, {"owner": "globex", "session": "s-2"}) == (
        FoundSession(owner="globex", session="s-2", revision=1),
    )


@pytest.mark.parametrize(
    "where",
    [
        *({"tenant_id": "acme"}, {"tenant": "acme"}, {"owner": "acme", "app": "x"}, {"Owner": "acme"}),
        *({"owner ": "acme"}, {"": "acme"}, {"owner": "acme", "revision": "1"}, {"session": "s-1", "user": "ua"}),
    ],
)
@pytest.mark.parametrize("every_owner", [False, True])
async def test_condition_that_cannot_be_applied_is_an_error(
    tenants: Store, where: Mapping[str, str], every_owner: bool
) -> None:
    """A typo, another product's word, a condition beside a good one: also for those who may see all."""
    with pytest.raises(UnknownFilter) as caught:
        await find_sessions(tenants, where, every_owner=every_owner)
    assert "acme" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "", 0, False, ["acme"], b"acme", {"$ne": ""}, {"like": "%"}])
@pytest.mark.parametrize("name", ["owner", "session"])
async def test_condition_without_text_is_an_error(tenants: Store, name: str, value: Any) -> None:
    """What a request without an owner becomes must not mean "any owner"."""
    with pytest.raises(UnknownFilter, match="no text"):
        await find_sessions(tenants, {"owner": "acme", name: value}, every_owner=True)


@pytest.mark.parametrize("where", [{}, {"session": "s-1"}])
async def test_everybody_is_shown_only_on_purpose(tenants: Store, where: Mapping[str, str]) -> None:
    """No condition is not a condition that is always true."""
    with pytest.raises(UnknownFilter, match="every_owner"):
        await find_sessions(tenants, where)

    found = names(await find_sessions(tenants, where, every_owner=True))
    sessions = ["s-1"] if where else ["s-1", "s-2", "s-3"]
    assert found == [f"{owner}/{session}" for owner in ("acme", "globex") for session in sessions]


@pytest.mark.parametrize("value", ["*", "%", "ac%", "acm_", "acme*", "ACME", "acme ", "' or 1=1 --", "acme\\"])
async def test_value_is_a_name_and_no_pattern(tenants: Store, value: str) -> None:
    """What fits nobody finds nothing, on each store alike."""
    assert await find_sessions(tenants, {"owner": value}) == ()
    assert await find_sessions(tenants, {"session": value}, every_owner=True) == ()


async def test_own_permission_does_not_widen_a_named_owner(tenants: Store) -> None:
    """Who may see all and names one owner sees that one."""
    assert names(await find_sessions(tenants, {"owner": "acme"}, every_owner=True)) == [f"acme/s-{n}" for n in "123"]
