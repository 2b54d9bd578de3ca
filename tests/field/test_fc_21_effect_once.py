"""FC-21: a retry repeats a side effect."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from statepact import Context, Contract, MemoryStore, SqliteStore, Store, Workflow, open_session
from statepact.errors import EffectUnknown, StepIdReused, StoreFull
from statepact.ledger import SessionKey
from statepact.stores import Hold, NewEntry

SOON = 20.0


class Refund(Contract):
    order: str
    amount: str


class Receipt(Contract):
    number: str
    amount: str


class Bank:
    """The outside system: counts what it was made to do."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.keys: set[str] = set()

    async def pay(self, refund: Refund) -> Receipt:
        self.paid.append(refund.amount)
        await asyncio.sleep(0)
        return Receipt(number=f"RF-{len(self.paid)}", amount=refund.amount)


def refunds(bank: Bank, *, dies: bool = False, hangs: bool = False, timeout: float | None = None) -> Workflow:
    workflow = Workflow("refunds", takes=Refund)

    @workflow.step(effect=True, retries=2, timeout=timeout)
    async def refund(ctx: Context, refund: Refund) -> Receipt:
        bank.keys.add(ctx.idempotency_key)
        receipt = await bank.pay(refund)
        if hangs:
            await asyncio.Event().wait()
        if dies:
            raise asyncio.CancelledError
        return receipt

    return workflow


ASKED = Refund(order="KX-5512", amount="59.90")


async def test_retries_get_the_first_receipt(store: Store) -> None:
    """The reply is lost; three retries, two of them at once: one payment, one receipt for all."""
    bank = Bank()

    async def again() -> Receipt:
        return (await refunds(bank).run(ASKED, session="s-1", id="S-4", store=store))[Receipt]

    async with asyncio.timeout(SOON):
        first = await again()
        others = [*await asyncio.gather(again(), again()), await again()]

    assert bank.paid == ["59.90"]
    assert others == [first] * 3


async def test_first_calls_at_once_pay_once(store: Store) -> None:
    """Nobody was first: five start at the same moment."""
    bank = Bank()
    async with asyncio.timeout(SOON):
        runs = await asyncio.gather(*(refunds(bank).run(ASKED, session="s-1", id="S-4", store=store) for _ in range(5)))

    assert bank.paid == ["59.90"]
    assert len({run[Receipt] for run in runs}) == 1


async def test_other_amount_under_the_same_id_is_an_error(store: Store) -> None:
    """A receipt for 59.90 is never passed off as one for 95.90."""
    bank = Bank()
    await refunds(bank).run(ASKED, session="s-1", id="S-4", store=store)

    with pytest.raises(StepIdReused):
        await refunds(bank).run(Refund(order="KX-5512", amount="95.90"), session="s-1", id="S-4", store=store)
    assert bank.paid == ["59.90"]


async def test_crash_between_effect_and_record_is_unknown(store: Store) -> None:
    """Who comes after the crash does not pay again, and does not say that nothing happened."""
    bank = Bank()
    with pytest.raises(asyncio.CancelledError):
        await refunds(bank, dies=True).run(ASKED, session="s-1", id="S-4", store=store)

    run = await refunds(bank).run(ASKED, session="s-1", id="S-4", store=store)

    assert bank.paid == ["59.90"]
    assert isinstance(run.problem, EffectUnknown)
    assert (run.problem.step, run.problem.run) == ("refund", "S-4")


async def test_person_records_what_did_happen(store: Store) -> None:
    """It was paid: the receipt is recorded, with the mark that a person said so."""
    bank = Bank()
    with pytest.raises(asyncio.CancelledError):
        await refunds(bank, dies=True).run(ASKED, session="s-1", id="S-4", store=store)

    receipt = Receipt(number="RF-1", amount="59.90")
    run = await refunds(bank).resume("S-4", session="s-1", store=store, settled={"refund": receipt})

    assert run[Receipt] == receipt
    assert bank.paid == ["59.90"]
    again = await refunds(bank).run(ASKED, session="s-1", id="S-4", store=store)
    assert again[Receipt] == receipt


async def test_person_says_that_it_did_not_happen(store: Store) -> None:
    """It was not paid after all: it is done now, once."""
    bank = Bank()
    with pytest.raises(asyncio.CancelledError):
        await refunds(bank, dies=True).run(ASKED, session="s-1", id="S-4", store=store)
    bank.paid.clear()

    run = await refunds(bank).resume("S-4", session="s-1", store=store, settled={"refund": None})

    assert run[Receipt].amount == "59.90"
    assert bank.paid == ["59.90"]
    assert len(bank.keys) == 1


async def test_timeout_of_an_effect_is_unknown_and_not_retried(store: Store) -> None:
    """A step that was stopped somewhere may have paid: it is not tried again."""
    bank = Bank()
    run = await refunds(bank, hangs=True, timeout=0.05).run(ASKED, session="s-1", id="S-4", store=store)

    assert isinstance(run.problem, EffectUnknown)
    assert bank.paid == ["59.90"]


