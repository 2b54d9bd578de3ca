"""Retention cuts the oldest runs of a log, and everything that is kept stays as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statepact import (
    Context,
    Contract,
    Id,
    Keep,
    MemoryStore,
    Merge,
    Pinned,
    Request,
    Shared,
    SqliteStore,
    Store,
    Workflow,
    check_proof,
    diff,
    erase,
    export_session,
    fork,
    import_session,
    open_session,
    prove,
    retain,
    verify,
    watch,
)
from statepact.errors import (
    CorruptState,
    Deleted,
    Expired,
    KeyMissing,
    SetupError,
    StatepactError,
    StoreFull,
    UnknownRun,
    UnknownSession,
)
from statepact.ledger import SessionKey
from statepact.ledger._base_record import Base, base_body, base_of
from statepact.ledger._digest import entry_digest
from statepact.ledger._erased import Leaf, decode_leaves, digests_of, encode_leaves
from statepact.ledger._header import CellSize, Header, Kind, Names, decode_header, kind_of, pieces_of
from statepact.ledger._mountain import Mountain
from statepact.ledger._view import EntryView, ReadView
from statepact.loss import measure
from statepact.stores import CachedStore, Hold, NewEntry, Rewrite
from statepact.stores._log_reader import LogReader
from statepact.stores._open_log import OpenLog

OWNER = "acme"
KEY = SessionKey(OWNER, "s-1")
LOG_KEY = b"a key that is kept elsewhere"
DAY = 24 * 60 * 60 * 1000


class Basket(Contract, version="1.0"):
    items: Annotated[list[str], Merge.append] = []
    visits: Annotated[int, Merge.add] = 0
    coupon: str | None = None
    phone: str = "none"


class Order(Contract, version="1.0"):
    order_id: Id[str]
    note: str = ""


class Complaint(Contract, version="1.0"):
    problem: Pinned[str]


class Reply(Contract, version="1.0"):
    text: str


class FixedClock:
    """A clock that stands until it is set."""

    def __init__(self, at: int = 1_000 * DAY) -> None:
        self.at = at

    def now(self) -> int:
        return self.at


def flow(store: Store, *, log_key: bytes | None = None) -> Workflow:
    """Each run orders something, changes the basket and answers."""
    made = Workflow("shop", store=store, log_key=log_key, results=[Reply, Order])

    @made.step
    def understand(request: Request) -> Complaint:
        return Complaint(problem=f"problem of {request.text}")

    @made.step
    def order(request: Request, basket: Shared[Basket]) -> Order:
        name = (request.text or "").strip()
        basket.merge(items=[name], visits=1)
        if name == "first":
            basket.set(coupon="WELCOME", phone="5551234")
        if name == "delete":
            basket.delete("phone")
        return Order(order_id=f"KX-{sum(map(ord, name))}", note=name * 2_000)

    @made.step
    def reply(complaint: Complaint, order: Order, basket: Shared[Basket]) -> Reply:
        return Reply(text=f"{complaint.problem}: {order.order_id}, {len(basket.fields.items)} items")

    return made


async def runs(store: Store, *names: str, log_key: bytes | None = None, days: int = 0) -> FixedClock:
    """Run once for each name, a day apart; the run is called as what it is asked."""
    clock = FixedClock()
    for name in names:
        await flow(store, log_key=log_key).run(name, owner=OWNER, session="s-1", id=name, clock=clock)
        clock.at += DAY
    return clock


def shown_of(entry: EntryView, read: ReadView) -> list[str]:
    """The fields that a step was given: of a shared value, those that had not been changed since."""
    return [read.cell.contract.fields[number].name for number in entry.gave(read)]


async def everything_of(store: Store, names: list[str], *, key: SessionKey = KEY) -> dict[str, Any]:
    """What one can read of kept runs: entries with values and reads, loss, and the shared value."""
    reader = LogReader(store, key)
    await reader.read_on()
    found: dict[str, Any] = {}
    for name in names:
        view = await reader.view(name)
        found[name] = [
            (
                entry.revision, entry.kind, entry.at, entry.step, entry.branch, dict(entry.extra),
                [(cell.revision, cell.number, cell.writer, cell.contract.label, dict(cell.values), cell.omitted,
                  cell.deleted, cell.erased) for cell in entry.cells],
                [(read.cell.revision, read.cell.number, read.cell.writer, read.reached, read.mask, read.declared,
                  {name: read.cell.values[name] for name in shown_of(entry, read)}) for read in entry.reads],
            )
            for entry in view.entries
        ]  # fmt: skip
        found[f"loss of {name}"] = measure(view).as_dict()
    found["basket"] = await reader.shared(Basket)
    return found


def same(before: dict[str, Any], after: dict[str, Any]) -> None:
    basket, now = before.pop("basket"), after.pop("basket")
    assert after == before
    assert dict(now.values) == dict(basket.values)
    assert {name: (cell.revision, cell.number, cell.writer) for name, cell in now.cells.items()} == {
        name: (cell.revision, cell.number, cell.writer) for name, cell in basket.cells.items()
    }


async def whole_text(store: Store, key: SessionKey = KEY) -> bytes:
    headers = await store.headers(key)
    payloads = await store.payloads(key, range(1, headers[-1].revision + 1))
    return b"\n".join([*(one.header for one in headers), *payloads.values()])


# -- what goes, and what stays -------------------------------------------------------------------------


async def test_the_oldest_runs_go_and_the_others_stay_as_they_were(store: Store) -> None:
    """Entries, values, reads, loss and the shared value of kept runs are the same before and after."""
    await runs(store, "first", "second", "third", "fourth")
    before = await everything_of(store, ["third", "fourth"])

    done = await retain(store, Keep(runs=2), owner=OWNER, session="s-1")

    assert (done.runs, done.entries, done.sessions, done.scrubbed) == (2, 10, ("s-1",), True)
    same(before, await everything_of(store, ["third", "fourth"]))
    text = await whole_text(store)
    assert b"problem of first" not in text
    assert b"problem of third" in text
    assert (await verify(store, KEY)).ok


async def test_a_dry_run_says_the_same_and_changes_nothing(store: Store) -> None:
    """What would go, counted as what then goes."""
    await runs(store, "first", "second", "third")
    before = await whole_text(store)

    asked = await retain(store, Keep(runs=1), owner=OWNER, session="s-1", dry_run=True)
    assert await whole_text(store) == before
    done = await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    assert asked.dry_run
    assert asked.as_dict() | {"dry_run": False} == done.as_dict()
    assert (done.runs, done.carried) == (2, 2)
    assert done.large_values == 2
    assert done.bytes > 10_000
    assert "2 runs removed from 1 session" in str(done)


async def test_days_and_runs_each_keep(store: Store) -> None:
    """A run stays if one of both says so."""
    clock = await runs(store, "first", "second", "third", "fourth")

    done = await retain(store, Keep(days=2.5, runs=1), owner=OWNER, session="s-1", at=clock.at)
    assert (done.runs, done.stays) == (2, ())
    done = await retain(store, Keep(days=0.5, runs=2), owner=OWNER, session="s-1", at=clock.at)
    assert done.sessions == ()


async def test_a_rule_may_differ_by_kind_of_session(store: Store) -> None:
    """A function of the name decides; `None` leaves a session alone. Names are names, whatever is in them."""
    clock = FixedClock()
    for session in ("support/1", "legal/*", "chat"):
        for name in ("first", "second"):
            await flow(store).run(name, owner=OWNER, session=session, id=name, clock=clock)

    def rule(session: str) -> Keep | None:
        return {"support": Keep(runs=1), "legal": None}.get(session.partition("/")[0], Keep(days=0))

    done = await retain(store, rule, owner=OWNER, at=clock.at + 1)
    assert done.sessions == ("chat", "support/1")
    assert done.runs == 3


async def test_everything_may_go(store: Store) -> None:
    """The base alone is left, with the shared value; the session goes on behind it."""
    await runs(store, "first", "second", log_key=LOG_KEY)
    basket = (await everything_of(store, []))["basket"]

    await retain(store, Keep(runs=0), owner=OWNER, session="s-1", log_key=LOG_KEY)

    assert [kind_of(one.header) for one in await store.headers(KEY)] == [Kind.BASE, Kind.NOTE]
    same({"basket": basket}, await everything_of(store, []))
    again = await retain(store, Keep(runs=0), owner=OWNER, session="s-1", log_key=LOG_KEY)
    assert again.sessions == (), "what is gone is not removed again"
    run = await flow(store, log_key=LOG_KEY).run("third", owner=OWNER, session="s-1", id="third")
    assert run[Reply].text == f"problem of third: KX-{sum(map(ord, 'third'))}, 3 items"
    assert (await verify(store, KEY, log_key=LOG_KEY)).ok


async def test_a_cut_log_is_cut_again(store: Store) -> None:
    """A base over a base, with a key, and what is kept is the same each time."""
    await runs(store, "first", "second", "delete", "fourth", "fifth", log_key=LOG_KEY)
    before = await everything_of(store, ["fifth"])

    for left in (4, 3, 1):
        await retain(store, Keep(runs=left), owner=OWNER, session="s-1", log_key=LOG_KEY)
        verdict = await verify(store, KEY, log_key=LOG_KEY)
        assert verdict.ok, verdict
        same(dict(before), await everything_of(store, ["fifth"]))
    assert verdict.removed == 20
    assert verdict.keyed_from == 1
    assert "20 entries were removed by a retention rule" in str(verdict)
    assert b"5551234" not in await whole_text(store), "what was deleted since is not carried on"


# -- what is never removed -----------------------------------------------------------------------------


async def test_a_run_that_has_not_ended_stays_with_all_behind_it(store: Store) -> None:
    """A killed run can still be resumed, however old it is."""
    await runs(store, "first")
    killed = open_session("s-1", owner=OWNER, store=store, run="killed", request="hi")
    session = await killed.__aenter__()
    async with session.step("take") as step:
        await step.commit(Order(order_id="KX-9"))
    await runs(store, "second", "third")

    done = await retain(store, Keep(days=0), owner=OWNER, session="s-1", at=100_000 * DAY)

    assert done.runs == 1
    stays = {one.run: one.why for one in done.stays}
    assert stays["killed"] == "it has not ended"
    assert stays["second"] == "it stands behind run 'killed', which stays"
    assert "run 'killed' stays: it has not ended" in str(done)
    assert (await session.get(Order)) == Order(order_id="KX-9")
    done = await retain(store, Keep(days=0, unfinished_days=30), owner=OWNER, session="s-1", at=100_000 * DAY)
    assert done.runs == 3
    with pytest.raises(Expired):
        await session.get(Order)
    with pytest.raises(Expired):  # what it has done must not be done again
        async with session.step("go on") as step:
            await step.commit(Order(order_id="KX-10"))
    assert b"KX-10" not in await whole_text(store)


async def test_a_held_session_is_left_alone(store: Store) -> None:
    """Somebody may be about to continue a run that has failed."""
    await runs(store, "first", "second")
    hold = Hold(run="first", holder="worker", seconds=60)
    await store.hold(KEY, hold)

    done = await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    assert done.sessions == ()
    assert [(one.run, one.why) for one in done.stays] == [("first", "the session is held by run 'first'")]
    await store.hold(KEY, Hold(run="first", holder="worker", seconds=0))
    assert (await retain(store, Keep(runs=1), owner=OWNER, session="s-1")).runs == 1
    run = await flow(store).run("third", owner=OWNER, session="s-1", id="third", patience=0)
    assert run.ok, "and it is given back"


async def test_mixed_runs_go_together_or_not_at_all(store: Store) -> None:
    """A prefix that would cut through a run is cut before it."""
    async with open_session("s-1", owner=OWNER, store=store, run="long", request="hi") as long:
        await runs(store, "first", "second")
        async with long.step("take") as step:
            await step.commit(Order(order_id="KX-9"))
    await runs(store, "third")

    done = await retain(store, Keep(runs=2), owner=OWNER, session="s-1")
    assert done.runs == 0
    assert {one.run: one.why for one in done.stays} == {
        "long": "its entries are mixed with those of run 'second', which stays",
        "first": "it stands behind run 'long', which stays",
    }
    assert (await retain(store, Keep(runs=1), owner=OWNER, session="s-1")).runs == 3


# -- readers and writers -------------------------------------------------------------------------------


async def test_who_asks_for_what_is_removed_is_told_that_it_expired(store: Store) -> None:
    """Not that it never existed, and not that it was deleted; its id is not free for another run."""
    await runs(store, "first", "second")
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
    made = flow(store)

    with pytest.raises(Expired, match="older than what is kept"):
        await made.resume("first", owner=OWNER, session="s-1")
    with pytest.raises(Expired):
        await made.run("first", owner=OWNER, session="s-1", id="first")
    with pytest.raises(Expired):
        async with open_session("s-1", owner=OWNER, store=store, run="first"):
            pass
    with pytest.raises(UnknownRun):
        await made.resume("understand", owner=OWNER, session="s-1")
    async with open_session("s-1", owner=OWNER, store=store, run="new") as session:
        with pytest.raises(Expired):
            await session.get(Order, run="first")
        with pytest.raises(Expired):
            await session.all(Order, run="first")
        assert await session.get(Order, run="never") is None
        with pytest.raises(Expired):
            await session.measure("first")
        with pytest.raises(Expired):
            await session.shared(Basket, at=2)
        assert session.runs == ["second", "new"]


async def test_who_has_read_the_log_before_is_told_the_same(store: Store) -> None:
    """Also for the entry in whose place the base stands, and for a store that is trusted."""
    await runs(store, "first", "second")
    reader = LogReader(store, KEY)
    await reader.read_on()
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    for entry in reader.log.entries[:5]:
        if entry.cells:
            with pytest.raises(Expired):
                await reader.fetch(entry.cells)
        with pytest.raises(Expired):
            await reader.record(entry)
    with pytest.raises(Expired):
        await reader.view("first")
    assert (await reader.view("second")).status == "done"


async def test_writers_with_an_old_log_go_on(store: Store) -> None:
    """One that had read everything, and one that had read less than what was removed."""
    late, current = OpenLog(store, KEY), OpenLog(store, KEY)
    await runs(store, "first")
    await late.refresh()
    await runs(store, "second", "third")
    await current.refresh()
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    for number, log in enumerate((late, current)):
        from statepact.workflow._run_scope import RunScope
        from statepact.workflow._step_scope import StepScope

        step = StepScope(RunScope(log, f"new-{number}"), "take", ())
        await step.hold([Basket])
        assert step.held(Basket).value.items == ["first", "second", "third"]
        step.held(Basket).set(coupon=f"C{number}")
        await step.commit([Order(order_id=f"KX-{number}")])
    async with open_session("s-1", owner=OWNER, store=store) as session:
        assert (await session.shared(Basket)) == Basket(
            items=["first", "second", "third"], visits=3, coupon="C1", phone="5551234"
        )
    assert (await verify(store, KEY)).ok


async def test_a_run_in_the_middle_of_a_step_is_not_disturbed(store: Store) -> None:
    """It reads, holds shared values, and commits; the runs before it are removed meanwhile."""
    await runs(store, "first", "second")
    made = Workflow("flow", store=store)

    @made.step
    async def take(ctx: Context, basket: Shared[Basket]) -> Reply:
        seen = basket.value
        done = await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
        assert done.runs == 2
        basket.merge(visits=10)
        return Reply(text=f"{seen.visits} visits")

    run = await made.run("hi", owner=OWNER, session="s-1", id="r-1", lease=None)
    assert run.problem is None
    assert run[Reply].text == "2 visits"
    basket = run.shared(Basket)
    assert basket is not None
    assert basket.visits == 12
    assert (await made.resume("r-1", owner=OWNER, session="s-1", lease=None)).loss.losses == ()
    assert (await verify(store, KEY)).ok


async def test_followers_are_shown_the_base_and_go_on(store: Store) -> None:
    """Whoever follows from an old revision sees that something was removed, and everything after it."""
    await runs(store, "first", "second")
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    async def seen(after: int, count: int) -> list[tuple[int, Kind]]:
        found = []
        async for entry in watch("s-1", store=store, owner=OWNER, after=after):
            found.append((entry.revision, entry.kind))
            if len(found) == count:
                break
        return found

    commits = [(6, Kind.COMMIT), (7, Kind.COMMIT), (8, Kind.COMMIT), (9, Kind.COMMIT), (10, Kind.SEAL), (11, Kind.NOTE)]
    assert await seen(0, 7) == [(5, Kind.BASE), *commits]
    assert await seen(2, 7) == [(5, Kind.BASE), *commits]
    assert await seen(5, 6) == commits
    assert await seen(9, 2) == commits[4:]


async def test_a_follower_that_is_behind_the_cut_goes_on_from_the_base(store: Store) -> None:
    """It had read less than what was removed since."""
    await runs(store, "first")
    reader = LogReader(store, KEY)
    await reader.read_on()
    await runs(store, "second", "third")
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    await reader.read_on()
    assert [entry.revision async for entry in reader.entries(after=5)][:2] == [10, 11]
    assert list(reader.log.runs) == ["third"]


async def test_the_id_of_an_earlier_value_is_recalled_only_where_it_is_kept(store: Store) -> None:
    """The index forgets what only removed runs were about; nothing else is forgotten."""
    await runs(store, "first", "second", "third")
    async with (
        open_session("s-2", owner=OWNER, store=store, run="other", request="first") as session,
        session.step("take") as step,
    ):
        await step.commit(Order(order_id="KX-1"))
    orders = {name: f"kx{sum(map(ord, name))}" for name in ("first", "second", "third")}

    done = await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    uses = {(use.value.replace("-", ""), use.session) for use in await store.entities(OWNER)}
    assert uses == {(orders["third"], "s-1"), ("kx1", "s-2")}
    assert done.entities == 2
    async with open_session("s-3", owner=OWNER, store=store, run="ask") as session:
        gone = await session.recall(Order, f"where is KX-{sum(map(ord, 'first'))}?")
        kept = await session.recall(Order, f"where is KX-{sum(map(ord, 'third'))}?")
    assert gone.nothing
    assert kept.one is not None
    assert kept.one.quote == "third"


async def test_an_index_that_is_behind_offers_nothing_that_is_gone(store: Store) -> None:
    """A row of it that leads to a removed run leads to nothing."""
    await runs(store, "first", "second")
    reading = open_session("s-1", owner=OWNER, store=store, run="ask")
    async with reading as session:
        await retain(store, Keep(runs=2), owner=OWNER, session="s-1")
        assert (await session.recall(Order, f"where is KX-{sum(map(ord, 'first'))}?")).nothing


async def test_large_values_stay_as_long_as_something_kept_has_them(store: Store) -> None:
    """A block belongs to all that name it."""
    made = Workflow("flow", store=store)

    @made.step
    def order(request: Request) -> Order:
        return Order(order_id="KX-1", note="x" * 5_000 if request.text != "other" else "y" * 5_000)

    for name in ("one", "other", "two"):
        await made.run(name, owner=OWNER, session="s-1", id=name)
    done = await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    assert done.large_values == 1
    run = await made.resume("two", owner=OWNER, session="s-1")
    assert run[Order].note == "x" * 5_000


# -- shared values, erased and deleted -----------------------------------------------------------------


async def test_what_was_erased_or_deleted_stays_so(store: Store) -> None:
    """In the shared value behind the cut as before it; and what is erased after the cut goes from the base."""
    await runs(store, "first", "second", log_key=LOG_KEY)
    await erase(store, owner=OWNER, session="s-1", fact="Basket.phone", by="dpo", reason="asked", keep_derived=True,
                log_key=LOG_KEY)  # fmt: skip
    await runs(store, "third", log_key=LOG_KEY)
    before = await everything_of(store, ["third"])

    await retain(store, Keep(runs=1), owner=OWNER, session="s-1", log_key=LOG_KEY)
    same(before, await everything_of(store, ["third"]))
    assert (await verify(store, KEY, log_key=LOG_KEY)).erased == 1
    async with open_session("s-1", owner=OWNER, store=store, log_key=LOG_KEY) as session:
        basket = await session.shared(Basket)
        assert basket is not None
        assert (basket.coupon, basket.phone) == ("WELCOME", "none")

    await erase(store, owner=OWNER, session="s-1", fact="Basket.coupon", by="dpo", reason="asked", keep_derived=True,
                log_key=LOG_KEY)  # fmt: skip
    verdict = await verify(store, KEY, log_key=LOG_KEY)
    assert verdict.ok, verdict
    assert b"WELCOME" not in await whole_text(store)
    await retain(store, Keep(runs=0), owner=OWNER, session="s-1", log_key=LOG_KEY)
    verdict = await verify(store, KEY, log_key=LOG_KEY)
    assert verdict.ok, verdict
    async with open_session("s-1", owner=OWNER, store=store, log_key=LOG_KEY) as session:
        basket = await session.shared(Basket)
        assert basket is not None
        assert (basket.items, basket.coupon) == (["first", "second", "third"], None)


async def test_an_erased_session_can_be_cut_and_a_cut_one_erased(store: Store) -> None:
    """In both orders the log verifies and nothing is left."""
    await runs(store, "first", "second")
    await erase(store, owner=OWNER, session="s-1", by="dpo", reason="asked")
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
    assert (await verify(store, KEY)).ok
    await runs(store, "third")
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
    await erase(store, owner=OWNER, session="s-1", by="dpo", reason="asked")

    verdict = await verify(store, KEY)
    assert verdict.ok, verdict
    assert b"third" not in b"".join((await store.payloads(KEY, range(1, 100))).values())


@pytest.mark.parametrize("cuts", [0, 1, 2])
async def test_an_erasure_finds_what_was_made_from_a_removed_fact(store: Store, cuts: int) -> None:
    """As it would have without the cut: the steps between are gone, the base names what they were given."""

    class Customer(Contract, version="1.0"):
        name: str
        phone: str

    made = Workflow("flow", store=store)

    @made.step
    def understand(request: Request) -> Customer:
        return Customer(name="Mara", phone="5551234")

    @made.step
    def note(customer: Customer, basket: Shared[Basket]) -> Order:
        basket.merge(items=[customer.phone])
        return Order(order_id="KX-1")

    async def take(basket: Shared[Basket]) -> Reply:
        basket.set(coupon=f"for {basket.fields.items[0]}")
        return Reply(text="ok")

    later = Workflow("later", store=store)
    later.step(take)
    other = Workflow("other", store=store)

    @other.step
    def visit(request: Request, basket: Shared[Basket]) -> Reply:
        basket.merge(visits=1)
        return Reply(text="ok")

    for number, workflow in enumerate((made, later, other, other)):
        await workflow.run("hi", owner=OWNER, session="s-1", id=f"r-{number}")
    for left in (2, 1)[:cuts]:
        assert (await retain(store, Keep(runs=left), owner=OWNER, session="s-1")).runs
    assert b"5551234" in await whole_text(store)

    done = await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")

    assert done.derived
    assert b"5551234" not in await whole_text(store)
    async with open_session("s-1", owner=OWNER, store=store) as session:
        assert await session.shared(Basket) == Basket(), "each step was given what the one before it had made"
    assert (await verify(store, KEY)).ok


async def test_merges_are_put_together_for_who_names_the_contract(store: Store) -> None:
    """A counter does not grow with its history, and all that is kept reads the same."""
    names = [f"r{number}" for number in range(8)]
    await runs(store, *names)
    for left in (5, 2):
        before = await everything_of(store, names[-left:])
        would = await retain(store, Keep(runs=left), owner=OWNER, session="s-1", dry_run=True)
        done = await retain(store, Keep(runs=left), owner=OWNER, session="s-1", shared=[Basket])
        assert would.carried > done.carried
        after = await everything_of(store, names[-left:])
        assert dict(after["basket"].values) == dict(before["basket"].values)
        same(before, after)
    assert done.carried <= 3
    assert (await verify(store, KEY)).ok
    run = await flow(store).run("last", owner=OWNER, session="s-1", id="last")
    basket = run.shared(Basket)
    assert basket is not None
    assert (basket.items, basket.visits) == ([*names, "last"], 9)


async def test_putting_together_leaves_what_it_cannot_read(store: Store) -> None:
    """Of another version, or erased in part: all changes stay, and the value with them."""

    class Older(Contract, version="0.9", name="Basket"):
        visits: Annotated[int, Merge.add] = 0

    await runs(store, "first", "second", "third")
    done = await retain(store, Keep(runs=0), owner=OWNER, session="s-1", shared=[Older])
    assert done.carried == 3
    await erase(store, owner=OWNER, session="s-1", fact="Basket.items@3", by="dpo", reason="asked", keep_derived=True)
    await runs(store, "fourth")
    done = await retain(store, Keep(runs=0), owner=OWNER, session="s-1", shared=[Basket])
    assert done.carried == 4
    async with open_session("s-1", owner=OWNER, store=store) as session:
        basket = await session.shared(Basket)
    assert basket is not None
    assert (basket.items, basket.visits) == (["second", "third", "fourth"], 4)


async def test_a_required_field_that_was_deleted_says_so_behind_the_cut(store: Store) -> None:
    """Deleted, not never set."""

    class Account(Contract, version="1.0"):
        name: str
        iban: str

    made = Workflow("flow", store=store)

    @made.step
    def change(request: Request, account: Shared[Account]) -> Reply:
        if request.text == "set":
            account.set(name="Mara", iban="DE00")
        elif request.text == "delete":
            account.delete("iban")
        return Reply(text="ok")

    for name in ("set", "delete", "look"):
        await made.run(name, owner=OWNER, session="s-1", id=name)
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    async with open_session("s-1", owner=OWNER, store=store) as session:
        with pytest.raises(Deleted, match=r"iban of shared Account 1\.0 was deleted by step 'change' at revision 5"):
            await session.shared(Account)


# -- the log afterwards --------------------------------------------------------------------------------


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_all_grades_hold_after_a_cut(store: Store, log_key: bytes | None) -> None:
    """With heads that were kept elsewhere before the cut, at it and after it; a second cut changes nothing."""
    heads = []
    for name in ("first", "second", "third", "fourth"):
        await flow(store, log_key=log_key).run(name, owner=OWNER, session="s-1", id=name)
        heads.append((await verify(store, KEY, log_key=log_key)).anchor)

    for left in (2, 1):
        done = await retain(store, Keep(runs=left), owner=OWNER, session="s-1", log_key=log_key)
        assert done.runs
        heads.append((await verify(store, KEY, log_key=log_key)).anchor)
        for head in heads:
            verdict = await verify(store, KEY, log_key=log_key, anchor=head)
            assert verdict.ok, verdict
            assert verdict.grade == "anchored"
        size, _, digest = heads[0].partition(":")
        other = ("0" if digest[0] != "0" else "1") + digest[1:]
        assert [one.revision for one in (await verify(store, KEY, log_key=log_key, anchor=f"{size}:{other}")).faults]


async def test_a_log_with_a_key_is_cut_by_who_has_it(store: Store) -> None:
    """Without the key nothing happens; a log that was given its key later can be cut before and behind that."""
    await runs(store, "first", "second")
    await runs(store, "third", "fourth", log_key=LOG_KEY)
    before = await whole_text(store)
    with pytest.raises(KeyMissing):
        await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
    with pytest.raises(KeyMissing):
        await retain(store, Keep(runs=1), owner=OWNER, session="s-1", log_key=b"another key of 16 bytes")
    assert await whole_text(store) == before

    for left, keyed_from in ((3, 11), (1, 1)):
        await retain(store, Keep(runs=left), owner=OWNER, session="s-1", log_key=LOG_KEY)
        verdict = await verify(store, KEY, log_key=LOG_KEY)
        assert verdict.ok, verdict
        assert verdict.keyed_from == keyed_from
        await OpenLog.open(store, KEY, log_key=LOG_KEY)


async def cut_log(log_key: bytes | None = LOG_KEY) -> MemoryStore:
    store = MemoryStore()
    await runs(store, "first", "second", "third", log_key=log_key)
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1", log_key=log_key)
    return store


async def forged(store: MemoryStore, change: Callable[[Base, list[CellSize], list[Leaf]], Base]) -> None:
    """Put another base in its place, with a digest that fits: by somebody who knows the code and has no key."""
    first, *others = await store.headers(KEY)
    payload = (await store.payloads(KEY, [first.revision]))[first.revision]
    header = decode_header(first.header, Names())
    base = base_of(pieces_of(first.header).body)
    cells, leaves = list(header.cells), decode_leaves(payload)
    base = change(base, cells, leaves)
    body = base_body(base, cells, at=header.at, keyed=header.keyed)
    digest = entry_digest(body, digests_of(leaves))
    put = replace(header, digest=digest).stored(body), encode_leaves(leaves, base=True)
    await store.rewrite(KEY, Rewrite(replace={first.revision: put}), after=others[-1].revision)


def other_peaks(base: Base, cells: list[CellSize], leaves: list[Leaf]) -> Base:
    return replace(base, peaks=(b"\x01" * 32, *base.peaks[1:]))


def other_tag(base: Base, cells: list[CellSize], leaves: list[Leaf]) -> Base:
    return replace(base, tag=b"\x01" * 16)


def other_basket(base: Base, cells: list[CellSize], leaves: list[Leaf]) -> Base:
    leaves[0] = replace(leaves[0], stored=(leaves[0].stored or b"").replace(b"WELCOME", b"FORGERY"))
    return base


def fewer_changes(base: Base, cells: list[CellSize], leaves: list[Leaf]) -> Base:
    del cells[0], leaves[0]
    return replace(base, origins=base.origins[1:])


def other_origin(base: Base, cells: list[CellSize], leaves: list[Leaf]) -> Base:
    return replace(base, origins=(base.origins[0]._replace(step="understand"), *base.origins[1:]))


def no_runs(base: Base, cells: list[CellSize], leaves: list[Leaf]) -> Base:
    return replace(base, runs=())


FORGERIES = [other_peaks, other_tag, other_basket, fewer_changes, other_origin, no_runs]


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_base_is_found_with_a_key(forgery: Any) -> None:
    """Whoever cannot make tags cannot make a base, and the base is what is named."""
    store = await cut_log()
    await forged(store, forgery)

    verdict = await verify(store, KEY, log_key=LOG_KEY)
    assert not verdict.ok
    assert verdict.faults[0].revision == 10
    with pytest.raises((CorruptState, KeyMissing)):
        await OpenLog.open(store, KEY, log_key=LOG_KEY)


async def test_other_peaks_are_found_without_a_key_too() -> None:
    """The digests of the removed entries and the seals behind the base say something else."""
    store = await cut_log(None)
    await forged(store, other_peaks)

    faults = (await verify(store, KEY)).faults
    assert [fault.revision for fault in faults] == [10, 15]
    assert "are not those of the entries it stands for" in str(faults[0])


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_base_is_found_without_a_key_too(forgery: Any) -> None:
    """The note that was written with it names its digest, and seals cover the note."""
    store = await cut_log(None)
    await runs(store, "fourth")
    await forged(store, forgery)

    verdict = await verify(store, KEY)
    assert verdict.sealed == 0 or verdict.faults
    assert verdict.faults[0].revision == 10


@pytest.mark.parametrize("anchored", [False, True])
async def test_a_base_over_more_than_was_removed_is_found(anchored: bool) -> None:
    """Somebody without the key hides an entry behind a base of their own."""
    store = MemoryStore()
    await runs(store, "first", "second", "third", log_key=LOG_KEY)
    anchor = (await verify(store, KEY, log_key=LOG_KEY)).anchor if anchored else None
    headers = await store.headers(KEY)
    log = await OpenLog.open(store, KEY)
    mountain = Mountain(one.header.digest for one in log.log.entries[:5])
    base = Base(5, tuple(log.log.names), mountain.peaks, headers[4].header[-16:], ("first",))
    body = base_body(base, at=1, keyed=False)
    put = Header(Kind.BASE, 1, "", digest=entry_digest(body, [])).stored(body)
    await store.rewrite(KEY, Rewrite(replace={5: (put, b"")}, first=5), after=15)

    verdict = await verify(store, KEY, log_key=LOG_KEY, anchor=anchor)
    assert not verdict.ok
    assert verdict.faults[0].revision in (5, 6), "the base, or the first whose tag covers what is missing"


async def test_what_comes_back_from_a_backup_is_found() -> None:
    """The old entries with their old digests, and behind them a note that says they are removed."""
    store = MemoryStore()
    await runs(store, "a", "b")
    old = await store.headers(KEY)
    payloads = await store.payloads(KEY, range(1, 11))
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
    note = (await store.headers(KEY))[-1]
    back = MemoryStore()
    entries = [NewEntry(one.header, payloads[one.revision]) for one in old]
    entries.append(NewEntry(note.header, (await store.payloads(KEY, [11]))[11]))
    await back.append(KEY, entries, after=0)

    faults = (await verify(back, KEY)).faults
    assert any(one.revision == 11 and "there are some again" in one.what for one in faults)


async def test_a_base_in_the_middle_is_found() -> None:
    """It stands for removed entries, so nothing can stand before it."""
    store = await cut_log(None)
    base = (await store.headers(KEY))[0]
    payload = (await store.payloads(KEY, [base.revision]))[base.revision]
    after = (await store.headers(KEY))[-1].revision
    await store.append(KEY, [NewEntry(base.header, payload)], after=after)

    assert after + 1 in {fault.revision for fault in (await verify(store, KEY)).faults}


@pytest.mark.parametrize("place", range(8))
async def test_each_changed_byte_of_a_base_is_found(place: int) -> None:
    """Sampled over header and payload; reading it is an error of ours and no crash."""
    store = await cut_log(None)
    first, *others = await store.headers(KEY)
    payload = (await store.payloads(KEY, [first.revision]))[first.revision]
    for part in range(2):
        data = bytearray((first.header, payload)[part])
        at = len(data) * place // 8
        data[at] ^= 1
        put = (bytes(data), payload) if part == 0 else (first.header, bytes(data))
        await store.rewrite(KEY, Rewrite(replace={first.revision: put}), after=others[-1].revision)
        assert not (await verify(store, KEY)).ok
        with suppress(StatepactError):
            reader = LogReader(store, KEY)
            await reader.read_on()
            await reader.shared(Basket)


async def test_no_byte_is_left_in_the_file(tmp_path: Path) -> None:
    """Neither values nor salts nor large values, in no page and not in the write-ahead log."""
    file = tmp_path / "state.db"
    async with SqliteStore(file) as store:
        await runs(store, "canary", "second", "third")
        log = await OpenLog.open(store, KEY)
        salts = [entry.header.salt for entry in log.log.entries]
        assert b"canarycanary" in everything(file)
        done = await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
        assert done.scrubbed
        left = everything(file)
    assert b"problem of canary" not in left
    assert b"canarycanary" not in left
    assert not [salt for salt in salts[:10] if salt in left]
    assert [salt for salt in salts[10:] if salt in left] == salts[10:]


def everything(file: Path) -> bytes:
    return b"".join(one.read_bytes() for one in file.parent.iterdir())


async def test_a_cache_lets_go_of_what_was_removed() -> None:
    """Its own, and that of another process as soon as it looks at the log again."""
    record, cache, other_cache = MemoryStore(), MemoryStore(), MemoryStore()
    ours, other = CachedStore(record, cache), CachedStore(record, other_cache)
    await runs(ours, "first", "second")
    for one in (ours, other):
        await one.headers(KEY)
        await asyncio.gather(*one._copying.values())
    assert len(await other_cache.headers(KEY)) == 10

    await retain(ours, Keep(runs=1), owner=OWNER, session="s-1")
    assert list(await cache.headers(KEY)) == []
    assert [one.revision for one in await other.headers(KEY)][:2] == [5, 6]
    assert list(await other_cache.headers(KEY)) == []
    run = await flow(other).run("third", owner=OWNER, session="s-1", id="third")
    assert run[Reply].text.endswith("3 items")


# -- against others at work ----------------------------------------------------------------------------


class Racing(MemoryStore):
    """Somebody commits between the look and the cut, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def rewrite(self, key: SessionKey, change: Rewrite, entries: Any = (), *, after: int) -> None:
        if self.times:
            self.times -= 1
            async with (
                open_session(key.session, owner=key.owner, store=self, run=f"racer-{self.times}") as session,
                session.step("take") as step,
            ):
                await step.commit(Order(order_id="KX-9"))
        await super().rewrite(key, change, entries, after=after)


