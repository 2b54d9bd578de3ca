"""Single steps in a script that keeps its own control flow: three lines, sync and async."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import pytest

from statepact import Contract, MemoryStore, Pinned, Store, open_session
from statepact.errors import (
    ContractViolation,
    MissingInput,
    SetupError,
    StateError,
    StepFailed,
    StepIdReused,
)
from statepact.workflow._session_step import Uncommitted


class Complaint(Contract):
    product: str
    demand: Pinned[str]


class Order(Contract):
    order_id: str


class Reply(Contract):
    text: str


COMPLAINT = Complaint(product="grinder", demand="refund")


def test_a_script_reads_and_commits_without_a_loop(tmp_path: Path) -> None:
    """The whole of it: open, read, commit; another `with` on the same file sees it."""
    url = f"sqlite:///{tmp_path}/state.db"
    with open_session("s-1", store=url, run="r-1") as session:
        with session.step("understand") as step:
            step.commit(COMPLAINT)
        with session.step("look_up", reads=[Complaint]) as step:
            assert step[Complaint].product == "grinder"
            step.commit(Order(order_id="KX-1"))

    with open_session("s-1", store=url, run="r-1") as session:
        assert session.get(Order) == Order(order_id="KX-1")
        assert session.all(Complaint) == [COMPLAINT]
        assert session.runs == ["r-1"]
        assert (session.name, session.run) == ("s-1", "r-1")


async def test_the_same_with_a_loop(store: Store) -> None:
    async with open_session("s-1", store=store) as session:
        async with session.step("understand") as step:
            await step.commit(COMPLAINT)
        async with session.step("look_up", reads=[Complaint]) as step:
            await step.commit(Order(order_id=step[Complaint].product))

        assert await session.get(Order) == Order(order_id="grinder")


def test_a_repeated_step_is_stored_and_need_not_be_done_again() -> None:
    """The second time the step says so, and committing again changes nothing."""
    store = MemoryStore()
    calls = 0
    for _ in range(2):
        with open_session("s-1", store=store, run="r-1") as session, session.step("understand") as step:
            if not step.is_stored:
                calls += 1
                step.commit(COMPLAINT)

    with open_session("s-1", store=store, run="r-1") as session, session.step("understand") as step:
        assert step.is_stored
        step.commit(Complaint(product="other", demand="other"))
    with open_session("s-1", store=store, run="r-1") as session:
        assert session.all(Complaint) == [COMPLAINT]
    assert calls == 1


def test_the_same_step_on_other_inputs_is_an_error_and_a_branch_is_the_way_out() -> None:
    with open_session("s-1") as session:
        with session.step("understand") as step:
            step.commit(COMPLAINT)
        with session.step("look_up", reads=[list[Complaint]]) as step:
            step.commit(Order(order_id="KX-1"))
        with session.step("understand", branch="second") as step:
            step.commit(COMPLAINT)
        with pytest.raises(StepIdReused, match="branch"), session.step("look_up", reads=[list[Complaint]]):
            pytest.fail("the body must not run")
        with session.step("look_up", reads=[list[Complaint]], branch="again") as step:
            assert len(step.all(Complaint)) == 2
            step.commit(Order(order_id="KX-2"))

        assert [order.order_id for order in session.all(Order)] == ["KX-1", "KX-2"]


def test_what_a_step_reads_is_declared() -> None:
    """One, maybe, all; what is not declared or not there is an error that says so."""
    with open_session("s-1") as session:
        with pytest.raises(MissingInput, match="Complaint"), session.step("look_up", reads=[Complaint]):
            pytest.fail("the body must not run")
        with session.step("maybe", reads=[Complaint | None, list[Order]]) as step:
            assert step.get(Complaint) is None
            assert step.all(Order) == []
            with pytest.raises(MissingInput):
                step[Complaint]
            with pytest.raises(SetupError, match=r"reads=\[Reply\]"):
                step[Reply]
            step.commit(Reply(text="nothing"))
        with pytest.raises(SetupError, match="not a wire"):
            session.step("odd", reads=[str])


def test_a_decorated_function_is_a_step() -> None:
    """Its signature is the wiring; called again it returns the stored result without running."""
    calls: list[str] = []
    store = MemoryStore()
    for _ in range(2):
        with open_session("s-1", store=store, run="r-1") as session:

            @session.step("understand")
            def understand() -> Complaint:
                calls.append("understand")
                return COMPLAINT

            @session.step("look_up")
            def look_up(complaint: Complaint) -> tuple[Order, Reply]:
                calls.append("look_up")
                return Order(order_id=complaint.product), Reply(text="found")

            assert understand() == COMPLAINT
            assert look_up() == (Order(order_id="grinder"), Reply(text="found"))

    assert calls == ["understand", "look_up"]


async def test_a_decorated_coroutine_function_is_a_step(store: Store) -> None:
    async with open_session("s-1", store=store) as session:

        @session.step("understand")
        async def understand() -> Complaint:
            return COMPLAINT

        @session.step("nothing")
        async def nothing(complaint: Complaint) -> None:
            return None

        assert await understand() == COMPLAINT
        assert await understand() == COMPLAINT
        assert await nothing() is None
        assert await session.all(Complaint) == [COMPLAINT]


def test_the_body_of_a_decorated_function_may_use_the_session() -> None:
    """It runs in its caller's thread: it can read, and call other steps, without waiting for itself."""
    threads: list[int] = []
    with open_session("s-1") as session:

        @session.step("understand")
        def understand() -> Complaint:
            threads.append(threading.get_ident())
            return COMPLAINT

        @session.step("look_up")
        def look_up() -> Order:
            threads.append(threading.get_ident())
            complaint = understand()
            assert session.get(Complaint) == complaint
            return Order(order_id="KX-1")

        assert look_up().order_id == "KX-1"

    assert set(threads) == {threading.get_ident()}


