"""A fork begins as its session was at a revision, proves it, and goes its own way."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import pytest
from click.testing import CliRunner

from statepact import (
    Context,
    Contract,
    Id,
    Keep,
    KeyRing,
    Merge,
    Request,
    Sensitive,
    Shared,
    SqliteStore,
    Store,
    Workflow,
    erase,
    fork,
    open_session,
    retain,
    verify,
)
from statepact.cli._app import app
from statepact.errors import (
    Deleted,
    EffectUnknown,
    Expired,
    KeyMissing,
    SessionExists,
    SetupError,
    UnknownRevision,
    UnknownSession,
)
from statepact.ledger import SessionKey
from statepact.ledger._header import Kind
from statepact.stores._open_log import OpenLog

OWNER = "acme"
KEY = SessionKey(OWNER, "s-1")
FORKED = SessionKey(OWNER, "s-2")
LOG_KEY = b"a key that is kept elsewhere"
PHONE = "+49 431 5551234"


class Customer(Contract, version="1.0"):
    name: str
    phone: Sensitive[str]
    order_id: Id[str] = "KX-2041"


class Page(Contract, version="1.0"):
    text: str


class Reply(Contract, version="1.0"):
    text: str


class Basket(Contract, version="1.0"):
    coupon: str | None = None
    visits: Annotated[int, Merge.add] = 0


class Ran:
    """What a workflow has done, and whether its last step fails."""

    def __init__(self, *, broken: bool = True) -> None:
        self.broken = broken
        self.steps: list[str] = []


def flow(store: Store, ran: Ran, *, log_key: bytes | None = None, keys: KeyRing | None = None) -> Workflow:
    """understand → look_up → answer, which fails while it is broken."""
    made = Workflow("flow", store=store, log_key=log_key, keys=keys)

    @made.step
    def understand(request: Request) -> Customer:
        ran.steps.append("understand")
        return Customer(name="Mara", phone=PHONE)

    @made.step
    def look_up(customer: Customer) -> Page:
        ran.steps.append("look_up")
        return Page(text="x" * 5000)

    @made.step
    def answer(page: Page, customer: Customer) -> Reply:
        ran.steps.append("answer")
        if ran.broken:
            raise RuntimeError
        return Reply(text=f"{customer.phone} {len(page.text)}")

    return made


async def text_of(store: Store, key: SessionKey) -> bytes:
    """Everything that a store hands out about a session, but for large values."""
    headers = await store.headers(key)
    payloads = await store.payloads(key, [one.revision for one in headers])
    return b"\n".join([*(one.header for one in headers), *payloads.values()])


async def revision_of(store: Store, step: str, key: SessionKey = KEY) -> int:
    log = await OpenLog.open(store, key)
    return next(entry.revision for entry in log.log.entries if entry.header.step == step)


# -- the same up to a revision, and its own from there -------------------------------------------------


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_a_fork_goes_on_where_its_session_was(store: Store, log_key: bytes | None) -> None:
    """In the middle of a run: what was committed is not paid again, and neither session knows the other's future."""
    ran = Ran()
    made = flow(store, ran, log_key=log_key)
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    at = await revision_of(store, "look_up")
    before = await verify(store, KEY, log_key=log_key)

    done = await fork(store, "s-1", "s-2", owner=OWNER, at=at, log_key=log_key)
    assert (done.session, done.source, done.revision) == ("s-2", "s-1", at)
    ran.broken = False
    run = await made.resume("r-1", owner=OWNER, session="s-2")

    assert ran.steps == ["understand", "look_up", "answer", "answer"]
    assert run[Reply].text == f"{PHONE} 5000"
    assert (await made.resume("r-1", owner=OWNER, session="s-1"))[Reply].text == f"{PHONE} 5000", "its own answer"
    assert ran.steps.count("answer") == 3
    for key in (KEY, FORKED):
        verdict = await verify(store, key, log_key=log_key, anchor=f"{at}:{done.head}")
        assert verdict.ok, verdict
        assert verdict.anchored == at
    assert (await verify(store, KEY, log_key=log_key, anchor=before.anchor)).ok, "the source only grew"