async def test_a_retention_that_races_with_writers_is_done_anew() -> None:
    """All or nothing, and decided on the log as it is then."""
    store = Racing(2)
    await runs(store, "first", "second")

    done = await retain(store, Keep(runs=1), owner=OWNER, session="s-1")

    assert done.runs == 3, "the two that came meanwhile are newer"
    reader = LogReader(store, KEY)
    await reader.read_on()
    assert list(reader.log.runs) == ["racer-0"]
    assert (await verify(store, KEY)).ok


async def test_a_cut_that_fails_changes_nothing() -> None:
    """The store is full: the session is as it was, and free."""

    class Full(MemoryStore):
        async def rewrite(self, key: SessionKey, change: Rewrite, entries: Any = (), *, after: int) -> None:
            raise StoreFull("the disk is full")

    store = Full()
    await runs(store, "first", "second")
    before = await whole_text(store)
    with pytest.raises(StoreFull):
        await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
    assert await whole_text(store) == before
    assert (await flow(store).run("third", owner=OWNER, session="s-1", id="third", patience=0)).ok


async def test_writers_and_retentions_at_the_same_time(store: Store) -> None:
    """Nothing committed is lost, whoever comes first."""
    await runs(store, "first", "second")

    async def write(number: int) -> None:
        await flow(store).run(f"w{number}", owner=OWNER, session="s-1", id=f"w{number}")

    async def cut() -> None:
        await retain(store, Keep(runs=2), owner=OWNER, session="s-1")

    await asyncio.gather(*(write(number) for number in range(3)), cut(), cut())
    await cut()
    async with open_session("s-1", owner=OWNER, store=store, run="look") as session:
        basket = await session.shared(Basket)
    assert basket is not None
    assert basket.visits == 5
    assert sorted(basket.items) == ["first", "second", "w0", "w1", "w2"]
    assert (await verify(store, KEY)).ok