def test_a_coroutine_in_a_session_without_a_loop_is_told_so_and_does_not_hang() -> None:
    with open_session("s-1") as session:

        @session.step("understand")
        async def understand() -> Complaint:
            session.get(Complaint)
            return COMPLAINT

        with pytest.raises(SetupError, match="async with"):
            understand()


def test_a_decorated_function_takes_no_arguments_and_no_context() -> None:
    from statepact import Context

    with open_session("s-1") as session:

        @session.step("look_up")
        def look_up(complaint: Complaint) -> Order:
            return Order(order_id="KX-1")

        @session.step("ask")
        def ask(ctx: Context) -> Order:
            return Order(order_id="KX-1")

        with pytest.raises(StateError, match="called with arguments"):
            look_up(COMPLAINT)
        with pytest.raises(SetupError, match="only a workflow gives"):
            ask()


# -- when something goes wrong ---------------------------------------------------------------------


def test_a_step_that_forgets_to_commit_is_a_warning_at_its_line() -> None:
    with (
        open_session("s-1") as session,
        pytest.warns(Uncommitted, match=r"'look_up' ended without step.commit") as caught,
        session.step("look_up"),
    ):
        pass

    assert caught[0].filename == __file__


async def test_so_it_is_with_a_loop(store: Store) -> None:
    async with open_session("s-1", store=store) as session:
        with pytest.warns(Uncommitted) as caught:
            async with session.step("look_up"):
                pass

    assert caught[0].filename == __file__


def test_a_stored_step_that_does_nothing_is_no_warning() -> None:
    store = MemoryStore()
    with open_session("s-1", store=store, run="r-1") as session, session.step("understand") as step:
        step.commit(COMPLAINT)
    with (
        warnings.catch_warnings(),
        open_session("s-1", store=store, run="r-1") as session,
        session.step("understand"),
    ):
        warnings.simplefilter("error")


async def attempts(store: Store) -> list[tuple[str, str]]:
    """Read the failed attempts that the log of s-1 holds, as (step, code)."""
    from statepact.ledger import DEFAULT_OWNER, session_key
    from statepact.ledger._header import Kind
    from statepact.stores._open_log import OpenLog

    log = await OpenLog.open(store, session_key(DEFAULT_OWNER, "s-1"))
    view = await log.view("r-1")
    return [(entry.step, entry.extra["error"]) for entry in view.entries if entry.kind is Kind.ATTEMPT]


async def test_an_error_in_a_step_is_recorded_as_an_attempt_and_goes_on_to_the_caller(store: Store) -> None:
    """By its code, for a block and for a decorated function, and the session can be used further."""
    async with open_session("s-1", store=store, run="r-1") as session:
        with pytest.raises(ValueError, match="no answer"):
            async with session.step("look_up"):
                raise ValueError("no answer")
        with pytest.raises(ContractViolation):
            async with session.step("look_up") as step:
                await step.commit(Order.model_construct(order_id=7))

        @session.step("decorated")
        async def decorated() -> Order:
            raise ConnectionError("db:6379")

        with pytest.raises(ConnectionError):
            await decorated()

        @session.step("wrong")
        async def wrong() -> Order:
            return Reply(text="")  # type: ignore[return-value]

        with pytest.raises(ContractViolation, match="'wrong' returned"):
            await wrong()
        async with session.step("look_up") as step:
            await step.commit(Order(order_id="KX-1"))

    assert await attempts(store) == [
        ("look_up", StepFailed.code),
        ("look_up", ContractViolation.code),
        ("decorated", StepFailed.code),
        ("wrong", ContractViolation.code),
    ]


def test_errors_of_a_decorated_plain_function_are_recorded_too() -> None:
    import asyncio

    store = MemoryStore()
    with open_session("s-1", store=store, run="r-1") as session:

        @session.step("look_up")
        def look_up() -> Order:
            raise ConnectionError("db:6379")

        with pytest.raises(ConnectionError):
            look_up()

    assert asyncio.run(attempts(store)) == [("look_up", StepFailed.code)]


