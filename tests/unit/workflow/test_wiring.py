"""The signature is the wiring: what a step may look like, and what every other signature is told."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Optional, Union

import pytest

from statepact import Context, Contract, Pinned, Request, Workflow
from statepact.contracts import fact_fields
from statepact.errors import SetupError, Unreachable

if TYPE_CHECKING:
    from somewhere import Elsewhere  # type: ignore[import-not-found]


class A(Contract):
    x: int


class B(Contract):
    x: int


class C(Contract):
    x: int


def refused(body: Callable[..., Any], match: str) -> SetupError:
    """Define a step and return the error of its check."""
    workflow = Workflow("w")
    workflow.step(name="odd")(body)
    with pytest.raises(SetupError, match=match) as caught:
        workflow.check()
    return caught.value


# -- annotations that are text ---------------------------------------------------------------------


async def test_a_contract_of_a_test_function_works_with_postponed_annotations() -> None:
    """A class defined before the step, in the function, is found although the annotation is only text."""

    class Local(Contract):
        x: int

    workflow = Workflow("w")

    @workflow.step
    async def make() -> Local:
        return Local(x=7)

    run = await workflow.run("go")

    assert run[Local].x == 7


async def test_a_contract_defined_after_the_step_works_too() -> None:
    """Names are looked up when the workflow is checked, not when the step is decorated."""
    workflow = Workflow("w")

    @workflow.step
    async def make() -> Late:
        return Late(x=7)

    class Late(Contract):
        x: int

    run = await workflow.run("go")

    assert run[Late].x == 7


async def test_a_name_means_what_it_meant_at_the_step() -> None:
    """In a loop the same name is another contract each time; each step keeps its own."""
    workflow = Workflow("w", results=[A, B, C])
    for contract in (A, B, C):

        @workflow.step(name=f"make_{contract.__name__}")
        async def make(ctx: Context) -> contract:
            return {"A": A, "B": B, "C": C}[ctx.step[-1]](x=1)

    run = await workflow.run("go")

    assert run.ok, run.problem
    assert {name: step.wrote for name, step in run.steps.items()} == {
        "make_A": ("A",),
        "make_B": ("B",),
        "make_C": ("C",),
    }


async def test_a_workflow_built_by_a_function_outlives_it() -> None:
    """Its contracts are local names of a function that has returned."""

    def build() -> tuple[Workflow, type[Contract]]:
        class Inner(Contract):
            x: int

        workflow = Workflow("w")

        @workflow.step
        async def make() -> Inner:
            return Inner(x=7)

        return workflow, Inner

    workflow, inner = build()
    run = await workflow.run("go")

    assert run[inner] == inner(x=7)


def test_a_type_imported_for_type_checkers_only_is_an_error_with_both_names() -> None:
    """The step and the name that means nothing at run time."""

    async def read(value: Elsewhere) -> A:
        return A(x=1)

    error = refused(read, r"step 'odd' has an annotation that names nothing: Elsewhere")
    assert "TYPE_CHECKING" in error.hint


def test_an_annotation_that_is_no_type_is_an_error_with_the_step() -> None:
    async def read(value: 7 + 1) -> A:  # type: ignore[valid-type]
        return A(x=1)

    refused(read, "'odd'")


# -- functions that cannot be steps ----------------------------------------------------------------


def test_a_decorator_without_wraps_is_an_error_not_a_step_without_inputs() -> None:
    """The wrapper's own signature says nothing; a silent step with no inputs would be worse."""

    def logged(body: Callable[..., Any]) -> Callable[..., Any]:
        async def inner(*args: Any, **kwargs: Any) -> Any:
            return await body(*args, **kwargs)

        return inner

    @logged
    async def make(a: A) -> B:
        return B(x=a.x)

    refused(make, "'odd'")