# -- how it is asked -----------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{}, {"days": -1}, {"runs": -1}, {"unfinished_days": 3}, {"days": float("nan")}])
def test_a_rule_that_says_nothing_is_refused(asked: dict[str, Any]) -> None:
    """Nothing is removed by a typing error."""
    with pytest.raises(SetupError):
        Keep(**asked)


async def test_an_unknown_session_is_an_error(store: Store) -> None:
    """A misspelled name removes nothing and says so."""
    with pytest.raises(UnknownSession):
        await retain(store, Keep(days=1), owner=OWNER, session="never")
    assert (await retain(store, Keep(days=1), owner=OWNER)).sessions == ()


# -- at random -----------------------------------------------------------------------------------------

FIELDS = ("items", "visits", "coupon", "phone")
CHANGES = st.one_of(
    st.tuples(st.just("merge"), st.sampled_from(["items", "visits"]), st.integers(0, 9)),
    st.tuples(st.just("set"), st.sampled_from(FIELDS), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.sampled_from(FIELDS), st.just(0)),
    st.tuples(st.just("read"), st.sampled_from(FIELDS), st.just(0)),
)
RUNS = st.lists(st.tuples(st.lists(CHANGES, max_size=4), st.booleans()), min_size=1, max_size=7)


def value_of(field: str, number: int) -> Any:
    return {"items": [f"item-{number}"], "visits": number, "coupon": f"C{number}", "phone": f"555000{number}"}[field]


