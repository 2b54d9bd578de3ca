"""What comes damaged from a store is refused before a step works with it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from statepact import Contract, SqliteStore, Workflow, open_session
from statepact.errors import CorruptState

CALLS: list[str] = []


class Order(Contract):
    order_id: str
    paid: bool


class Letter(Contract):
    text: str
    other: str = ""


class Done(Contract):
    ok: bool


async def written(path: Path) -> None:
    async with SqliteStore(path) as store, open_session("s-1", store=store, run="r-1") as session:
        async with session.step("order") as step:
            await step.commit(Order(order_id="KX-1", paid=False), Letter(text="short"))
        async with session.step("letter") as step:
            await step.commit(Letter(text="预算有限" * 2_000))


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement, values).rowcount == 1


@pytest.mark.parametrize(
    ("statement", "contract"),
    [
        ("update entry set payload = cast(replace(cast(payload as text), 'false', 'true ') as blob) where revision=2",
         Order),
        ("update entry set payload = cast(replace(cast(payload as text), 'KX-1', 'KX-2') as blob) where revision=2",
         Letter),
        ("update entry set payload = cast(payload || ' ' as blob) where revision=2", Order),
        ("update block set bytes = cast(replace(cast(bytes as text), '预', '顶') as blob)", Letter),
        ("update block set bytes = cast('\"\"' as blob)", Letter),
    ],
    ids=["a value", "the value beside it", "the record", "a large value", "a large value by another"],
)  # fmt: skip
async def test_step_does_not_run_on_damaged_state(tmp_path: Path, statement: str, contract: type[Contract]) -> None:
    """JSON that still reads well is refused, too: the digest decides, not the parser."""
    path = tmp_path / "state.db"
    await written(path)
    change(path, statement)

    async with SqliteStore(path) as store, open_session("s-1", store=store, run="r-1") as session:
        with pytest.raises(CorruptState, match="not what was committed") as caught:
            async with session.step("check", reads=[list[contract]]):  # type: ignore[valid-type]
                CALLS.append("ran")
        with pytest.raises(CorruptState):
            await session.measure()

    assert "statepact verify" in caught.value.hint
    assert "KX" not in str(caught.value)
    assert CALLS == []


async def test_workflow_says_which_revision_is_damaged(tmp_path: Path) -> None:
    """A resumed run ends with the error as its problem, and its step was not called."""
    path, url = tmp_path / "state.db", f"sqlite:///{tmp_path / 'state.db'}"
    workflow = Workflow("orders", results=[Done])
    fail = [True]

    @workflow.step
    async def order() -> Order:
        return Order(order_id="KX-1", paid=False)

    @workflow.step
    async def check(order: Order) -> Done:
        CALLS.append("ran")
        if fail:
            raise ValueError
        return Done(ok=True)

    assert not (await workflow.run("go", store=url, id="r-1")).ok
    CALLS.clear()
    fail.clear()
    change(path, "update entry set payload = cast(replace(cast(payload as text), 'false', 'true ') as blob) "
                 "where cast(payload as text) like '%KX-1%'")  # fmt: skip

    with pytest.raises(CorruptState, match="revision 2"):
        await workflow.resume("r-1", store=url, strict=True)
    assert CALLS == []
