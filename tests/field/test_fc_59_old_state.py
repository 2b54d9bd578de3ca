"""FC-59: old state after a schema change."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from statepact import Contract, Store, Upgrade, open_session
from statepact.contracts import read_old
from statepact.errors import ContractViolation, SetupError, VersionMismatch
from statepact.ledger import SessionKey
from statepact.models import Prompt
from statepact.stores._open_log import OpenLog

OLD = {"version": "v1.2", "sku_id": "KX-210", "qty": 2, "legacy_note": "gift wrap"}


class Stock12(Contract, version="1.2", name="Stock"):
    sku_id: str
    qty: int


class Stock14(
    Contract,
    version="1.4",
    name="Stock",
    upgrades=[Upgrade("1.2", "1.3", renamed={"qty": "available_qty"}), Upgrade("1.3", "1.4")],
):
    sku_id: str
    available_qty: int
    warehouse: str


def nest_sku(old: dict[str, Any]) -> dict[str, Any]:
    return {"sku": {"id": old.pop("sku_id")}, **old}


class Stock20(
    Contract,
    version="2.0",
    name="Stock",
    upgrades=[
        Upgrade("1.2", "1.4", renamed={"qty": "available_qty"}, added={"warehouse": None}),
        Upgrade("1.4", "2.0", change=nest_sku),
    ],
):
    sku: dict[str, str]
    available_qty: int
    warehouse: str | None = None


class Seen(Contract):
    text: str


async def stored_as_12(store: Store) -> None:
    """Let the old code run."""
    async with open_session("s-1", store=store, run="r-1") as session, session.step("count") as step:
        await step.commit(Stock12(sku_id="KX-210", qty=2))


def test_old_value_goes_as_far_as_it_goes() -> None:
    """Renamed, kept, and what is missing is said to be missing: not an empty string, not a crash."""
    old = read_old(Stock14, OLD)

    assert old.version == "1.2"
    assert old.values == {"sku_id": "KX-210", "available_qty": 2}
    assert old.kept == {"legacy_note": "gift wrap"}
    assert old.missing == ("warehouse",)
    with pytest.raises(ContractViolation) as caught:
        _ = old.value
    assert caught.value.missing_fields == ("warehouse",)
    assert OLD == {"version": "v1.2", "sku_id": "KX-210", "qty": 2, "legacy_note": "gift wrap"}


def test_old_value_that_is_complete_is_an_instance() -> None:
    """Several steps are followed, each in its turn."""
    old = read_old(Stock20, OLD)

    assert old.value == Stock20(sku={"id": "KX-210"}, available_qty=2)
    assert old.kept == {"legacy_note": "gift wrap"}


def test_value_without_a_version_is_10_and_that_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One rule, stated: it never depends on what the fields look like."""

    class Note(Contract, version="1.1", upgrades=[Upgrade("1.0", "1.1", added={"lang": "en"})]):
        text: str
        lang: str

    with caplog.at_level(logging.WARNING, logger="statepact"):
        assert read_old(Note, {"text": "gift wrap"}).value == Note(text="gift wrap", lang="en")
    assert "read as 1.0" in caplog.text
    assert "gift wrap" not in caplog.text


def test_version_without_a_way_is_named() -> None:
    """Newer majors, and holes in the chain: both versions are in the message."""
    with pytest.raises(VersionMismatch, match=r"Stock 3\.0 is stored, but the code reads 1\.4"):
        read_old(Stock14, {**OLD, "version": "3.0"})
    with pytest.raises(VersionMismatch, match=r"1\.1 is stored"):
        read_old(Stock14, {**OLD, "version": "1.1"})


def test_upgrade_that_leads_nowhere_is_refused_when_it_is_written() -> None:
    """Backwards, twice from the same, or from what is no version."""
    for upgrades in ([Upgrade("1.4", "1.2")], [Upgrade("1", "2")], [Upgrade("1.0", "1.1"), Upgrade("1.0", "1.2")]):
        with pytest.raises(SetupError):

            class Wrong(Contract, version="1.4", upgrades=upgrades):
                x: int


async def test_running_session_goes_on_under_new_code(store: Store) -> None:
    """A step of the new code reads what the old code has committed, and its bytes stay as they were."""
    await stored_as_12(store)
    before = await store.payloads(SessionKey("local", "s-1"), [2])

    async with open_session("s-1", store=store, run="r-1") as session:
        async with session.step("sell", reads=[Stock20]) as step:
            stock = step[Stock20]
            await step.commit(Seen(text=f"{stock.available_qty} of {stock.sku['id']}"))
        assert await session.get(Stock20) == Stock20(sku={"id": "KX-210"}, available_qty=2)
        seen = await session.get(Seen)

    assert seen is not None
    assert seen.text == "2 of KX-210"
    assert await store.payloads(SessionKey("local", "s-1"), [2]) == before
    log = await OpenLog.open(store, SessionKey("local", "s-1"))
    assert log.log.runs["r-1"].by_contract["Stock"][0].contract.version == "1.2"


async def test_step_that_needs_what_is_missing_does_not_run(store: Store) -> None:
    """The field at fault is named, and the old record is as it was."""
    await stored_as_12(store)
    async with open_session("s-1", store=store, run="r-1") as session:
        with pytest.raises(ContractViolation) as caught:
            async with session.step("sell", reads=[Stock14]) as step:
                step[Stock14]
        assert caught.value.missing_fields == ("warehouse",)
        assert await session.get(Stock12) == Stock12(sku_id="KX-210", qty=2)


async def test_failed_upgrade_leaves_the_old_record_intact(store: Store) -> None:
    """An upgrade that raises is a mismatch without a value in it, and can be mended."""

    class Broken(Contract, version="1.4", name="Stock", upgrades=[Upgrade("1.2", "1.4", change=lambda old: 1 / 0)]):
        sku_id: str

    await stored_as_12(store)
    async with open_session("s-1", store=store, run="r-1") as session:
        with pytest.raises(VersionMismatch, match="ZeroDivisionError") as caught:
            await session.get(Broken)
        assert "KX-210" not in str(caught.value)
        assert await session.get(Stock12) == Stock12(sku_id="KX-210", qty=2)


async def test_model_is_shown_the_value_under_its_new_names(store: Store) -> None:
    """What a step declares is what its model sees."""
    await stored_as_12(store)
    prompts: list[str] = []

    async with open_session("s-1", store=store, run="r-1") as session:
        async with session.step("sell", reads=[Stock20]) as step:
            prompt: Prompt = await step.prompt("How many?")
            prompts.append(prompt.text)
            step.sent(prompt.text)
            await step.commit(Seen(text="two"))
        report = await session.measure()

    assert '"available_qty":2' in prompts[0]
    assert '"qty"' not in prompts[0]
    assert not report.losses
