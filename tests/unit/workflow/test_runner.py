"""Each step runs as soon as its inputs are there; what fails stays where it failed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from statepact import Context, Contract, MemoryStore, Store, Workflow
from statepact.errors import (
    ContractViolation,
    MissingInput,
    SetupError,
    StepFailed,
    StepTimeout,
)
from statepact.models import AnswersModel


class A(Contract):
    x: int


class B(Contract):
    x: int


class C(Contract):
    x: int


class Part(Contract):
    n: int


class Sum(Contract):
    parts: list[int]


async def test_parallel_branches_really_overlap() -> None:
    """Each waits for the other to have started: one after the other would never end."""
    workflow = Workflow("w")
    left_started, right_started = asyncio.Event(), asyncio.Event()

    @workflow.step
    async def left() -> A:
        left_started.set()
        await right_started.wait()
        return A(x=1)

    @workflow.step
    async def right() -> B:
        right_started.set()
        await left_started.wait()
        return B(x=2)

    @workflow.step
    async def join(a: A, b: B) -> C:
        return C(x=a.x + b.x)

    async with asyncio.timeout(10):
        run = await workflow.run("go")

    assert run[C].x == 3


async def test_a_step_starts_when_its_own_inputs_are_there_not_when_a_round_is_over() -> None:
    """The quick branch goes two steps ahead while the slow one is still in its first."""
    workflow = Workflow("w")
    quick_is_through = asyncio.Event()

    @workflow.step
    async def slow() -> A:
        await quick_is_through.wait()
        return A(x=1)

    @workflow.step
    async def quick() -> B:
        return B(x=2)

    @workflow.step
    async def after_quick(b: B) -> Part:
        quick_is_through.set()
        return Part(n=b.x)

    @workflow.step
    async def join(a: A, part: Part) -> C:
        return C(x=a.x + part.n)

    async with asyncio.timeout(10):
        run = await workflow.run("go")

    assert run[C].x == 3


async def test_plain_functions_run_in_threads_beside_each_other() -> None:
    """Two blocking bodies meet at a barrier; the event loop is free meanwhile."""
    workflow = Workflow("w")
    barrier = threading.Barrier(2, timeout=10)
    threads: list[int] = []

    @workflow.step
    def left() -> A:
        threads.append(threading.get_ident())
        barrier.wait()
        return A(x=1)

    @workflow.step
    def right() -> B:
        threads.append(threading.get_ident())
        barrier.wait()
        return B(x=2)

    @workflow.step
    async def join(a: A, b: B) -> C:
        return C(x=a.x + b.x)

    run = await workflow.run("go")

    assert run[C].x == 3
    assert threading.get_ident() not in threads
    assert len(set(threads)) == 2


async def test_a_plain_function_asks_a_model_with_ask_sync() -> None:
    workflow = Workflow("w")

    @workflow.step
    def answer(ctx: Context) -> A:
        return ctx.ask_sync(A, "How many?")

    run = await workflow.run("go", ask=AnswersModel([{"x": 7}]))

    assert run[A].x == 7
    assert run.usage.input_tokens > 0


# -- failures --------------------------------------------------------------------------------------


def five_branches(broken: set[int], bodies: list[int]) -> Workflow:
    workflow = Workflow("w")

    def add(number: int) -> None:
        @workflow.step(name=f"branch_{number}")
        async def branch() -> Part:
            bodies.append(number)
            await asyncio.sleep(0)
            if number in broken:
                raise ConnectionError("no answer")
            return Part(n=number)

    for number in range(5):
        add(number)

    @workflow.step
    async def join(parts: list[Part]) -> Sum:
        return Sum(parts=[part.n for part in parts])

    return workflow


async def test_a_failing_branch_keeps_what_its_siblings_have_committed(store: Store) -> None:
    """Three of five are saved, two have their reason, the join waits; a second run starts exactly two."""
    bodies: list[int] = []
    broken = {1, 3}
    workflow = five_branches(broken, bodies)

    run = await workflow.run("go", id="r-1", store=store)

    assert run.status == "failed"
    assert sorted(part.n for part in run.all(Part)) == [0, 2, 4]
    for number in broken:
        outcome = run.steps[f"branch_{number}"]
        assert outcome.ending == "failed"
        assert isinstance(outcome.problem, StepFailed)
        assert isinstance(outcome.problem.__cause__, ConnectionError)
    join = run.steps["join"]
    assert join.ending == "blocked"
    assert "'branch_1', 'branch_3'" in str(join.problem)

    bodies.clear()
    broken.clear()
    again = await workflow.resume("r-1", store=store)

    assert again.ok
    assert sorted(bodies) == [1, 3]
    assert sorted(again[Sum].parts) == [0, 1, 2, 3, 4]


async def test_the_problem_of_a_run_is_the_first_failure_and_not_who_waited_for_it() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def a() -> A:
        raise ValueError("no")

    @workflow.step
    async def b(a: A) -> B:
        return B(x=1)

    run = await workflow.run("go")

    assert isinstance(run.problem, StepFailed)
    assert "'a' failed with ValueError at test_runner.py:" in str(run.problem)
    assert isinstance(run.steps["b"].problem, MissingInput)
    assert run.ok is False
    with pytest.raises(MissingInput) as caught:
        run[B]
    assert caught.value.__cause__ is run.problem


async def test_strict_raises_the_problem_instead() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def a() -> A:
        raise ValueError("no")

    with pytest.raises(StepFailed) as caught:
        await workflow.run("go", strict=True)
    assert isinstance(caught.value.__cause__, ValueError)


def test_run_sync_is_run_without_a_loop() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def a() -> A:
        return A(x=1)

    assert workflow.run_sync("go")[A].x == 1


async def test_run_sync_inside_a_loop_says_what_to_do() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def a() -> A:
        return A(x=1)

    with pytest.raises(SetupError, match=r"await workflow\.run"):
        workflow.run_sync("go")


# -- retries, timeouts, fallbacks ------------------------------------------------------------------


async def test_a_failed_attempt_is_tried_again_after_a_growing_wait(clock: Any) -> None:
    """0.1 s, then twice as long each time, at most 5 s, on the clock that was passed in."""
    workflow = Workflow("w")
    attempts = 0

    @workflow.step(retries=8)
    async def a() -> A:
        nonlocal attempts
        attempts += 1
        if attempts < 9:
            raise ConnectionError
        return A(x=attempts)

    run = await workflow.run("go", clock=clock)

    assert run[A].x == 9
    assert run.steps["a"].attempts == 9
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_after_the_last_retry_the_last_problem_is_the_result(clock: Any) -> None:
    workflow = Workflow("w")

    @workflow.step(retries=2)
    async def a() -> A:
        raise ConnectionError

    run = await workflow.run("go", clock=clock)

    assert run.steps["a"].ending == "failed"
    assert run.steps["a"].attempts == 3
    assert len(clock.slept) == 2


async def test_what_another_attempt_cannot_change_is_not_tried_again(clock: Any) -> None:
    """A set-up mistake inside a step: asking a model that the run does not have."""
    workflow = Workflow("w")

    @workflow.step(retries=5)
    async def a(ctx: Context) -> A:
        return await ctx.ask(A, "How many?")

    run = await workflow.run("go", clock=clock)

    assert isinstance(run.problem, SetupError)
    assert run.steps["a"].attempts == 1
    assert clock.slept == []


async def test_a_step_that_takes_too_long_is_stopped_and_says_so() -> None:
    workflow = Workflow("w")

    @workflow.step(timeout=0.01)
    async def a() -> A:
        await asyncio.Event().wait()
        return A(x=1)

    run = await workflow.run("go")

    assert isinstance(run.problem, StepTimeout)
    assert isinstance(run.problem, TimeoutError)
    assert "'a' took longer than 0.01 s" in str(run.problem)


async def test_a_timeout_of_the_body_itself_is_not_taken_for_ours() -> None:
    workflow = Workflow("w")

    @workflow.step(timeout=60)
    async def a() -> A:
        raise TimeoutError("the shop did not answer")

    run = await workflow.run("go")

    assert isinstance(run.problem, StepFailed)
    assert "TimeoutError" in str(run.problem)


async def test_each_attempt_has_its_own_time(clock: Any) -> None:
    workflow = Workflow("w")
    attempts = 0

    @workflow.step(timeout=0.01, retries=1)
    async def a() -> A:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await asyncio.Event().wait()
        return A(x=attempts)

    run = await workflow.run("go", clock=clock)

    assert run[A].x == 2


async def test_a_fallback_value_is_committed_and_labelled() -> None:
    """Later steps go on with it; the result says that it is degraded, and why."""
    workflow = Workflow("w")

    @workflow.step(fallback=A(x=-1))
    async def a() -> A:
        raise ConnectionError

    @workflow.step
    async def b(a: A) -> B:
        return B(x=a.x)

    run = await workflow.run("go")

    assert run.ok
    assert run[B].x == -1
    assert run.degraded == ("a",)
    assert run.steps["a"].ending == "degraded"
    assert isinstance(run.steps["a"].problem, StepFailed)
    assert run.problem is None


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_fallback_function_gets_the_step_s_inputs(kind: str) -> None:
    workflow = Workflow("w")

    def plain(a: A) -> B:
        return B(x=-a.x)

    async def coroutine(a: A) -> B:
        return B(x=-a.x)

    @workflow.step
    async def a() -> A:
        return A(x=7)

    @workflow.step(fallback={"plain": plain, "async": coroutine}[kind])
    async def b(ctx: Context, a: A) -> B:
        raise ConnectionError

    run = await workflow.run("go")

    assert run[B].x == -7
    assert run.degraded == ("b",)


async def test_a_fixed_fallback_was_not_made_from_the_inputs() -> None:
    """Nothing was delivered to it, so delivery is not claimed; a function of the inputs did get them."""

    def from_input(a: A) -> B:
        return B(x=a.x)

    for fallback, state in ((B(x=0), "unchecked"), (from_input, "delivered")):
        workflow = Workflow("w")

        @workflow.step
        async def a() -> A:
            return A(x=7)

        @workflow.step(fallback=fallback)
        async def b(a: A) -> B:
            raise ConnectionError

        run = await workflow.run("go")
        assert [delivery.state for delivery in run.loss.deliveries] == [state]


async def test_a_fallback_that_fails_is_a_failed_step_with_its_own_problem() -> None:
    workflow = Workflow("w")

    def worse() -> A:
        raise KeyError("also gone")

    @workflow.step(fallback=worse)
    async def a() -> A:
        raise ConnectionError

    run = await workflow.run("go")

    assert run.steps["a"].ending == "failed"
    assert "KeyError" in str(run.problem)
    assert run.get(A) is None


async def test_a_fallback_of_another_kind_is_a_violation() -> None:
    workflow = Workflow("w")

    @workflow.step(fallback=B(x=0))
    async def a() -> A:
        raise ConnectionError

    run = await workflow.run("go")

    assert isinstance(run.problem, ContractViolation)
    assert run.get(B) is None


async def test_a_retry_keeps_the_attempt_in_the_log_and_out_of_the_state(clock: Any) -> None:
    """What an attempt returned before it failed is nobody's input."""
    workflow = Workflow("w")
    attempts = 0

    @workflow.step(retries=1)
    async def a() -> A:
        nonlocal attempts
        attempts += 1
        return A(x=attempts) if attempts == 2 else B(x=99)  # type: ignore[return-value]

    run = await workflow.run("go", clock=clock)

    assert run.all(A) == [A(x=2)]
    assert run.all(B) == []


