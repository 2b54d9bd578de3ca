"""Retention cuts the oldest runs of a log, and everything that is kept stays as it was."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from statepact import (
    Context,
    Contract,
    Id,
    Keep,
    Merge,
    Pinned,
    Request,
    Shared,
    Store,
    Workflow,
    erase,
    open_session,
    retain,
    verify,
    watch,
)
from statepact.errors import Deleted, Expired, UnknownRun
from statepact.ledger import SessionKey
from statepact.ledger._header import Kind, kind_of
from statepact.ledger._view import EntryView, ReadView
from statepact.loss import measure
from statepact.stores import Hold
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


def given(entry: EntryView, read: ReadView) -> list[str]:
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
                  {name: read.cell.values[name] for name in given(entry, read)}) for read in entry.reads],
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