async def at_random(store: Store, name: str, changes: list[tuple[str, str, int]], *, large: bool) -> None:
    """One run that does this to the basket, and shows it to a model in a second step."""
    made = Workflow("random", store=store, log_key=LOG_KEY, results=[Reply])

    @made.step
    def change(request: Request, basket: Shared[Basket]) -> Order:
        for how, field, number in changes:
            if how == "merge":
                basket.merge(**{field: value_of(field, number)})
            elif how == "set":
                basket.set(**{field: value_of(field, number)})
            elif how == "delete":
                basket.delete(field)
            else:
                basket.has(field)
        return Order(order_id=f"KX-{name}", note=("large " if large else "") * 1_000)

    @made.step
    async def look(ctx: Context, order: Order, basket: Shared[Basket]) -> Reply:
        return await ctx.ask(Reply, "Say what is in the basket.")

    async def model(prompt: str) -> str:
        return '{"text":"C3 and 5550007 for KX-77"}'

    await made.run(f"ask {name}", ask=model, owner=OWNER, session="s-1", id=name)


@settings(max_examples=40)
@given(data=st.data())
async def test_what_is_kept_reads_the_same_whatever_is_cut(data: st.DataObject) -> None:
    """Random runs, erasures and cuts: views, loss, shared values, verdicts in three grades, all as before."""
    store = MemoryStore()
    heads: list[str] = []
    names: list[str] = []
    for number, (changes, large) in enumerate(data.draw(RUNS)):
        name = f"r{number}"
        await at_random(store, name, changes, large=large)
        names.append(name)
        step = data.draw(st.sampled_from(["", "", "erase", "cut"]))
        if step == "erase":
            fact = data.draw(st.sampled_from(["Basket.items", "Basket.coupon", "Basket.phone", "Order.note", "Basket"]))
            with suppress(SetupError):  # no run has had one yet
                await erase(
                    store, owner=OWNER, session="s-1", fact=fact, by="dpo", reason="asked", log_key=LOG_KEY,
                    keep_derived=data.draw(st.booleans()),
                )  # fmt: skip
        if step == "cut":
            left = data.draw(st.integers(0, len(names)))
            old = LogReader(store, KEY)
            await old.read_on()
            before = await everything_of(store, names[len(names) - left :])
            shared = data.draw(st.sampled_from([[], [Basket]]))
            await retain(store, Keep(runs=left), owner=OWNER, session="s-1", log_key=LOG_KEY, shared=shared)
            del names[: len(names) - left]
            same(before, await everything_of(store, names))
            now = await everything_of(store, [])
            assert dict((await old.shared(Basket)).values) == dict(now["basket"].values), "who had read it before"
        heads.append((await verify(store, KEY, log_key=LOG_KEY)).anchor)
    for anchor in heads:
        verdict = await verify(store, KEY, log_key=LOG_KEY, anchor=anchor)
        assert verdict.ok, verdict


