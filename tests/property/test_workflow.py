"""Any workflow: what is declared and known adds up, and measuring changes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import create_model

from statepact import Context, Contract, LossReport, MemoryStore, Pinned, Run, Workflow, open_session
from statepact.models import Prompt, Reply


@dataclass(frozen=True)
class Team:
    """A random graph: step i writes contract i, reads some of those before, asks a model or not."""

    fields: tuple[tuple[bool, ...], ...]
    """For each contract its fields; true is pinned."""
    reads: tuple[frozenset[int], ...]
    asks: tuple[bool, ...]


@st.composite
def teams(draw: st.DrawFn) -> Team:
    size = draw(st.integers(1, 6))
    fields = tuple(tuple(draw(st.lists(st.booleans(), min_size=1, max_size=4))) for _ in range(size))
    reads = tuple(
        frozenset(draw(st.sets(st.integers(0, number - 1), max_size=number))) if number else frozenset()
        for number in range(size)
    )
    return Team(fields, reads, tuple(draw(st.lists(st.booleans(), min_size=size, max_size=size))))


@cache
def contract_of(number: int, pinned: tuple[bool, ...]) -> type[Contract]:
    fields: dict[str, Any] = {
        f"f{index}": (Pinned[str] if is_pinned else str, ...) for index, is_pinned in enumerate(pinned)
    }
    return create_model(f"C{number}", __base__=Contract, **fields)


def value_of(contract: type[Contract], number: int) -> Contract:
    return contract(**{name: f"value {number} of {name}" for name in contract.model_fields})


def build(team: Team) -> tuple[Workflow, list[type[Contract]]]:
    contracts = [contract_of(number, pinned) for number, pinned in enumerate(team.fields)]
    workflow = Workflow("any", results=contracts)
    for number, contract in enumerate(contracts):

        def add(number: int, contract: type[Contract]) -> None:
            async def body(ctx: Context, **inputs: Contract) -> Contract:
                if team.asks[number]:
                    return await ctx.ask(contract, "Go.")
                return value_of(contract, number)

            inputs = [f"c{read}" for read in sorted(team.reads[number])]
            scope = {"body": body}
            arguments = ", ".join(["ctx", *inputs])
            passed = ", ".join(["ctx", *(f"{name}={name}" for name in inputs)])
            exec(f"async def step({arguments}):\n    return await body({passed})", scope)  # a signature by numbers
            step = scope["step"]
            step.__annotations__ = {
                "ctx": Context,
                **{f"c{read}": contracts[read] for read in team.reads[number]},
                "return": contract,
            }
            workflow.step(name=f"s{number}")(step)

        add(number, contract)
    return workflow, contracts


def model_of(team: Team, contracts: list[type[Contract]], *, keep: float = 1) -> Callable[[Prompt], Awaitable[Reply]]:
    async def model(prompt: Prompt) -> Reply:
        number = int(prompt.schema_name[1:])
        text = value_of(contracts[number], number).model_dump_json()
        return Reply(text=text, sent=prompt.text[len(prompt.text) - int(len(prompt.text) * keep) :])

    return model


def run_of(team: Team, *, keep: float = 1, store: MemoryStore | None = None) -> Run:
    workflow, contracts = build(team)
    model = model_of(team, contracts, keep=keep)
    run = asyncio.run(workflow.run("go", ask=model, id="r-1", session="s-1", store=store or MemoryStore()))
    assert run.ok, run.problem
    return run


def declared(team: Team) -> Counter[tuple[str, str]]:
    """Return the (fact, reader) pairs that the signatures alone promise."""
    return Counter(
        (f"C{read}.f{index}", f"s{number}")
        for number, reads in enumerate(team.reads)
        for read in reads
        for index in range(len(team.fields[read]))
    )


@given(teams())
def test_every_declared_fact_is_delivered_and_counted_once(team: Team) -> None:
    """Deliveries are exactly the declared pairs, and pinned facts that came along undeclared."""
    loss = run_of(team).loss

    found = Counter((one.fact, one.reader) for one in loss.deliveries)
    assert max(found.values(), default=1) == 1
    assert not declared(team) - found
    for fact, reader in found - declared(team):
        number, index = int(fact[1 : fact.index(".")]), int(fact.rpartition("f")[2])
        assert team.fields[number][index], f"{fact} is not pinned"
        assert team.asks[int(reader[1:])], f"{reader} shows no prompt"
    assert {one.state for one in loss.deliveries} <= {"delivered"}
    assert loss.delivered == loss.checked_deliveries == len(loss.deliveries)
    assert loss.checked_handoffs == loss.handoffs


@given(teams(), st.floats(0, 1))
def test_delivered_and_lost_add_up_whatever_the_client_cuts(team: Team, keep: float) -> None:
    """Only steps that ask a model can lose, and every lost pair is one loss with its reader."""
    loss = run_of(team, keep=keep).loss

    states = Counter(one.state for one in loss.deliveries)
    assert states["delivered"] + states["lost"] == len(loss.deliveries)
    lost = Counter((one.fact, one.reader) for one in loss.deliveries if one.state == "lost")
    assert all(team.asks[int(reader[1:])] for _, reader in lost)
    assert Counter((one.fact, one.step) for one in loss.losses if one.form in ("time", "role")) == lost
    whole = run_of(team).loss
    assert [(one.fact, one.reader) for one in whole.deliveries] == [(one.fact, one.reader) for one in loss.deliveries]


@given(teams())
def test_measuring_twice_and_elsewhere_gives_the_same_report(team: Team) -> None:
    """The run's own report, a resumed run's, and another session object's on the same log."""
    store = MemoryStore()
    run = run_of(team, store=store)
    workflow, _ = build(team)

    async def again() -> tuple[LossReport, LossReport, LossReport]:
        resumed = await workflow.resume("r-1", session="s-1", store=store)
        assert {step.ending for step in resumed.steps.values()} == {"stored"}
        async with open_session("s-1", store=store) as session:
            return resumed.loss, await session.measure("r-1"), await session.measure("r-1")

    assert set(map(str, asyncio.run(again()))) == {str(run.loss)}
    first, second, third = asyncio.run(again())
    assert run.loss == first == second == third
    assert run.loss.as_dict() == third.as_dict()


@given(teams())
def test_every_fact_has_a_row_and_every_step_a_column(team: Team) -> None:
    """The ledger is complete: born once, before that not yet known."""
    ledger = run_of(team).loss.ledger

    assert sorted(ledger.steps) == sorted(f"s{number}" for number in range(len(team.fields)))
    assert {row.fact for row in ledger.rows} == {
        f"C{number}.f{index}" for number, pinned in enumerate(team.fields) for index in range(len(pinned))
    }
    for row in ledger.rows:
        born = row.cells.index("born")
        assert row.cells.count("born") == 1
        assert set(row.cells[:born]) <= {"not yet known"}
        assert "not yet known" not in row.cells[born:]