async def test_a_fork_says_where_it_comes_from(store: Store) -> None:
    """And its session says that it has one."""
    await flow(store, Ran(broken=False)).run("hi", owner=OWNER, session="s-1", id="r-1")
    done = await fork(store, "s-1", "s-2", owner=OWNER, at=2)

    log = await OpenLog.open(store, FORKED)
    assert [entry.header.kind for entry in log.log.entries] == [Kind.COMMIT, Kind.COMMIT, Kind.NOTE]
    assert await log.record(log.log.entries[-1]) == {"fork": {"session": "s-1", "revision": 2, "head": done.head}}
    source = await OpenLog.open(store, KEY)
    assert await source.record(source.log.entries[-1]) == {"forked": {"session": "s-2", "revision": 2}}


async def test_by_default_a_fork_begins_with_all_there_is(store: Store) -> None:
    """A finished run is finished in the fork, and a new one sees its values."""
    ran = Ran(broken=False)
    made = flow(store, ran)
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await fork(store, "s-1", "s-2", owner=OWNER)

    run = await made.resume("r-1", owner=OWNER, session="s-2")
    assert {step.ending for step in run.steps.values()} == {"stored"}
    loss = (await made.resume("r-1", owner=OWNER, session="s-1")).loss
    assert run.loss.as_dict() == {**loss.as_dict(), "session": "s-2"}
    async with open_session("s-2", owner=OWNER, store=store) as session:
        assert (await session.get(Page, run="r-1")) == Page(text="x" * 5000)


async def test_the_same_revision_restored_twice_gives_the_same_join(store: Store) -> None:
    """What waits in a join belongs to the revision: it fires once, with all parts, in every fork. FC-25."""
    ready = False
    joined: list[list[str]] = []
    made = Workflow("join", store=store)

    @made.step
    def one(request: Request) -> Page:
        return Page(text="A")

    @made.step
    def two(request: Request) -> Page:
        if not ready:
            raise RuntimeError
        return Page(text="B")

    @made.step
    def join(pages: list[Page]) -> Reply:
        joined.append(sorted(page.text for page in pages))
        return Reply(text="+".join(joined[-1]))

    run = await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    assert (run.ok, joined) == (False, [])
    at = await revision_of(store, "one")
    for name in ("first", "second"):
        await fork(store, "s-1", name, owner=OWNER, at=at)
    ready = True
    replies = [(await made.resume("r-1", owner=OWNER, session=name))[Reply].text for name in ("first", "second", "s-1")]

    assert replies == ["A+B"] * 3
    assert joined == [["A", "B"]] * 3


async def test_shared_values_part_at_the_fork(store: Store) -> None:
    """What one side changes, the other does not see; merges go on from what was there."""
    made = Workflow("shop", store=store)

    @made.step
    def visit(request: Request, basket: Shared[Basket]) -> Reply:
        basket.set(coupon=request.text)
        basket.merge(visits=1)
        return Reply(text="ok")

    await made.run("A1", owner=OWNER, session="s-1", id="r-1")
    await fork(store, "s-1", "s-2", owner=OWNER)
    await made.run("B2", owner=OWNER, session="s-1", id="r-2")
    await made.run("C3", owner=OWNER, session="s-2", id="r-2")
    await made.run("D4", owner=OWNER, session="s-2", id="r-3")

    found = []
    for name in ("s-1", "s-2"):
        async with open_session(name, owner=OWNER, store=store) as session:
            found.append(await session.shared(Basket))
    assert found == [Basket(coupon="B2", visits=2), Basket(coupon="D4", visits=3)]


async def test_an_effect_that_had_begun_is_unknown_in_the_fork(store: Store) -> None:
    """It may have happened, so it does not happen again by itself."""
    made = Workflow("pay", store=store)
    paid: list[str] = []

    @made.step(effect=True)
    async def pay(request: Request) -> Reply:
        paid.append("paid")
        await fork(store, "s-1", "s-2", owner=OWNER)
        return Reply(text="paid")

    run = await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    assert run.ok
    there = await made.resume("r-1", owner=OWNER, session="s-2")
    assert isinstance(there.problem, EffectUnknown)
    there = await made.resume("r-1", owner=OWNER, session="s-2", settled={"pay": Reply(text="paid")})

    assert there[Reply].text == "paid"
    assert paid == ["paid"]