def test_committing_what_is_no_contract_is_an_error() -> None:
    with open_session("s-1") as session:
        with pytest.raises(StepFailed, match="dict, which is no contract"), session.step("look_up") as step:
            step.commit({"order_id": "KX-1"})  # type: ignore[arg-type]
        assert session.get(Order) is None


def test_a_session_that_ends_with_an_error_is_sealed_as_failed() -> None:
    store = MemoryStore()
    with pytest.raises(ZeroDivisionError), open_session("s-1", store=store, run="r-1"):
        raise ZeroDivisionError
    with open_session("s-1", store=store, run="r-2") as session:
        assert session._session._scope.log.log.runs["r-1"].seal is not None


async def test_a_run_opened_again_keeps_its_request_and_refuses_another(store: Store) -> None:
    async with open_session("s-1", store=store, run="r-1", request="Where is it?"):
        pass
    async with open_session("s-1", store=store, run="r-1") as session, session.step("answer") as step:
        assert "Where is it?" in (await step.prompt("Answer.")).text
        await step.commit(Reply(text=""))
    with pytest.raises(StepIdReused):
        async with open_session("s-1", store=store, run="r-1", request="Who is it?"):
            pass


# -- what was sent ---------------------------------------------------------------------------------


def test_delivery_is_measured_on_what_was_reported_as_sent() -> None:
    """All of it, a part, or nothing reported: delivered, lost, unchecked."""
    with open_session("s-1") as session:
        with session.step("understand") as step:
            step.commit(COMPLAINT)
        with session.step("all", reads=[Complaint]) as step:
            step.sent(step.prompt("Answer.").text)
            step.commit(Reply(text="refund"))
        with session.step("part", reads=[Complaint]) as step:
            step.prompt("Answer.")
            step.sent('{"demand":"refund"}')
            step.commit(Reply(text="refund"))
        with session.step("none", reads=[Complaint]) as step:
            step.prompt("Answer.")
            step.commit(Reply(text="refund"))
        loss = session.loss

    states = {(d.reader, d.fact): d.state for d in loss.deliveries}
    assert states == {
        ("all", "Complaint.product"): "delivered",
        ("all", "Complaint.demand"): "delivered",
        ("part", "Complaint.product"): "lost",
        ("part", "Complaint.demand"): "delivered",
        ("none", "Complaint.product"): "unchecked",
        ("none", "Complaint.demand"): "unchecked",
    }
    assert (loss.checked_handoffs, loss.handoffs) == (2, 3)
    (lost,) = [loss for loss in loss.losses if loss.fact == "Complaint.product"]
    assert (lost.form, lost.step) == ("role", "part")
    assert "checked 2 of 3 handoffs" in str(loss)


@pytest.mark.parametrize("form", ["text", "parts", "typed parts"])
def test_messages_may_be_reported_as_they_were_passed_on(form: str) -> None:
    """Content as a string, or as the list of parts that SDKs use, also beside pictures."""
    with open_session("s-1") as session:
        with session.step("understand") as step:
            step.commit(Complaint(product='the "big" one\nwith a lid', demand="refund"))
        with session.step("answer", reads=[Complaint]) as step:
            prompt = step.prompt("Answer.")
            content = {
                "text": lambda text: text,
                "parts": lambda text: [{"type": "text", "text": text}],
                "typed parts": lambda text: [{"type": "image_url", "image_url": {"url": "x"}}, {"text": text}],
            }[form]
            step.sent([{"role": one.role, "content": content(one.content)} for one in prompt.messages])
            step.commit(Reply(text="refund"))
        loss = session.loss

    assert [d.state for d in loss.deliveries] == ["delivered", "delivered"]


def test_a_step_that_shows_no_prompt_was_given_its_inputs_as_values() -> None:
    with open_session("s-1") as session:
        with session.step("understand") as step:
            step.commit(COMPLAINT)
        with session.step("look_up", reads=[Complaint]) as step:
            step.commit(Order(order_id=step[Complaint].product))
        loss = session.loss

    assert loss.delivered == 2
    assert loss.checked_handoffs == loss.handoffs == 1


def test_a_declared_value_that_the_code_never_took_is_not_claimed_as_delivered() -> None:
    with open_session("s-1") as session:
        with session.step("understand") as step:
            step.commit(COMPLAINT)
        with session.step("look_up", reads=[Complaint]) as step:
            step.commit(Order(order_id="KX-1"))
        loss = session.loss

    assert loss.delivered == 0
    assert {d.state for d in loss.deliveries} == {"unchecked"}


async def test_a_store_that_was_passed_in_is_left_open(store: Store) -> None:
    """Who opened it closes it."""
    async with open_session("s-1", store=store) as session:
        pass

    assert [info.session for info in await store.sessions(session.owner)] == ["s-1"]