async def test_effect_that_failed_is_tried_again(store: Store) -> None:
    """A body that raises says itself that nothing came of it."""
    bank = Bank()
    tries: list[int] = []
    workflow = Workflow("refunds", takes=Refund)

    @workflow.step(effect=True)
    async def refund(refund: Refund) -> Receipt:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("refused by the bank")
        return await bank.pay(refund)

    first = await workflow.run(ASKED, session="s-1", id="S-4", store=store)
    assert not first.ok
    assert (await workflow.resume("S-4", session="s-1", store=store))[Receipt].number == "RF-1"


async def test_script_steps_at_once_pay_once(store: Store) -> None:
    """In a script without turns, the second one waits for what the first one does."""
    bank = Bank()
    async with open_session("s-1", store=store, run="S-4", request=ASKED) as session, asyncio.timeout(SOON):

        @session.step("refund", effect=True)
        async def refund(refund: Refund) -> Receipt:
            return await bank.pay(refund)

        receipts = await asyncio.gather(*(refund() for _ in range(3)))

    assert bank.paid == ["59.90"]
    assert len(set(receipts)) == 1


async def test_killed_process_leaves_the_effect_unknown(tmp_path: Path) -> None:
    """The same with a real process that dies after it has paid."""
    path, paid = tmp_path / "state.db", tmp_path / "paid"
    program = f"""
import asyncio, os, signal
from pathlib import Path
from statepact import Contract, Workflow
class Refund(Contract):
    order: str
    amount: str
class Receipt(Contract):
    number: str
    amount: str
workflow = Workflow("refunds", takes=Refund)
@workflow.step(effect=True)
async def refund(refund: Refund) -> Receipt:
    Path({str(paid)!r}).write_text(refund.amount)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(workflow.run(Refund(order="KX-5512", amount="59.90"), session="s-1", id="S-4", store="sqlite:///{path}"))
"""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=env, stderr=subprocess.DEVNULL)
    assert await process.wait() == -9
    assert paid.exists()

    bank = Bank()
    async with SqliteStore(path) as store:
        run = await refunds(bank).run(ASKED, session="s-1", id="S-4", store=store)
    assert isinstance(run.problem, EffectUnknown)
    assert bank.paid == []


class Full(MemoryStore):
    """Has no room for a commit that holds a receipt, as long as it is told so."""

    full = True

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        if self.full and any(b"RF-1" in entry.payload for entry in entries):
            raise StoreFull("no room left")
        await super().append(key, entries, after=after, hold=hold)


async def test_effect_whose_record_found_no_room_is_not_done_again() -> None:
    """It was paid and could not be written down: a person says so, nothing is paid twice."""
    bank, store = Bank(), Full()
    first = await refunds(bank).run(ASKED, session="s-1", id="S-4", store=store)
    assert isinstance(first.problem, StoreFull)

    store.full = False
    second = await refunds(bank).resume("S-4", session="s-1", store=store)
    assert isinstance(second.problem, EffectUnknown)
    receipt = Receipt(number="RF-1", amount="59.90")
    third = await refunds(bank).resume("S-4", session="s-1", store=store, settled={"refund": receipt})

    assert third[Receipt] == receipt
    assert bank.paid == ["59.90"]


async def test_effect_whose_result_breaks_its_contract_is_not_done_again(store: Store) -> None:
    """It was paid, and the body returned something else: neither another attempt nor the fallback may follow."""
    bank = Bank()
    workflow = Workflow("refunds", takes=Refund)

    @workflow.step(effect=True, retries=2, fallback=Receipt(number="none", amount="0"))
    async def refund(refund: Refund) -> Receipt:
        return (await bank.pay(refund)).number  # type: ignore[return-value]

    for run in (
        await workflow.run(ASKED, session="s-1", id="S-4", store=store),
        await workflow.resume("S-4", session="s-1", store=store),
    ):
        assert isinstance(run.problem, EffectUnknown)
    assert bank.paid == ["59.90"]


async def test_effect_that_has_failed_by_itself_is_done_again(store: Store) -> None:
    """A body that raises says that nothing has happened."""
    tried: list[int] = []
    workflow = Workflow("refunds", takes=Refund)

    @workflow.step(effect=True, retries=1)
    async def refund(refund: Refund) -> Receipt:
        tried.append(1)
        if len(tried) < 2:
            raise ConnectionError
        return Receipt(number="RF-1", amount=refund.amount)

    assert (await workflow.run(ASKED, session="s-1", id="S-4", store=store)).ok
    assert len(tried) == 2


@pytest.mark.parametrize("decorated", [False, True])
async def test_effect_of_a_script_whose_record_found_no_room_is_not_done_again(decorated: bool) -> None:
    """The same for a script with steps of its own, as a block and as a function."""
    bank, store = Bank(), Full()
    refund = Refund(order="KX-5512", amount="59.90")

    async def script() -> None:
        async with open_session("s-1", store=store, run="S-4", lease=30) as session:
            opener = session.step("refund", effect=True)
            if decorated:

                @opener
                async def pay() -> Receipt:
                    return await bank.pay(refund)

                await pay()
                return
            async with opener as step:
                await step.commit(await bank.pay(refund))

    with pytest.raises(StoreFull):
        await script()
    store.full = False
    with pytest.raises(EffectUnknown):
        await script()
    assert bank.paid == ["59.90"]