async def test_a_decorator_with_wraps_is_looked_through() -> None:
    """Async around async, plain around async, async around plain: the wiring is the inner function's."""
    calls: list[str] = []

    def plain(body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(body)
        def inner(*args: Any, **kwargs: Any) -> Any:
            calls.append("plain")
            return body(*args, **kwargs)

        return inner

    def coroutine(body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(body)
        async def inner(*args: Any, **kwargs: Any) -> Any:
            calls.append("coroutine")
            output = body(*args, **kwargs)
            return await output if hasattr(output, "__await__") else output

        return inner

    workflow = Workflow("w")

    @workflow.step
    @coroutine
    async def a() -> A:
        return A(x=1)

    @workflow.step
    @plain
    async def b(a: A) -> B:
        return B(x=a.x + 1)

    @workflow.step
    @coroutine
    def c(b: B) -> C:
        return C(x=b.x + 1)

    run = await workflow.run("go")

    assert run.ok, run.problem
    assert run[C].x == 3
    assert calls == ["coroutine", "plain", "coroutine"]


@pytest.mark.parametrize("kind", ["partial", "async generator", "generator"])
def test_a_body_with_no_single_result_is_an_error(kind: str) -> None:
    """partial, generator, async generator: each is told what to do instead."""

    async def add(a: A, by: int) -> B:
        return B(x=a.x + by)

    async def stream(a: A) -> AsyncIterator[B]:
        yield B(x=a.x)

    def each(a: A) -> Iterator[B]:
        yield B(x=a.x)

    body, match = {
        "partial": (functools.partial(add, by=1), "functools.partial"),
        "async generator": (stream, "yields"),
        "generator": (each, "yields"),
    }[kind]
    assert refused(body, match).hint


def test_empty_hints_are_an_error() -> None:
    """No annotation at all, only a parameter without one, or only no return type."""

    async def nothing():  # type: ignore[no-untyped-def]
        return A(x=1)

    async def bare(a) -> B:  # type: ignore[no-untyped-def]
        return B(x=1)

    async def no_return(a: A):  # type: ignore[no-untyped-def]
        return B(x=1)

    refused(nothing, r"'odd' does not say what it returns")
    refused(bare, r"parameter 'a' of step 'odd' has no type")
    refused(no_return, r"'odd' does not say what it returns")


@pytest.mark.parametrize("kind", ["args", "kwargs"])
def test_open_parameters_say_nothing_about_what_is_read(kind: str) -> None:
    async def args(*values: A) -> B:
        return B(x=1)

    async def kwargs(**values: A) -> B:
        return B(x=1)

    refused({"args": args, "kwargs": kwargs}[kind], "says nothing about what it reads")


# -- what wires ------------------------------------------------------------------------------------


def test_only_contracts_wire_and_everything_else_is_named() -> None:
    """A str, a dict, `Contract` itself, Any, a union of two contracts, a tuple: an error with parameter and type."""

    async def text(value: str) -> A: ...  # type: ignore[empty-body]
    async def mapping(value: dict[str, A]) -> A: ...  # type: ignore[empty-body]
    async def base(value: Contract) -> A: ...  # type: ignore[empty-body]
    async def anything(value: Any) -> A: ...  # type: ignore[empty-body]
    async def either(value: B | C) -> A: ...  # type: ignore[empty-body]
    async def pair(value: tuple[B, C]) -> A: ...  # type: ignore[empty-body]
    async def texts(value: list[str]) -> A: ...  # type: ignore[empty-body]
    async def bare_list(value: list) -> A: ...  # type: ignore[empty-body, type-arg]
    async def several(value: list[B] | None) -> A: ...  # type: ignore[empty-body]

    for body in (text, mapping, base, anything, either, pair, texts, bare_list, several):
        refused(body, r"parameter 'value' of step 'odd' has type .* which is not a wire")


def test_a_return_type_that_is_no_wire_is_named() -> None:
    async def text() -> str: ...  # type: ignore[empty-body]
    async def listed() -> list[A]: ...  # type: ignore[empty-body]
    async def same_twice() -> tuple[A, A]: ...  # type: ignore[empty-body]
    async def open_tuple() -> tuple[A, ...]: ...  # type: ignore[empty-body]
    async def mixed() -> A | str: ...  # type: ignore[empty-body]
    async def base() -> Contract: ...  # type: ignore[empty-body]

    for body in (text, listed, same_twice, open_tuple, mixed, base):
        refused(body, r"step 'odd' returns .* which is not a wire")


@pytest.mark.parametrize("order", [0, 1])
async def test_a_union_is_the_same_in_either_order(order: int) -> None:
    """`A | B` and `B | A`, spelled old or new, are one branch point."""
    workflow = Workflow("w", results=[C])

    async def first() -> A | B:
        return B(x=1)

    async def second() -> Union[B, A]:  # noqa: UP007
        return B(x=1)

    workflow.step(name="choose")((first, second)[order])

    @workflow.step
    async def on_a(a: A) -> C:
        return C(x=10)

    @workflow.step
    async def on_b(b: B) -> C:
        return C(x=20)

    run = await workflow.run("go")

    assert run.ok
    assert run[C].x == 20
    assert run.steps["on_a"].ending == "skipped"


@pytest.mark.parametrize("hint", [A | None, Optional[A], Union[None, A]], ids=str)  # noqa: UP007, UP045
async def test_optional_inputs_are_optional_in_every_spelling(hint: Any) -> None:
    """`A | None`, `Optional[A]`, `Union[None, A]`."""
    workflow = Workflow("w", results=[B])

    @workflow.step
    async def maybe() -> A | None:
        return None

    async def read(a: Any) -> B:
        return B(x=0 if a is None else a.x)

    read.__annotations__ = {"a": hint, "return": B}
    workflow.step(read)

    assert (await workflow.run("go"))[B].x == 0


async def test_a_tuple_is_several_outputs_in_one_commit() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def both() -> tuple[A, B]:
        return A(x=1), B(x=2)

    @workflow.step
    async def add(a: A, b: B) -> C:
        return C(x=a.x + b.x)

    run = await workflow.run("go")

    assert run[C].x == 3
    assert run.steps["both"].wrote == ("A", "B")


def test_the_same_type_twice_is_an_error_with_both_parameters() -> None:
    """Which of two orders is which cannot be told by the type."""

    async def compare(old: A, new: A) -> B:
        return B(x=1)

    error = refused(compare, r"parameters 'old' and 'new' of step 'odd' read the same contract A")
    assert "list[A]" in error.hint


def test_a_step_that_reads_what_it_writes_has_no_source() -> None:
    """`A -> A`: alone nobody writes it first; beside another writer it waits for itself."""
    alone = Workflow("w")

    @alone.step
    async def refine(a: A) -> A:
        return a

    with pytest.raises(Unreachable, match=r"'refine' reads A, which only itself returns"):
        alone.check()

    beside = Workflow("w")

    @beside.step
    async def make() -> A:
        return A(x=1)

    beside.step(refine)
    with pytest.raises(SetupError, match=r"goes round in a circle: refine"):
        beside.check()


def test_a_circle_names_its_steps() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def b_from_a(a: A) -> B:
        return B(x=1)

    @workflow.step
    async def a_from_b(b: B) -> A:
        return A(x=1)

    with pytest.raises(SetupError, match="circle: b_from_a, a_from_b"):
        workflow.check()


def test_annotated_marks_of_a_contract_are_kept() -> None:
    """`Pinned[...]` is a mark in an annotation; reading hints without extras would lose it."""

    class Wish(Contract):
        demand: Pinned[str]
        maybe: Pinned[str] | None = None
        several: list[Pinned[str]] = []

    workflow = Workflow("w", results=[A])

    @workflow.step
    async def understand() -> Wish:
        return Wish(demand="a lid")

    @workflow.step
    async def unrelated() -> A:
        return A(x=1)

    graph = workflow.check()

    assert [fact.pinned for fact in fact_fields(Wish)] == [True, True, True]
    assert graph.unclaimed == ()


async def test_an_annotated_parameter_is_its_type() -> None:
    """`Annotated[A, ...]` on a parameter: extra words for other tools do not hide the contract, or are refused."""
    workflow = Workflow("w", results=[B])

    @workflow.step
    async def make() -> A:
        return A(x=1)

    async def read(a: Annotated[A, "the first one"]) -> B:
        return B(x=a.x)

    workflow.step(read)
    with pytest.raises(SetupError, match=r"parameter 'a' of step 'read'"):
        workflow.check()


# -- names and rules -------------------------------------------------------------------------------


def test_two_steps_of_one_name_are_an_error_at_the_second() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def make() -> A:
        return A(x=1)

    with pytest.raises(SetupError, match=r"two steps called 'make'"):

        @workflow.step(name="make")
        async def other() -> B:
            return B(x=1)


def test_two_contracts_stored_under_one_name_are_an_error() -> None:
    """Or the second could not be told from the first in the log."""

    def make_other() -> type[Contract]:
        class A(Contract):
            y: int

        return A

    other = make_other()
    workflow = Workflow("w")

    @workflow.step
    async def one() -> A:
        return A(x=1)

    @workflow.step
    async def two() -> other:
        return other(y=1)

    with pytest.raises(SetupError, match=r"stored as 'A'"):
        workflow.check()


def test_a_step_cannot_take_the_name_of_the_request() -> None:
    async def request() -> A:
        return A(x=1)

    with pytest.raises(SetupError, match="request"):
        Workflow("w").step(request)


@pytest.mark.parametrize("rules", [{"timeout": 0}, {"timeout": -1}, {"retries": -1}, {"budget": 0}], ids=str)
def test_rules_that_make_no_sense_are_refused_at_once(rules: dict[str, Any]) -> None:
    async def make() -> A:
        return A(x=1)

    with pytest.raises(SetupError, match="'odd'"):
        Workflow("w").step(name="odd", **rules)(make)


def test_a_workflow_without_steps_is_an_error() -> None:
    with pytest.raises(SetupError, match="'w' has no steps"):
        Workflow("w").check()


def test_a_lambda_cannot_say_what_it_returns() -> None:
    refused(lambda: A(x=1), "does not say what it returns")


async def test_a_step_stays_an_ordinary_function() -> None:
    """It can be called and tested without any workflow."""
    workflow = Workflow("w")

    @workflow.step
    async def double(a: A) -> B:
        return B(x=a.x * 2)

    assert await double(A(x=4)) == B(x=8)


async def test_a_run_is_asked_with_its_contract() -> None:
    """`takes=` replaces words; anything else is refused before anything runs."""
    workflow = Workflow("w", takes=A)

    @workflow.step
    async def double(a: A) -> B:
        return B(x=a.x * 2)

    assert (await workflow.run(A(x=4)))[B].x == 8
    for wrong in ("four", None, B(x=4)):
        with pytest.raises(SetupError, match="A"):
            await workflow.run(wrong)


async def test_words_are_read_with_a_request_parameter() -> None:
    workflow = Workflow("w")

    @workflow.step
    async def count(request: Request) -> A:
        return A(x=len(request.text or ""))

    assert (await workflow.run("four"))[A].x == 4
    assert (await workflow.run())[A].x == 0


async def test_a_contract_of_a_user_may_be_called_request() -> None:
    """Its name does not make it our words: it is shown, measured, and the same on a second call."""

    class Request(Contract):
        order: Pinned[str]

    workflow = Workflow("w", takes=Request)
    seen: list[str] = []

    @workflow.step(retries=0)
    async def read(ctx: Context, request: Request) -> A:
        seen.append(ctx.request)
        if len(seen) == 1:
            raise RuntimeError
        return A(x=1)

    await workflow.run(Request(order="KX-1"), id="r-1")
    run = await workflow.run(Request(order="KX-1"), id="r-1")

    assert seen == ['{"order":"KX-1"}'] * 2
    assert [delivery.fact for delivery in run.loss.deliveries] == ["Request.order"]