# -- with everything else that one can do with a log ---------------------------------------------------


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_it_is_forked_with_its_shared_values(store: Store, log_key: bytes | None) -> None:
    """At any revision that is kept, also at one before the note that says what was removed."""
    await runs(store, "first", "second", "third", log_key=log_key)
    await erase(store, owner=OWNER, session="s-1", fact="Basket.phone", by="dpo", reason="asked", keep_derived=True,
                log_key=log_key)  # fmt: skip
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1", log_key=log_key)
    before = await everything_of(store, ["third"])

    for number, at in enumerate((None, 15)):
        key = SessionKey(OWNER, f"fork-{number}")
        await fork(store, "s-1", key.session, owner=OWNER, at=at, log_key=log_key)
        verdict = await verify(store, key, log_key=log_key)
        assert verdict.ok, verdict
        forked = await everything_of(store, ["third"], key=key)
        forked["loss of third"]["session"] = "s-1"
        same(dict(before), forked)
        run = await flow(store, log_key=log_key).run("next", owner=OWNER, session=key.session, id="next")
        assert run.ok
        await retain(store, Keep(runs=1), owner=OWNER, session=key.session, log_key=log_key)
        verdict = await verify(store, key, log_key=log_key)
        assert verdict.ok, verdict
    with pytest.raises(Expired):
        await fork(store, "s-1", "s-9", owner=OWNER, at=5, log_key=log_key)


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_it_is_moved_to_another_store(store: Store, tmp_path: Path, log_key: bytes | None) -> None:
    """As one file, with the digests of what was removed."""
    await runs(store, "first", "second", "third", log_key=log_key)
    head = (await verify(store, KEY, log_key=log_key)).anchor
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1", log_key=log_key)
    before = await everything_of(store, ["third"])

    await export_session(store, "s-1", tmp_path / "s-1.statepact", owner=OWNER)
    moved = SessionKey(OWNER, "moved")
    await import_session(store, tmp_path / "s-1.statepact", owner=OWNER, name="moved", log_key=log_key)

    verdict = await verify(store, moved, log_key=log_key, anchor=head)
    assert verdict.ok, verdict
    there = await everything_of(store, ["third"], key=moved)
    there["loss of third"]["session"] = "s-1"
    same(before, there)


