"""A step says how long a cache keeps its session."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from statepact import Contract, MemoryStore, Request, Workflow, open_session
from statepact.errors import SetupError
from statepact.ledger import SessionKey
from statepact.stores import Hold, NewEntry


class Said(Contract):
    text: str


class Noting(MemoryStore):
    """Remembers how long it was asked to keep what."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[float | None] = []

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        self.kept += [entry.keep for entry in entries]
        await super().append(key, entries, after=after, hold=hold)


async def test_priority_of_a_step_is_a_lifetime() -> None:
    """300 s and a minute for each point; 0 is "until deleted"; what states none counts as 1."""
    store, workflow = Noting(), Workflow("priorities")

    @workflow.step(priority=3)
    async def important(request: Request) -> Said:
        return Said(text="kept")

    await workflow.run("x", store=store)
    async with open_session("s-1", store=store) as session, session.step("batch", priority=0) as step:
        await step.commit(Said(text="kept"))

    assert store.kept == [360.0, 480.0, 360.0, 360.0, None, 360.0]


def test_negative_priority_is_refused() -> None:
    """When the step is defined, not when somebody waits."""
    with pytest.raises(SetupError, match="priority"):
        Workflow("wrong").step(priority=-1)(lambda: None)