# -- branches and joins ----------------------------------------------------------------------------


@pytest.mark.parametrize("taken", ["a", "b"])
async def test_only_the_branch_that_was_taken_runs(taken: str) -> None:
    """`A | B`: the other branch, and all that hangs on it, is skipped and no failure."""
    workflow = Workflow("w")

    @workflow.step
    async def choose() -> A | B:
        return A(x=1) if taken == "a" else B(x=2)

    @workflow.step
    async def on_a(a: A) -> Part:
        return Part(n=1)

    @workflow.step
    async def on_b(b: B) -> Part:
        return Part(n=2)

    @workflow.step
    async def end(part: Part) -> C:
        return C(x=part.n)

    run = await workflow.run("go")

    assert run.ok
    assert run[C].x == {"a": 1, "b": 2}[taken]
    assert run.steps["on_b" if taken == "a" else "on_a"].ending == "skipped"


async def test_a_skipped_branch_skips_what_needs_it() -> None:
    workflow = Workflow("w", results=[A, C])

    @workflow.step
    async def choose() -> A | B:
        return A(x=1)

    @workflow.step
    async def on_b(b: B) -> Part:
        return Part(n=2)

    @workflow.step
    async def after_b(part: Part) -> C:
        return C(x=1)

    run = await workflow.run("go")

    assert run.ok
    assert [run.steps[name].ending for name in ("choose", "on_b", "after_b")] == ["done", "skipped", "skipped"]


