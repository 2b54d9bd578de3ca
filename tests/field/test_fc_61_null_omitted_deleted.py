"""FC-61: explicit null, omitted field and deletion are three things."""

from __future__ import annotations

import pytest

from statepact import Contract, Shared, Store, Workflow, open_session
from statepact.errors import Deleted, MissingInput


class Basket(Contract):
    coupon: str | None = None
    phone: str | None = None
    note: str | None = None


class Customer(Contract):
    name: str
    phone: str


class Done(Contract):
    text: str = "ok"


async def change(store: Store, name: str, *, run: str = "r-1", **how: object) -> None:
    """One step that changes the basket and does nothing else."""
    async with open_session("s-1", run=run, store=store) as session, session.step(name) as step:
        basket = await step.shared(Basket)
        basket.set(**how.get("set", {}))  # type: ignore[arg-type]
        basket.delete(*how.get("delete", ()))  # type: ignore[misc]
        await step.commit()


async def now(store: Store) -> dict[str, object]:
    async with open_session("s-1", run="r-1", store=store) as session:
        basket = await session.shared(Basket)
        assert basket is not None
        return basket.model_dump(exclude_unset=True)


async def test_fc_61_omitted_keeps_null_clears_and_delete_removes(store: Store) -> None:
    """{} changes nothing, null is a value, a deleted field is gone: each alone, one after another."""
    await change(store, "start", set={"coupon": "X1", "phone": "555", "note": "n"})
    await change(store, "nothing")
    assert await now(store) == {"coupon": "X1", "phone": "555", "note": "n"}

    await change(store, "clear", set={"coupon": None})
    assert await now(store) == {"coupon": None, "phone": "555", "note": "n"}

    await change(store, "forget", delete=["phone"])
    assert await now(store) == {"coupon": None, "note": "n"}

    await change(store, "inner", run="r-1/inner", delete=["note"])
    assert await now(store) == {"coupon": None}


async def test_fc_61_a_removal_inside_a_sub_flow_reaches_the_parent(store: Store) -> None:
    """A workflow as a step of another: what it deletes is gone for the steps after it."""
    inner = Workflow("inner", takes=Done, results=[Customer])

    @inner.step
    async def forget(done: Done, basket: Shared[Basket]) -> Customer:
        basket.delete("note")
        return Customer(name="Ana", phone="")

    outer = Workflow("outer", results=[Done])
    seen: list[dict[str, object]] = []

    @outer.step
    async def fill(basket: Shared[Basket]) -> Done:
        basket.set(coupon=None, note="n")
        return Done()

    outer.step(inner)

    @outer.step(name="look")
    async def look(customer: Customer, basket: Shared[Basket]) -> None:
        seen.append(basket.value.model_dump(exclude_unset=True))

    run = await outer.run("go", store=store)

    assert run.ok, run.problem
    assert seen == [{"coupon": None}]
    shared = run.shared(Basket)
    assert shared is not None
    assert shared.model_fields_set == {"coupon"}


async def test_fc_61_deleted_on_purpose_is_no_loss_and_the_ledger_says_deleted(store: Store) -> None:
    """The meter counts a deletion as one: the fact was born, delivered, deleted."""
    workflow = Workflow("w", results=[Done])

    @workflow.step
    async def fill(basket: Shared[Basket]) -> Customer:
        basket.set(coupon="X1", phone="555")
        return Customer(name="Ana", phone="555")

    @workflow.step
    async def forget(customer: Customer, basket: Shared[Basket]) -> Done:
        assert basket.fields.phone == "555"
        basket.delete("phone")
        return Done()

    @workflow.step
    async def after(done: Done, basket: Shared[Basket]) -> None:
        assert not basket.has("phone")
        assert basket.fields.coupon == "X1"

    run = await workflow.run("go", store=store)

    assert run.ok, run.problem
    assert not run.loss.losses
    rows = {row.fact: row.cells for row in run.loss.ledger.rows}
    assert rows["Basket.phone"] == ("born", "deleted", "deleted")
    assert rows["Basket.coupon"] == ("born", "delivered", "delivered")
    assert not [one for one in run.loss.deliveries if one.fact == "Basket.phone" and one.reader == "after"]


async def test_fc_61_texts_that_look_like_null_are_flagged_and_kept(store: Store) -> None:
    """ "null", "N/A" and "" stay the texts they are, and the report names their fields."""
    async with open_session("s-1", store=store) as session:
        async with session.step("write") as step:
            (await step.shared(Basket)).set(coupon="null", phone="N/A", note="")
            await step.commit()
        assert await session.shared(Basket) == Basket(coupon="null", phone="N/A", note="")
        loss = await session.measure()

    assert set(loss.suspicious) == {"Basket.coupon", "Basket.phone", "Basket.note"}


async def test_fc_61_a_required_field_that_was_never_set_and_one_that_was_deleted_are_two_answers(store: Store) -> None:
    """Nobody gets a value that is made up: the error says which of the two it is, and who deleted it."""
    async with open_session("s-1", store=store) as session:
        assert await session.shared(Customer) is None
        async with session.step("name") as step:
            customer = await step.shared(Customer)
            customer.set(name="Ana")
            with pytest.raises(MissingInput, match="phone"):
                _ = customer.value
            await step.commit()
        async with session.step("phone") as step:
            (await step.shared(Customer)).set(phone="555")
            await step.commit()
        assert await session.shared(Customer) == Customer(name="Ana", phone="555")
        async with session.step("forget") as step:
            (await step.shared(Customer)).delete("phone")
            await step.commit()
        with pytest.raises(Deleted, match="'forget'"):
            await session.shared(Customer)


async def test_fc_61_an_output_read_back_tells_set_from_omitted(store: Store) -> None:
    """Not only shared values: what a step returns keeps which fields it has set, null included."""
    async with open_session("s-1", run="r-1", store=store) as session, session.step("write") as step:
        await step.commit(Basket(coupon=None))

    async with open_session("s-1", run="r-1", store=store) as session:
        basket = await session.get(Basket)

    assert basket is not None
    assert basket.model_dump(exclude_unset=True) == {"coupon": None}
