"""Finding again what a customer spoke of: one, several or nothing, and never somebody else's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated

import pytest

from statepact import (
    Context,
    Contract,
    Id,
    IdOf,
    KeyRing,
    Limit,
    MemoryStore,
    Recalled,
    Request,
    Sensitive,
    Store,
    Workflow,
    open_session,
)
from statepact.errors import Expired
from statepact.ledger import SessionKey, session_key
from statepact.stores._base import Rewrite, StoredHeader
from statepact.testing import FakeClock
from statepact.workflow import Candidate


class Order(Contract):
    order_id: Id[str]
    status: str = "shipped"


class Ticket(Contract):
    number: Id[int]
    also: Annotated[list[str], IdOf("order")] = []


class Basket(Contract):
    orders: list[Order]


class Account(Contract):
    account_id: Sensitive[Id[str]]
    card: Annotated[str, IdOf("card")]
    hidden: Sensitive[str]


class Answer(Contract):
    text: str
    never: Limit[str] = "guess"


def clock_at(text: str) -> FakeClock:
    return FakeClock(round(datetime.fromisoformat(text).timestamp() * 1000))


async def spoken_of(
    store: Store, session: str, value: Contract, at: str, *, request: str = "Hello", owner: str = "chen"
) -> None:
    async with (
        open_session(session, owner=owner, store=store, request=request, clock=clock_at(at)) as opened,
        opened.step("look_up") as step,
    ):
        await step.commit(value)


async def recalled(
    store: Store, request: str, *, owner: str = "chen", session: str = "now", now: str = "2026-12-09T10:00Z"
) -> Recalled[Order]:
    async with open_session(session, owner=owner, store=store, request=request, clock=clock_at(now)) as opened:
        return await opened.recall(Order)


def ids(found: Recalled[Order]) -> list[str]:
    return [candidate.id for candidate in found.candidates]


def only(found: Recalled[Order]) -> Candidate[Order]:
    assert found.one is not None, found
    return found.one


@pytest.fixture
async def customer(store: Store) -> Store:
    await spoken_of(store, "s-1", Order(order_id="KX-5512"), "2026-12-08T09:00Z", request="Where is KX-5512, please?")
    await spoken_of(store, "s-2", Order(order_id="W-67890"), "2026-12-07T09:00Z", request="刀片坏了，订单 W-67890")
    return store


async def test_the_order_of_yesterday_is_found_with_its_place_and_words(customer: Store) -> None:
    """One candidate: the value as it was committed, where and when, and in which words."""
    found = only(await recalled(customer, "What about the order I asked about yesterday?"))

    assert found.value == Order(order_id="KX-5512")
    assert (found.session, found.at) == ("s-1", datetime(2026, 12, 8, 9, tzinfo=UTC))
    assert found.quote == "Where is KX-5512, please?"


@pytest.mark.parametrize(
    "request_", ["尾号890", "ending in 890", "后四位 7890", "订单 w-67890", "前天问的订单", "67890"]
)
async def test_an_id_its_end_or_a_day_finds_it_in_both_languages(customer: Store, request_: str) -> None:
    assert only(await recalled(customer, request_)).id == "W-67890"


async def test_several_become_a_question_in_the_language_of_the_request(customer: Store) -> None:
    """Nothing is chosen for the customer; the question names each with its day and words."""
    english, chinese = await recalled(customer, "How is my order?"), await recalled(customer, "我的订单怎么样了")

    assert english.one is None
    assert [one.id for one in english.several] == ["KX-5512", "W-67890"]
    assert english.question == (
        'Do you mean KX-5512 (8 December: "Where is KX-5512, please?")'
        ' or W-67890 (7 December: "刀片坏了，订单 W-67890")?'
    )
    assert chinese.question.startswith("您指的是KX-5512（12月8日")
    assert "还是W-67890（12月7日：“刀片坏了，订单 W-67890”）？" in chinese.question


async def test_what_is_not_known_is_nothing_and_not_the_nearest(customer: Store) -> None:
    """A mistyped id, a day without talk: nothing, and a question for the number."""
    for request in ("KX-5513", "the order I asked about on Sunday", "尾号111"):
        found = await recalled(customer, request)
        assert found.nothing
        assert found.one is None
        assert found.question


async def test_the_end_of_an_id_with_a_day_that_does_not_fit_is_asked(customer: Store) -> None:
    """Close is not sure: a single candidate that fits only in part is a question, too."""
    found = await recalled(customer, "I asked yesterday about the one ending in 890")

    assert found.one is None
    assert ids(found) == ["W-67890"]
    assert found.question == 'Do you mean W-67890 (7 December: "刀片坏了，订单 W-67890")?'


async def test_a_number_that_an_id_happens_to_end_with_is_asked(customer: Store) -> None:
    """The number of an order may be said without its letters; a postcode that it ends with is no order."""
    await spoken_of(customer, "s-3", Order(order_id="880012345"), "2026-12-08T10:00Z")

    assert only(await recalled(customer, "67890 is my order")).id == "W-67890"
    postcode = await recalled(customer, "my postcode is 12345")
    assert postcode.one is None
    assert ids(postcode) == ["880012345"]


async def test_who_speaks_of_another_one_besides_is_asked(customer: Store) -> None:
    """What is named is not what is meant, perhaps."""
    found = await recalled(customer, "I asked about KX-5512 and then about another one")

    assert found.one is None
    assert found.question


async def test_fc_75_nobody_else_is_seen(customer: Store) -> None:
    """FC-75: the same session names, the same words, the full id even: another owner gets nothing."""
    for request in ("How is my order?", "KX-5512", "尾号890", "the last order"):
        assert (await recalled(customer, request, owner="ub")).nothing
        assert (await recalled(customer, request, owner="ub", session="s-1")).nothing


async def test_the_present_run_is_not_recalled(customer: Store) -> None:
    """What this run itself looked up is no memory of an earlier one, in the same session or not."""
    async with open_session("s-1", owner="chen", store=customer, clock=clock_at("2026-12-09T10:00Z")) as session:
        async with session.step("look_up") as step:
            await step.commit(Order(order_id="KX-9999"))

        found = await session.recall(Order, "the last order")

    assert only(found).id == "KX-5512"


async def test_days_begin_where_the_customer_is(store: Store) -> None:
    """`zone` decides what "yesterday" is; UTC if nobody says."""
    await spoken_of(store, "s-1", Order(order_id="KX-5512"), "2026-12-08T20:00Z")
    async with open_session("now", owner="chen", store=store, clock=clock_at("2026-12-09T18:00Z")) as session:
        words = "what I asked yesterday"
        in_utc = await session.recall(Order, words)
        in_beijing = await session.recall(Order, words, zone=timezone(timedelta(hours=8)))

    assert only(in_utc).id == "KX-5512"
    assert only(in_beijing).at.isoformat() == "2026-12-09T04:00:00+08:00"  # and 18:00 UTC is the 10th there


async def test_an_index_row_without_its_value_is_not_offered(customer: Store) -> None:
    """Sessions that are gone, ids that nobody committed: reads are repaired by reading the log."""
    await spoken_of(customer, "s-3", Ticket(number=4711, also=["KX-0000"]), "2026-12-08T10:00Z")
    await customer.rewrite(session_key("chen", "s-2"), Rewrite(first=4), after=3)
    assert {use.session for use in await customer.entities("chen", kind="order")} == {"s-1", "s-2", "s-3"}

    assert (await recalled(customer, "KX-0000")).nothing  # only a ticket speaks of it
    assert (await recalled(customer, "W-67890")).nothing  # its session has no entries any more
    assert only(await recalled(customer, "How is my order?")).id == "KX-5512"


class Forgetting(MemoryStore):
    """Keeps its index longer than its sessions, and says so, as a cache does."""

    expired: frozenset[str] = frozenset()

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        if key.session in self.expired:
            raise Expired(f"session {key.session!r} is over")
        return await super().headers(key, after=after)


async def test_an_expired_session_is_not_offered_and_hides_no_other() -> None:
    store = Forgetting()
    await spoken_of(store, "s-1", Order(order_id="KX-5512"), "2026-12-08T09:00Z")
    await spoken_of(store, "s-2", Order(order_id="W-67890"), "2026-12-07T09:00Z")
    store.expired = frozenset({"s-1"})

    assert (await recalled(store, "KX-5512")).nothing
    assert only(await recalled(store, "How is my order?")).id == "W-67890"


async def test_the_latest_use_of_one_thing_counts(customer: Store) -> None:
    """The same order on two days is one candidate; each of the days finds it."""
    await spoken_of(customer, "s-4", Order(order_id="W-67890", status="lost"), "2026-12-08T12:00Z")

    assert only(await recalled(customer, "尾号890")).value.status == "lost"
    assert only(await recalled(customer, "the order I asked about on Monday")).value.status == "shipped"
    assert len((await recalled(customer, "the order I asked about yesterday")).several) == 2


async def test_ids_are_found_inside_values_and_under_other_kinds(store: Store) -> None:
    """A list of contracts, whole numbers, a field that names the kind of thing it is the id of."""
    await spoken_of(store, "s-1", Basket(orders=[Order(order_id="A-1"), Order(order_id="B-2")]), "2026-12-08T09:00Z")
    await spoken_of(store, "s-2", Ticket(number=4711, also=["C-3"]), "2026-12-08T09:00Z")

    uses = await store.entities("chen")
    orders = {("order", "a-1"), ("order", "b-2"), ("order", "c-3")}
    assert {(use.kind, use.value) for use in uses} == orders | {("ticket", "4711")}
    async with open_session("now", owner="chen", store=store, clock=clock_at("2026-12-09T10:00Z")) as session:
        assert (await session.recall(Basket, "my last basket")).one is not None


async def test_sensitive_fields_are_never_indexed(store: Store) -> None:
    """Not by their mark, and not when a user's rule or another field holds the same."""
    workflow = Workflow("w", store=store, entities=lambda value: [("account", getattr(value, "hidden", ""))])

    @workflow.step
    async def look_up(request: Request) -> Account:
        return Account(account_id="DE-1234", card="SECRET-9", hidden="SECRET-9")

    assert (await workflow.run("go", owner="chen", session="s")).ok
    assert list(await store.entities("chen")) == []