async def test_an_optional_input_may_be_absent() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def choose() -> A | B:
        return A(x=1)

    @workflow.step
    async def join(a: A | None, b: B | None) -> C:
        return C(x=(a.x if a else 0) + (10 if b is None else 0))

    run = await workflow.run("go")

    assert run[C].x == 11


async def test_a_step_may_return_nothing_if_it_says_so() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def maybe() -> A | None:
        return None

    @workflow.step
    async def side() -> None:
        return None

    @workflow.step
    async def needs(a: A) -> B:
        return B(x=1)

    run = await workflow.run("go")

    assert run.ok
    assert run.steps["needs"].ending == "skipped"
    assert run.steps["side"].ending == "done"


async def test_a_list_join_is_in_the_order_of_the_commits(store: Store) -> None:
    """Not of the definitions: the log's order is the only one that all readers share."""
    workflow = Workflow("w")
    turns = [asyncio.Event(), asyncio.Event()]

    @workflow.step
    async def zero() -> Part:
        await turns[0].wait()
        return Part(n=0)

    @workflow.step
    async def one() -> Part:
        await turns[1].wait()
        await asyncio.sleep(0)
        turns[0].set()
        return Part(n=1)

    @workflow.step
    async def two() -> Part:
        await asyncio.sleep(0)
        turns[1].set()
        return Part(n=2)

    @workflow.step
    async def join(parts: list[Part]) -> Sum:
        return Sum(parts=[part.n for part in parts])

    run = await workflow.run("go", store=store)

    assert run[Sum].parts == [part.n for part in run.all(Part)]
    assert sorted(run[Sum].parts) == [0, 1, 2]