async def test_its_kept_facts_are_proven_and_compared(store: Store) -> None:
    """Against a head from before the cut too; what is removed is no longer shown."""
    await runs(store, "first", "second", "third")
    head = (await verify(store, KEY)).anchor
    await retain(store, Keep(runs=2), owner=OWNER, session="s-1")

    proof = await prove(store, "s-1", "Order.order_id@13", owner=OWNER, head=head)
    assert check_proof(proof, head=head)
    changed = await diff(store, "s-1", 10, 15, owner=OWNER)
    assert "Basket.visits" in str(changed)
    with pytest.raises(Expired):
        await diff(store, "s-1", 2, 15, owner=OWNER)


async def test_what_is_erased_behind_the_cut_is_erased_in_its_copies(store: Store) -> None:
    """A carried change has the place where it was committed, in a fork as well."""
    await runs(store, "first", "second")
    await fork(store, "s-1", "early", owner=OWNER)
    await retain(store, Keep(runs=1), owner=OWNER, session="s-1")
    await fork(store, "s-1", "late", owner=OWNER)

    done = await erase(store, owner=OWNER, session="s-1", fact="Basket.coupon", by="dpo", reason="asked", forks=True)

    assert done.copies == ()
    for name in ("s-1", "early", "late"):
        key = SessionKey(OWNER, name)
        assert b"WELCOME" not in await whole_text(store, key)
        verdict = await verify(store, key)
        assert verdict.ok, verdict
        async with open_session(name, owner=OWNER, store=store) as session:
            basket = await session.shared(Basket)
        assert basket is not None
        assert basket.coupon is None