async def test_a_rule_of_the_user_finds_what_has_no_mark(store: Store) -> None:
    class Parcel(Contract):
        text: str

    class Found(Contract):
        session: str

    workflow = Workflow(
        "w", store=store, entities=lambda v: [("parcel", v.text.split()[-1])] if isinstance(v, Parcel) else []
    )

    @workflow.step
    async def see(ctx: Context) -> Parcel:
        return Parcel(text=f"it is {ctx.request}")

    await workflow.run("PX-1", owner="chen", session="s-1")
    await workflow.run("PX-2", owner="chen", session="s-2")
    asking = Workflow("ask", store=store, entities=workflow.entities)

    @asking.step
    async def find(ctx: Context) -> Found:
        one = (await ctx.recall(Parcel)).one
        return Found(session=one.session if one else "")

    run = await asking.run("PX-1 again", owner="chen", session="s-3")
    assert run[Found].session == "s-1"


async def test_a_commit_has_a_bounded_number_of_entities_and_says_what_it_left_out(store: Store) -> None:
    await spoken_of(store, "s-1", Basket(orders=[Order(order_id=f"A-{n}") for n in range(40)]), "2026-12-08T09:00Z")
    await spoken_of(store, "s-2", Order(order_id="x" * 200), "2026-12-08T09:00Z")

    assert len(await store.entities("chen")) == 32


