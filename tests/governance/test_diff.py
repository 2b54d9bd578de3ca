"""What has changed between two revisions is said field by field, and any revision can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
from _cut import cut
from click.testing import CliRunner

from statepact import (
    Contract,
    KeyRing,
    Merge,
    Request,
    Sensitive,
    Shared,
    SqliteStore,
    Store,
    Workflow,
    diff,
    erase,
    fork,
    open_session,
)
from statepact.cli._app import app
from statepact.errors import Deleted, Expired, SetupError, UnknownRevision, UnknownRun, UnknownSession
from statepact.ledger import SessionKey
from statepact.stores import Diff

OWNER = "acme"
PHONE = "+49 431 5551234"


class Customer(Contract, version="1.0"):
    name: str
    phone: Sensitive[str]
    nick: str | None = "nobody's word"


class Basket(Contract, version="1.0"):
    coupon: str | None = None
    visits: Annotated[int, Merge.add] = 0
    card: Sensitive[str] = ""


class Done(Contract, version="1.0"):
    total: int


def shop(store: Store, *, keys: KeyRing | None = None) -> Workflow:
    """understand → visit, which changes the shared basket; the second time it takes things away."""
    made = Workflow("shop", store=store, keys=keys)

    @made.step
    def understand(request: Request) -> Customer:
        return Customer(name=f"Mara {request.text}", phone=PHONE)

    @made.step
    def visit(request: Request, customer: Customer, basket: Shared[Basket]) -> Done:
        if request.text == "again":
            basket.set(coupon=None)
            basket.delete("card")
        else:
            basket.set(coupon="A1", card="4111")
        basket.merge(visits=2)
        return Done(total=10**20)

    return made


async def two_runs(store: Store, *, keys: KeyRing | None = None) -> int:
    """Return the revision between them."""
    made = shop(store, keys=keys)
    await made.run("first", owner=OWNER, session="s-1", id="r-1")
    middle = (await diff(store, "s-1", 0, owner=OWNER)).after
    await made.run("again", owner=OWNER, session="s-1", id="r-2")
    return int(middle.removeprefix("revision "))


def rows(found: Diff) -> dict[str, tuple[str, str]]:
    """Fact → how and from what to what."""
    return {f"{one.place.run}:{one.fact}".lstrip(":"): (one.how, one.values) for one in found.changes}


# -- what is said --------------------------------------------------------------------------------------


async def test_a_new_run_adds_facts_and_changes_shared_values(store: Store) -> None:
    """Added, changed, set to null, deleted are four things; a default that nobody set is none of them."""
    middle = await two_runs(store)
    found = await diff(store, "s-1", middle, owner=OWNER)

    assert rows(found) == {
        "r-2:Request.text": ("added", "again"),
        "r-2:Customer.name": ("added", "Mara again"),
        "r-2:Customer.phone": ("added", "•••"),
        "r-2:Done.total": ("added", "100000000000000000000"),
        "Basket.coupon": ("null", "A1 → null"),
        "Basket.visits": ("changed", "merge of 2 → merge of 2, 2"),
        "Basket.card": ("deleted", "••• → deleted"),
    }
    assert [(run, before and before.status, after and after.status) for run, (before, after) in found.runs.items()] == [
        ("r-2", None, "done")
    ]
    coupon = next(one for one in found.changes if one.fact == "Basket.coupon")
    assert coupon.by == f"visit of r-2 · {middle + 3}"
    assert PHONE not in str(found) + json.dumps(found.as_dict())
    assert "4111" not in str(found) + json.dumps(found.as_dict())


async def test_the_rules_of_a_contract_say_what_came_of_a_merge(store: Store) -> None:
    """Only its code knows them; without it, what was merged is shown."""
    middle = await two_runs(store)
    found = await diff(store, "s-1", middle, owner=OWNER, contracts=[Basket])

    assert rows(found)["Basket.visits"] == ("changed", "2 → 4")


async def test_the_other_way_round(store: Store) -> None:
    """From the later revision to the earlier one, what had come is not there."""
    middle = await two_runs(store)
    newest = int((await diff(store, "s-1", 0, owner=OWNER)).after.split()[1])
    found = await diff(store, "s-1", newest, middle, owner=OWNER, contracts=[Basket])

    assert rows(found)["r-2:Done.total"][0] == "absent"
    assert rows(found)["Basket.visits"] == ("changed", "4 → 2")
    assert rows(found)["Basket.card"] == ("changed", "deleted → •••")
    assert not await diff(store, "s-1", newest, newest, owner=OWNER)


async def test_inside_a_run_its_status_is_told(store: Store) -> None:
    """A run that was open is done; what was there before is not said again."""
    await two_runs(store)
    found = await diff(store, "s-1", 2, 4, owner=OWNER)

    assert [heading for heading, _ in found.groups] == ["run r-1 · shop · open → done", "shared"]
    assert set(rows(found)) == {"r-1:Done.total", "Basket.coupon", "Basket.visits", "Basket.card"}


async def test_what_is_erased_is_named_with_who_and_why(store: Store) -> None:
    """As a change where it was erased, and as erased since where it is read from before."""
    middle = await two_runs(store)
    await erase(
        store, owner=OWNER, session="s-1", fact="Customer.name@2", by="dpo", reason="asked to", keep_derived=True
    )

    after = rows(await diff(store, "s-1", middle, owner=OWNER))
    assert after["r-1:Customer.name"] == ("erased", "by dpo: asked to")
    before = rows(await diff(store, "s-1", 0, middle, owner=OWNER))
    assert before["r-1:Customer.name"] == ("added", "(erased since)")


async def test_two_runs_are_compared(store: Store) -> None:
    """What the same steps have made of two requests."""
    await two_runs(store)
    found = await diff(store, "s-1", owner=OWNER, runs=("r-1", "r-2"))

    assert rows(found) == {
        "r-1 → r-2:Request.text": ("changed", "first → again"),
        "r-1 → r-2:Customer.name": ("changed", "Mara first → Mara again"),
    }


async def test_a_session_is_compared_with_its_fork(store: Store) -> None:
    """What happened on one side and not on the other."""
    middle = await two_runs(store)
    await fork(store, "s-1", "s-2", owner=OWNER, at=middle)
    await shop(store).run("elsewhere", owner=OWNER, session="s-2", id="r-3")
    found = await diff(store, "s-1", owner=OWNER, other="s-2", contracts=[Basket])

    assert {run: (before and 1, after and 1) for run, (before, after) in found.runs.items()} == {
        "r-2": (1, None),
        "r-3": (None, 1),
    }
    assert rows(found)["Basket.coupon"] == ("changed", "null → A1")
    assert "Basket.visits" not in rows(found)


async def test_sealed_values_are_compared_with_their_key_and_never_shown(store: Store) -> None:
    """Without it, nobody can tell whether they differ, and that is what is said."""
    keys = KeyRing({"k": b"k" * 32})
    await two_runs(store, keys=keys)

    locked = rows(await diff(store, "s-1", owner=OWNER, runs=("r-1", "r-2")))
    assert locked["r-1 → r-2:Customer.phone"] == ("locked", "••• → •••")
    opened = await diff(store, "s-1", owner=OWNER, runs=("r-1", "r-2"), keys=keys)
    assert "r-1 → r-2:Customer.phone" not in rows(opened)
    assert PHONE not in str(opened)


async def test_what_a_terminal_would_obey_is_shown_as_text(store: Store) -> None:
    """A value, or a name, cannot move the cursor, change a colour or turn the direction of writing."""
    evil = "\x1b]0;title\x07\x1b[2J\x9b1m\u202e‮[bold]中文"
    async with open_session("s-1", owner=OWNER, store=store, run=f"r{evil}", request=evil):
        pass
    text = str(await diff(store, "s-1", 0, owner=OWNER))

    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert "[bold]中文" in text


# -- any revision can be read --------------------------------------------------------------------------


async def test_a_session_is_read_as_it_stood(store: Store) -> None:
    """Runs, values, shared values and loss of then; nothing of what came later."""
    middle = await two_runs(store)
    async with open_session("s-1", owner=OWNER, store=store) as session:
        past = await session.at(middle)
        early = await session.at(1)

        assert (past.revision, past.runs) == (middle, ["r-1"])
        assert await past.get(Customer) == Customer(name="Mara first", phone=PHONE)
        assert await past.all(Done) == [Done(total=10**20)]
        assert await past.shared(Basket) == Basket(coupon="A1", visits=2, card="4111")
        assert (await past.measure()).status == "done"
        assert (await early.get(Customer), await early.shared(Basket)) == (None, None)
        assert [entry.step for entry in (await early.view()).entries] == ["request"]


async def test_what_is_erased_cannot_be_read_in_the_past(store: Store) -> None:
    """A revision from before the erasure is no way around it."""
    middle = await two_runs(store)
    await erase(store, owner=OWNER, session="s-1", fact="Customer.name", by="dpo", reason="asked", keep_derived=True)

    async with open_session("s-1", owner=OWNER, store=store) as session:
        past = await session.at(middle)
        with pytest.raises(Deleted):
            await past.get(Customer)
        assert await past.all(Customer) == []
        with pytest.raises(UnknownRevision):
            await session.at(99)


def test_the_past_is_read_without_an_event_loop(tmp_path: Path) -> None:
    """The synchronous face has it, too."""
    with open_session("s-1", store=f"sqlite:///{tmp_path}/x.db", run="r", request="hi") as session:
        with session.step("one") as step:
            step.commit(Done(total=1))
        past = session.at(1)
        assert (past.revision, past.runs, past.get(Done), past.all(Done)) == (1, ["r"], None, [])
        assert session.at(2).get(Done) == Done(total=1)
        assert past.shared(Basket) is None
        assert len(past.view().commits) == 1
        assert past.measure().run == "r"


async def test_what_is_not_there_is_not_compared(store: Store) -> None:
    """A session, a revision, a run, and no question at all."""
    await two_runs(store)

    with pytest.raises(UnknownSession):
        await diff(store, "never", 0, owner=OWNER)
    with pytest.raises(UnknownSession):
        await diff(store, "s-1", 0, owner="umbrella")
    for pair in ((1, 99), (99, 1), (99, None)):
        with pytest.raises(UnknownRevision):
            await diff(store, "s-1", *pair, owner=OWNER)
    with pytest.raises(UnknownRun, match="r-1, r-2"):
        await diff(store, "s-1", owner=OWNER, runs=("r-1", "r-3"))
    with pytest.raises(SetupError):
        await diff(store, "s-1", owner=OWNER)


async def test_what_a_retention_rule_has_removed_is_said(store: Store) -> None:
    """A revision that is gone is an error; from before the first on, what is missing is named."""
    middle = await two_runs(store)
    await cut(store, SessionKey(OWNER, "s-1"), middle)

    with pytest.raises(Expired, match=str(middle)):
        await diff(store, "s-1", middle - 1, owner=OWNER)
    with pytest.raises(Expired):
        await diff(store, "s-1", 1, 2, owner=OWNER)
    found = await diff(store, "s-1", 0, owner=OWNER)
    assert found.removed == middle
    assert f"the oldest {middle} entries have been removed" in str(found)
    assert set(found.runs) == {"r-2"}
    assert (await diff(store, "s-1", middle, owner=OWNER)).removed == 0


# -- the commands --------------------------------------------------------------------------------------


async def test_the_command_prints_what_has_changed(tmp_path: Path) -> None:
    """In lines that can be read, in JSON that can be worked with, and for two runs."""
    url = f"sqlite:///{tmp_path}/state.db"
    async with SqliteStore(tmp_path / "state.db") as store:
        middle = await two_runs(store)
    asked = ["--store", url, "--owner", OWNER]

    import asyncio

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*arguments, *asked])
        return done.exit_code, done.output

    code, text = await asyncio.to_thread(run, "diff", "s-1", str(middle))
    assert code == 0
    lines = [line.split() for line in text.splitlines()]
    assert ["∅", "set", "to", "null", "Basket.coupon", "A1", "→", "null", "visit", "of", "r-2", "·", "7"] in lines
    code, text = await asyncio.to_thread(run, "diff", "s-1", str(middle), "--json")
    assert (code, json.loads(text)["changes"][0]["to"]) == (0, "again")
    code, text = await asyncio.to_thread(run, "diff", "s-1", "--runs", "r-1", "r-2")
    assert (code, "first → again" in text) == (0, True)
    code, text = await asyncio.to_thread(run, "fork", "s-1", "s-2", "--at", "2", "--json")
    assert (code, json.loads(text)["revision"]) == (0, 2)
    code, text = await asyncio.to_thread(run, "show", "s-1", "--at", "2")
    assert (code, "at revision 2" in text, "Done.total" in text) == (0, True, False)
    code, text = await asyncio.to_thread(run, "diff", "s-1", "--with", "s-2", "99")
    assert (code, "ERR_UNKNOWN_REVISION" in text) == (3, True)