async def test_nobody_holds_a_fork(store: Store) -> None:
    """The worker that is busy in the session keeps that, and a second one takes the fork."""
    made = Workflow("outer", store=store)

    @made.step
    async def answer(ctx: Context) -> Reply:
        if ctx.session == "s-1":
            await fork(store, "s-1", "s-2", owner=OWNER)
            there = await made.resume("r-1", owner=OWNER, session="s-2", patience=0)
            return Reply(text=f"s-1 after {there[Reply].text}")
        return Reply(text=ctx.session)

    run = await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    assert run[Reply].text == "s-1 after s-2"


async def test_sealed_values_and_large_ones_are_there(store: Store) -> None:
    """Without a key nothing is opened on the way; with it the fork reads what the session reads."""
    keys = KeyRing({"k": b"k" * 32})
    made = flow(store, Ran(broken=False), keys=keys)
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await fork(store, "s-1", "s-2", owner=OWNER, at=3)

    async with open_session("s-2", owner=OWNER, store=store, keys=keys) as session:
        customer = await session.get(Customer, run="r-1")
    assert customer is not None
    assert customer.phone == PHONE
    assert PHONE.encode() not in await text_of(store, FORKED)
    assert (await verify(store, FORKED, keys=keys)).ok


async def test_a_fork_is_recalled_like_its_session(store: Store) -> None:
    """It is about what its part of the log is about, and nothing else."""
    made = flow(store, Ran(broken=False))
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await fork(store, "s-1", "s-2", owner=OWNER, at=1)
    await fork(store, "s-1", "s-3", owner=OWNER, at=2)

    uses = await store.entities(OWNER)
    assert sorted(use.session for use in uses) == ["s-1", "s-3"]
    assert len({(use.kind, use.value) for use in uses}) == 1


# -- what is erased stays erased -----------------------------------------------------------------------


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_what_was_erased_later_is_not_in_a_fork_of_before(store: Store, log_key: bytes | None) -> None:
    """The fork begins before the erasure, and its note says what is missing, so that it verifies."""
    made = flow(store, Ran(broken=False), log_key=log_key)
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked", log_key=log_key)
    await fork(store, "s-1", "s-2", owner=OWNER, at=2, log_key=log_key)

    assert PHONE.encode() not in await text_of(store, FORKED)
    verdict = await verify(store, FORKED, log_key=log_key)
    assert verdict.ok, verdict
    assert verdict.erased == 1
    async with open_session("s-2", owner=OWNER, store=store, log_key=log_key) as session:
        with pytest.raises(Deleted):
            await session.get(Customer, run="r-1")


async def test_an_erasure_names_the_forks_that_hold_copies(store: Store) -> None:
    """Those that have the value, of whatever generation, and those only."""
    await flow(store, Ran(broken=False)).run("hi", owner=OWNER, session="s-1", id="r-1")
    await fork(store, "s-1", "before", owner=OWNER, at=1)
    await fork(store, "s-1", "child", owner=OWNER)
    await fork(store, "child", "grandchild", owner=OWNER)
    done = await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")

    assert set(done.copies) == {"child", "grandchild"}
    assert "session child has a copy" in str(done)
    assert PHONE.encode() in await text_of(store, SessionKey(OWNER, "child"))
    again = await erase(store, owner=OWNER, session="grandchild", fact="Customer.phone", by="dpo", reason="asked")
    assert again.copies == ("child",), "what a fork was made from holds a copy, too"