async def test_what_a_step_recalled_is_no_made_up_id(store: Store) -> None:
    """It stands nowhere in this run, but the step knows it: loss does not call it changed."""
    await spoken_of(store, "s-1", Order(order_id="KX-5512890"), "2026-12-08T09:00Z")
    workflow = Workflow("w", store=store)

    @workflow.step
    async def answer(ctx: Context) -> Answer:
        await ctx.recall(Order)
        return await ctx.ask(Answer, "Answer.")

    run = await workflow.run("my last order?", owner="chen", ask=lambda _: '{"text": "KX-5512890 is on its way"}')

    assert run.ok, run.problem
    assert run.loss.changed_ids == ()


async def test_quotes_have_at_most_fifty_characters_around_the_id(store: Store) -> None:
    """Word for word, cut between words, with the id inside."""
    words = "I have written to you so many times: where in the world is KX-5512, and when will it ever come here?"
    await spoken_of(store, "s-1", Order(order_id="KX-5512"), "2026-12-08T09:00Z", request=words)

    quote = only(await recalled(store, "the last order")).quote
    assert len(quote) <= 50
    assert "KX-5512" in quote
    assert quote in words


async def test_an_earlier_session_is_opened_with_the_keys_of_this_one(store: Store) -> None:
    """A value with a sealed field is recalled as a whole; without the key it would be locked."""

    class Parcel(Contract):
        order_id: Id[str]
        code: Sensitive[str]

    keys = KeyRing({"k": b"0123456789abcdef" * 2})
    async with (
        open_session("before", owner="chen", store=store, request="Hello", keys=keys) as opened,
        opened.step("look_up") as step,
    ):
        await step.commit(Parcel(order_id="KX-2231", code="4711"))

    async with open_session("now", owner="chen", store=store, request="Where is KX-2231?", keys=keys) as opened:
        found = await opened.recall(Parcel)

    assert [candidate.value for candidate in found.candidates] == [Parcel(order_id="KX-2231", code="4711")]
