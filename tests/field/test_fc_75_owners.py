"""FC-75: two users with the same session id share memory."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable

import pytest

from statepact import Context, Contract, Pinned, Store, Workflow, open_session
from statepact.errors import StatepactError, UnknownRun
from statepact.ledger import session_key
from statepact.models import AnswersModel
from statepact.stores._open_log import OpenLog

Reopen = Callable[[], Awaitable[Store]]
SECRETS = ("KX-5512", "12 Mill Lane")


class Address(Contract):
    order: Pinned[str]
    street: Pinned[str]


class Reply(Contract):
    text: str


MINE = Address(order="KX-5512", street="12 Mill Lane")


def support() -> Workflow:
    workflow = Workflow("support")

    @workflow.step
    async def earlier(ctx: Context) -> Reply:
        known = await ctx.earlier(Address)
        return Reply(text=", ".join(f"{one.order} {one.street}" for one in known) or "nothing known")

    return workflow


async def stored_by_ua(store: Store) -> None:
    async with (
        open_session("support-1", owner="ua", store=store, run="r-1", request="order KX-5512?") as session,
        session.step("look_up") as step,
    ):
        await step.commit(MINE)


async def test_fc_75_another_user_with_the_same_session_id_gets_nothing(stores: Reopen) -> None:
    """Not by value, not by run id, not as pinned fact in a prompt, not in the list of runs."""
    await stored_by_ua(await stores())

    async with open_session("support-1", owner="ub", store=await stores(), run="r-1") as session:
        assert session.runs == ["r-1"]
        assert await session.get(Address) is None
        assert await session.all(Address) == []
        async with session.step("answer") as step:
            prompt = await step.prompt("Answer.")
            await step.commit(Reply(text="?"))

    assert not any(secret in prompt.text for secret in SECRETS)


async def test_fc_75_a_call_without_an_owner_is_an_owner_of_its_own(stores: Reopen) -> None:
    """The anonymous call does not see everybody's, and nobody sees it."""
    await stored_by_ua(await stores())

    async with open_session("support-1", store=await stores(), run="r-2") as session:
        assert session.runs == ["r-2"]
        assert await session.get(Address, run="r-1") is None
    async with open_session("support-1", owner="ua", store=await stores(), run="r-3") as session:
        assert session.runs == ["r-1", "r-3"]


async def test_fc_75_earlier_runs_are_those_of_the_same_owner(stores: Reopen) -> None:
    """`ctx.earlier` in a workflow: ua sees what ua said, ub does not."""
    await stored_by_ua(await stores())
    texts = {
        owner: (await support().run("what do you know?", owner=owner, session="support-1", store=await stores()))[
            Reply
        ].text
        for owner in ("ua", "ub")
    }

    assert texts == {"ua": "KX-5512 12 Mill Lane", "ub": "nothing known"}


async def test_fc_75_a_run_id_of_somebody_else_does_not_exist(stores: Reopen) -> None:
    """Resuming it is the same error as for a run that never was, and tells nothing."""
    await stored_by_ua(await stores())

    for run in ("r-1", "never-was"):
        with pytest.raises(UnknownRun) as caught:
            await support().resume(run, owner="ub", session="support-1", store=await stores())
        text = "".join(traceback.format_exception(caught.value)) + repr(caught.value.as_dict())
        assert "ua" not in repr(caught.value.as_dict()).replace("'ub'", "")
        assert not any(secret in text for secret in SECRETS)


async def test_fc_75_snapshots_listings_and_views_are_per_owner(stores: Reopen) -> None:
    """Also below the surface: the log, its snapshot, the listing of sessions, large shared values."""
    await stored_by_ua(await stores())
    store = await stores()

    assert [info.session for info in await store.sessions("ua")] == ["support-1"]
    assert list(await store.sessions("ub")) == []
    assert list(await store.sessions("")) == []
    log = await OpenLog.open(store, session_key("ub", "support-1"))
    assert log.log.revision == 0
    with pytest.raises(UnknownRun) as caught:
        await log.view("r-1")
    assert not any(secret in str(caught.value) for secret in SECRETS)


async def test_fc_75_the_same_large_value_of_two_owners_is_stored_apart(stores: Reopen) -> None:
    """Content addressing ends at the owner: whether ua has a document cannot be found out by ub."""

    class Document(Contract):
        text: str

    large = Document(text="12 Mill Lane " * 5_000)
    store = await stores()
    for owner in ("ua", "ub"):
        async with (
            open_session("support-1", owner=owner, store=store, run="r-1") as session,
            session.step("read") as step,
        ):
            await step.commit(large)

    addresses = set()
    for owner in ("ua", "ub"):
        log = await OpenLog.open(store, session_key(owner, "support-1"))
        payloads = await store.payloads(log.key, range(1, log.log.revision + 1))
        addresses.add(max(payloads.values(), key=len))
        assert (await log.view("r-1")).commits[-1].cells[0].values["text"] == large.text
    assert len(addresses) == 2


@pytest.mark.parametrize(
    ("owner", "session"),
    [("ua/support-1", "x"), ("ua", "support-1/x"), ("ua:support-1", ""), ("u%", "support_1"), ("UA", "support-1")],
)
async def test_fc_75_no_spelling_of_a_name_reaches_another_owner(stores: Reopen, owner: str, session: str) -> None:
    """Separators, patterns and case in names: refused, or a key of their own."""
    await stored_by_ua(await stores())

    try:
        async with open_session(session, owner=owner, store=await stores(), run="r-1") as opened:
            assert await opened.get(Address) is None
    except StatepactError as error:
        assert error.code == "ERR_SETUP"  # noqa: PT017 - either is right, and both are checked
    async with open_session("support-1", owner="ua", store=await stores(), run="r-1") as opened:
        assert await opened.get(Address) == MINE


async def test_fc_75_reports_of_one_owner_hold_nothing_of_the_other(
    stores: Reopen, caplog: pytest.LogCaptureFixture
) -> None:
    """Loss report, repr and logs of ub's run after ua's."""
    caplog.set_level(logging.DEBUG)
    await stored_by_ua(await stores())
    workflow = Workflow("support")

    @workflow.step
    async def answer(ctx: Context) -> Reply:
        return await ctx.ask(Reply, "Answer.")

    model = AnswersModel([{"text": "Order KX-9999 it is"}])
    run = await workflow.run("hello", owner="ub", session="support-1", ask=model, store=await stores())

    seen = f"{run!r} {run.loss} {run.loss.as_dict()} {model.prompts} {caplog.text}"
    assert not any(secret in seen for secret in SECRETS)
    assert run.loss.changed_ids[0].nearest == ""