@pytest.mark.parametrize("fact", ["Customer.phone", None])
async def test_an_erasure_can_follow_the_forks(store: Store, fact: str | None) -> None:
    """The copies go, with what was made from them there; what the fork did by itself stays."""
    ran = Ran()
    made = flow(store, ran)
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await fork(store, "s-1", "s-2", owner=OWNER, at=await revision_of(store, "look_up"))
    ran.broken = False
    await made.resume("r-1", owner=OWNER, session="s-2")
    async with open_session("s-2", owner=OWNER, store=store, run="own") as session, session.step("own") as step:
        await step.commit(Page(text="of its own"))
    done = await erase(store, owner=OWNER, session="s-1", fact=fact, by="dpo", reason="asked", forks=True)

    assert done.sessions == ("s-1", "s-2")
    assert done.copies == ()
    for key in (KEY, FORKED):
        assert PHONE.encode() not in await text_of(store, key)
        assert (await verify(store, key)).ok
    async with open_session("s-2", owner=OWNER, store=store) as session:
        assert await session.get(Page, run="own") == Page(text="of its own")
        with pytest.raises(Deleted):
            await session.get(Reply, run="r-1")


async def test_an_erasure_of_an_owner_leaves_no_copies(store: Store) -> None:
    """All sessions means forks, too."""
    await flow(store, Ran(broken=False)).run("hi", owner=OWNER, session="s-1", id="r-1")
    await fork(store, "s-1", "s-2", owner=OWNER)
    done = await erase(store, owner=OWNER, by="dpo", reason="left")

    assert done.sessions == ("s-1", "s-2")
    assert done.copies == ()


async def test_an_erasure_while_a_fork_is_made_reaches_it(store: Store) -> None:
    """Between the look at the session and the first entry of the fork."""

    class Slow:
        """Lets somebody erase just before the fork is written."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def append(self, key: SessionKey, *args: object, **options: object) -> None:
            if key == FORKED:
                await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")
            await store.append(key, *args, **options)  # type: ignore[arg-type]

    await flow(store, Ran(broken=False)).run("hi", owner=OWNER, session="s-1", id="r-1")
    await fork(Slow(), "s-1", "s-2", owner=OWNER, at=3)  # type: ignore[arg-type]

    assert PHONE.encode() not in await text_of(store, FORKED)
    verdict = await verify(store, FORKED)
    assert verdict.ok, verdict
    source = await store.headers(KEY)
    assert [one.header for one in source[:3]] == [one.header for one in (await store.headers(FORKED))[:3]], "no salt"


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_a_log_whose_beginning_was_removed_is_forked(store: Store, log_key: bytes | None) -> None:
    """With the same revisions and the same head; what is older than that cannot be forked."""
    made = flow(store, Ran(broken=False), log_key=log_key)
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await made.run("ho", owner=OWNER, session="s-1", id="r-2")
    first = (await OpenLog.open(store, KEY)).log.runs["r-2"].entries[0].revision
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1", log_key=log_key)
    assert (await verify(store, KEY, log_key=log_key)).ok
    done = await fork(store, "s-1", "s-2", owner=OWNER, at=first + 2, log_key=log_key)

    verdict = await verify(store, FORKED, log_key=log_key, anchor=f"{first + 2}:{done.head}")
    assert verdict.ok, verdict
    assert [one.revision for one in await store.headers(FORKED)] == list(range(first - 1, first + 4))
    run = await made.resume("r-2", owner=OWNER, session="s-2")
    assert run[Reply].text == f"{PHONE} 5000"
    with pytest.raises(Expired):
        await fork(store, "s-1", "s-3", owner=OWNER, at=first - 2, log_key=log_key)


# -- what is refused -----------------------------------------------------------------------------------


async def test_a_session_that_is_there_is_never_overwritten(store: Store) -> None:
    """Neither by a second fork nor by a fork of itself."""
    made = flow(store, Ran(broken=False))
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await made.run("ho", owner=OWNER, session="s-2", id="r-1")
    before = await text_of(store, FORKED), len(await store.headers(KEY))

    with pytest.raises(SessionExists, match="s-2"):
        await fork(store, "s-1", "s-2", owner=OWNER)
    with pytest.raises(SetupError):
        await fork(store, "s-1", "s-1", owner=OWNER)
    assert (await text_of(store, FORKED), len(await store.headers(KEY))) == before


async def test_of_two_forks_of_one_name_one_is_made(store: Store) -> None:
    """At the same moment, too: the second one is told, and the first one is whole."""
    made = flow(store, Ran(broken=False))
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    done = await asyncio.gather(
        *(fork(store, "s-1", "s-2", owner=OWNER, at=at) for at in (1, 2, 3)), return_exceptions=True
    )

    forks = [one for one in done if not isinstance(one, BaseException)]
    assert len(forks) == 1
    assert all(isinstance(one, SessionExists) for one in done if one not in forks)
    assert len(await store.headers(FORKED)) == forks[0].revision + 1
    assert (await verify(store, FORKED, anchor=f"{forks[0].revision}:{forks[0].head}")).ok
    erased = await erase(store, owner=OWNER, session="s-1", by="dpo", reason="asked")
    assert erased.copies == ("s-2",), "the notes of those that were not made mislead nobody"


async def test_a_fork_is_made_beside_a_run_that_goes_on(store: Store) -> None:
    """Whoever works in the session loses nothing, and the fork is of one moment."""
    made = flow(store, Ran(broken=False))

    async def forks() -> None:
        for number in range(5):
            await fork(store, "s-1", f"f-{number}", owner=OWNER)

    await made.run("hi", owner=OWNER, session="s-1", id="r-0")
    await asyncio.gather(forks(), *(made.run("hi", owner=OWNER, session="s-1", id=f"r-{n}") for n in range(1, 5)))

    for name in ("s-1", *(f"f-{number}" for number in range(5))):
        assert (await verify(store, SessionKey(OWNER, name))).ok
    run = await made.resume("r-4", owner=OWNER, session="s-1")
    assert {step.ending for step in run.steps.values()} == {"stored"}


async def test_what_is_not_there_is_not_forked(store: Store) -> None:
    """A session, a revision, and another owner's session."""
    await flow(store, Ran(broken=False)).run("hi", owner=OWNER, session="s-1", id="r-1")
    newest = len(await store.headers(KEY))

    for at in (newest + 1, 0, -1):
        with pytest.raises(UnknownRevision, match=str(newest)):
            await fork(store, "s-1", "s-2", owner=OWNER, at=at)
    for owner in (OWNER, "umbrella"):
        with pytest.raises(UnknownSession):
            await fork(store, "never" if owner == OWNER else "s-1", "s-2", owner=owner)
    assert len(await store.headers(KEY)) == newest
    assert list(await store.headers(FORKED)) == []