async def test_an_empty_join_is_an_empty_list() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def maybe() -> Part | None:
        return None

    @workflow.step
    async def join(parts: list[Part]) -> Sum:
        return Sum(parts=[part.n for part in parts])

    run = await workflow.run("go")

    assert run[Sum].parts == []


# -- outputs ---------------------------------------------------------------------------------------


async def test_all_outputs_of_a_step_are_committed_or_none() -> None:
    """The second of two is wrong: the first is not there either."""
    workflow = Workflow("w", results=[A, B])

    @workflow.step
    async def both() -> tuple[A, B]:
        return A(x=1), B.model_construct(x="one")

    run = await workflow.run("go")

    assert isinstance(run.problem, ContractViolation)
    assert "step 'both' returned an output that breaks contract B 1.0" in str(run.problem)
    assert run.get(A) is None


@pytest.mark.parametrize(
    "output", [None, 7, B(x=1), (A(x=1), B(x=1)), [A(x=1)], {"x": "1"}, {"x": 1, "y": 2}], ids=repr
)
async def test_another_output_than_promised_is_a_violation_and_not_committed(output: Any) -> None:
    workflow = Workflow("w")

    @workflow.step
    async def a() -> A:
        return output  # type: ignore[no-any-return]

    run = await workflow.run("go")

    assert isinstance(run.problem, ContractViolation)
    assert run.all(A) == []


async def test_a_plain_dictionary_that_fits_is_the_contract() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def a() -> A:
        return {"x": 1}  # type: ignore[return-value]

    assert (await workflow.run("go"))[A] == A(x=1)


async def test_a_body_that_is_cancelled_from_outside_cancels_the_run() -> None:
    """Cancelling is not a failure of a step; nothing is left running."""
    workflow = Workflow("w", store=MemoryStore())
    started, ended = asyncio.Event(), asyncio.Event()

    @workflow.step
    async def a() -> A:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            ended.set()
        return A(x=1)

    @workflow.step
    async def b() -> B:
        await asyncio.Event().wait()
        return B(x=1)

    @workflow.step
    async def c(a: A, b: B) -> C:
        return C(x=1)

    task = asyncio.create_task(workflow.run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended.is_set()
    assert len(asyncio.all_tasks()) == 1