async def test_a_log_with_tags_is_forked_with_its_key(store: Store) -> None:
    """The tags of the fork are its own, so they take the key."""
    await flow(store, Ran(broken=False), log_key=LOG_KEY).run("hi", owner=OWNER, session="s-1", id="r-1")
    with pytest.raises(KeyMissing):
        await fork(store, "s-1", "s-2", owner=OWNER)
    with pytest.raises(KeyMissing):
        await fork(store, "s-1", "s-2", owner=OWNER, log_key=b"quite another log key")
    assert list(await store.headers(FORKED)) == []
    await fork(store, "s-1", "s-2", owner=OWNER, log_key=LOG_KEY)

    ours, theirs = await store.headers(KEY), await store.headers(FORKED)
    assert ours[0].header[:-16] == theirs[0].header[:-16]
    assert ours[0].header[-16:] != theirs[0].header[-16:]


async def test_the_command_to_erase_tells_of_copies(tmp_path: Path) -> None:
    """By its exit code, too; with --forks nothing is left."""
    async with SqliteStore(tmp_path / "state.db") as store:
        await flow(store, Ran(broken=False)).run("hi", owner=OWNER, session="s-1", id="r-1")
        await fork(store, "s-1", "s-2", owner=OWNER)
    asked = ["erase", "s-1", "--fact", "Customer.phone", "--by", "dpo", "--reason", "asked", "--owner", OWNER]

    def run(*more: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*asked, *more, "--store", f"sqlite:///{tmp_path}/state.db"])
        return done.exit_code, done.output

    code, said = await asyncio.to_thread(run)
    assert (code, "session s-2 has a copy" in said) == (1, True)
    code, said = await asyncio.to_thread(run, "--forks", "--json")
    assert (code, json.loads(said)["copies"], json.loads(said)["sessions"]) == (0, [], ["s-2"])
