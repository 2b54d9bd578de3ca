"""FC-79, at rest: with keys no sensitive value is found in a file, an output or a log line."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import traceback
from collections.abc import Awaitable, Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from statepact import Context, Contract, KeyRing, Pinned, Sensitive, SqliteStore, Store, Workflow, open_session, rotate
from statepact.cli._app import app
from statepact.errors import ContractViolation, KeyMissing, StepIdReused
from statepact.ledger import session_key
from statepact.loss import measure
from statepact.models import AnswersModel
from statepact.stores._log_reader import LogReader
from statepact.stores._verify import verify

Reopen = Callable[[], Awaitable[Store]]

CARD, NUMBER, AMOUNT = "4111-1111-canary", 918_273_645_546_372_819, Decimal("70411.93150625")
STREET, TAG, CHINESE = "Kanarienweg 77b", "tag-kanarie-55", "预算有限金丝雀"
LONG = " ".join(f"long-canary-{n}" for n in range(12_000))
HUGE = 10**40 + 987_654_321
CANARIES = [CARD, str(NUMBER), str(AMOUNT), STREET, TAG, CHINESE, LONG[:300], LONG[-300:], str(HUGE)]


class Address(BaseModel):
    street: str
    floor: int = 3


class Customer(Contract):
    name: str
    problem: Pinned[str]
    card: Sensitive[str]
    number: Sensitive[int]
    amount: Sensitive[Decimal]
    address: Sensitive[Address]
    tags: Sensitive[list[str]]
    text: Sensitive[str]
    wish: Sensitive[str]
    huge: Sensitive[int]
    none: Sensitive[str | None] = None
    big: int = HUGE + 1


class Checked(Contract):
    ok: bool


class Reply(Contract):
    text: str


def customer() -> Customer:
    return Customer(
        name="Ann", problem="broken", card=CARD, number=NUMBER, amount=AMOUNT, address=Address(street=STREET),
        tags=[TAG, TAG], text=LONG, wish=CHINESE, huge=HUGE,
    )  # fmt: skip


def forms(canary: str) -> set[bytes]:
    """The forms under which a value may hide in bytes."""
    raw = canary.encode()
    found = {raw, raw[::-1], raw.hex().encode(), json.dumps(canary)[1:-1].encode(), canary.encode("utf-16-le")}
    found |= {json.dumps(canary)[1:-1].encode()[::-1], canary[::-1].encode(), raw.hex().upper().encode()}
    for shift in range(3):
        # In base64 a value has one of three forms, as it stands in its group of three; without its edges.
        found.add(base64.b64encode(b"x" * shift + raw)[4 : -4 or None])
        found.add(base64.urlsafe_b64encode(b"x" * shift + raw)[4 : -4 or None])
    return {form for form in found if len(form) > 6}


def assert_clean(*texts: str | bytes) -> None:
    for text in texts:
        data = text.encode() if isinstance(text, str) else text
        for canary in CANARIES:
            for form in forms(canary):
                assert form not in data, f"{canary[:30]!r} was found"


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    for record in caplog.records:
        assert_clean(record.getMessage(), repr(record.__dict__))


@pytest.fixture
def ring() -> KeyRing:
    return KeyRing({"2026-11": os.urandom(32)})


def desk() -> Workflow:
    workflow = Workflow("desk", results=[Reply])

    @workflow.step
    async def understand() -> Customer:
        return customer()

    @workflow.step
    async def check(customer: Customer) -> Checked:
        return Checked(ok=customer == globals()["customer"]())

    @workflow.step
    async def answer(ctx: Context, checked: Checked) -> Reply:
        return await ctx.ask(Reply, "Answer.")

    return workflow


def broken() -> Workflow:
    workflow = Workflow("broken", results=[Reply, Checked])

    @workflow.step
    async def understand() -> Customer:
        return customer()

    @workflow.step(retries=1)
    async def fails(customer: Customer) -> Reply:
        raise RuntimeError(f"no money on {customer.card}")

    @workflow.step
    async def violates(customer: Customer) -> Checked:
        return {"ok": customer.card, customer.text: 1}  # type: ignore[return-value]

    return workflow


async def test_fc_79_no_canary_is_found_anywhere(
    tmp_path: Path, ring: KeyRing, caplog: pytest.LogCaptureFixture
) -> None:
    """File and WAL, reports, pages, JSON, errors, reprs, with and without the key: not one hit."""
    path = tmp_path / "state.db"
    store = SqliteStore(path)
    model = AnswersModel([{"text": "Done, 已处理."}])
    run = await desk().run("go", ask=model, store=store, session="s-1", keys=ring)
    worse = await broken().run("go", store=store, session="s-2", keys=ring)

    assert run.ok, run.problem
    assert run[Checked].ok
    assert run[Customer] == customer()
    assert not worse.ok
    shown = [repr(run[Customer]), str(run[Customer]), repr(run), str(run.loss), json.dumps(run.loss.as_dict())]
    shown += [repr(worse), str(worse.loss), json.dumps(worse.loss.as_dict(), ensure_ascii=False), model.prompts[0].text]
    for step in worse.steps.values():
        if step.problem is not None:
            shown += [repr(step), str(step.problem), json.dumps(step.problem.as_dict(), default=repr)]
    verdict = await verify(store, session_key("local", "s-1"), keys=ring)
    assert verdict.ok, verdict
    assert_clean(*shown, str(verdict), json.dumps(verdict.as_dict()))
    wal = tmp_path / "state.db-wal"
    assert wal.stat().st_size > 200_000  # the values are still in it
    assert_clean(wal.read_bytes(), path.read_bytes())
    await store.aclose()
    assert_clean(path.read_bytes())


def test_fc_79_no_canary_is_shown_by_a_command(tmp_path: Path) -> None:
    """`show` and `verify`, as text, JSON and page, with and without the key file."""
    path, keys, page = tmp_path / "state.db", tmp_path / "keys.json", tmp_path / "page.html"
    keys.write_text(json.dumps({"keys": {"k1": base64.b64encode(os.urandom(32)).decode()}}))
    url = f"sqlite:///{path}"
    desk().run_sync("go", ask=AnswersModel([{"text": "ok"}]), store=url, session="s-1", keys=KeyRing.from_file(keys))

    for command in (["show", "s-1"], ["show", "s-1", "--html", str(page)], ["verify", "s-1"]):
        for more in ([], ["--json"], ["--keys", str(keys)], ["--keys", str(keys), "--json"]):
            result = CliRunner().invoke(app, [*command, "--store", url, *more])
            assert result.exit_code == 0, result.output
            assert_clean(result.output)
            if "show" in command and "--json" not in more:
                assert "•••" in result.output
                assert ("locked" in result.output) == (more == [])
            if page.exists():
                assert_clean(page.read_bytes())
                assert "•••" in page.read_text()


async def test_fc_79_without_keys_values_are_plain_and_it_says_so(tmp_path: Path) -> None:
    """Nobody is left to believe that something is encrypted which is not."""
    async with SqliteStore(tmp_path / "state.db") as store:
        run = await desk().run("go", ask=AnswersModel([{"text": "ok"}]), store=store, session="s-1")

        assert "plain text" in run.at_rest
        verdict = await verify(store, session_key("local", "s-1"))
        assert (verdict.plain_values, verdict.sealed_values) == (9, 0)
        assert "9 sensitive values stored in plain text" in str(verdict)


# -- reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["none", "another id", "another key"])
async def test_fc_79_a_reader_without_the_key_is_told_which_one_it_needs(
    stores: Reopen, ring: KeyRing, other: str
) -> None:
    """A step that declares the contract does not run on a mask; who only looks still sees the rest."""
    theirs = {
        "none": None,
        "another id": KeyRing({"2025-01": os.urandom(32)}),
        "another key": KeyRing({"2026-11": os.urandom(32)}),
    }[other]
    opener = open_session("s-1", store=await stores(), keys=ring, run="r-1")
    async with opener as session, session.step("understand") as step:
        await step.commit(customer())

    async with open_session("s-1", store=await stores(), keys=theirs, run="r-1") as session:
        with pytest.raises(KeyMissing, match="2026-11") as caught:
            async with session.step("check", reads=[Customer]):
                pass
        with pytest.raises(KeyMissing):
            await session.get(Customer)
        # A step that does not declare it gets the pinned fact of the same value.
        async with session.step("other") as step:
            prompt = await step.prompt("Answer.")
            await step.commit(Reply(text="broken"))
        loss = await session.measure()

    assert "broken" in prompt.text
    assert "Customer.card" in loss.locked
    assert not loss.is_complete
    assert_clean(prompt.text, str(loss), str(caught.value), "".join(traceback.format_exception(caught.value)))


async def test_fc_79_the_same_step_again_is_the_same_step(stores: Reopen, ring: KeyRing) -> None:
    """Ciphertext is new each time, and yet a request is the same request and a step the same step."""
    workflow = Workflow("again", takes=Customer, results=[Checked])
    calls = []

    @workflow.step
    async def check(customer: Customer) -> Checked:
        calls.append(customer.card)
        return Checked(ok=True)

    for _ in range(2):
        run = await workflow.run(customer(), store=await stores(), id="r-1", keys=ring)
        assert run.ok, run.problem
    assert calls == [CARD]
    other = customer().model_copy(update={"card": "another"})
    with pytest.raises(StepIdReused):
        await workflow.run(other, store=await stores(), id="r-1", keys=ring)
    with pytest.raises(KeyMissing):
        await workflow.run(customer(), store=await stores(), id="r-1")
    assert (await workflow.resume("r-1", store=await stores())).ok


async def test_fc_79_a_retried_step_gets_its_result_after_a_rotation(stores: Reopen, ring: KeyRing) -> None:
    """Digests cover the value's id: a new key is no other input."""
    old = os.urandom(32)
    first = KeyRing({"old": old})
    both = KeyRing({"old": old, "new": os.urandom(32)}, current="new")
    store = await stores()
    run = await desk().run("go", ask=AnswersModel([{"text": "ok"}]), store=store, id="r-1", keys=first)
    head = (await verify(store, session_key("local", "r-1"), keys=first)).head

    done = await rotate(store, both)

    assert (done.changed, done.kept) == (9, 0)
    verdict = await verify(store, session_key("local", "r-1"), keys=both)
    assert verdict.ok, verdict
    assert verdict.head == head
    again = await desk().run("go", store=store, id="r-1", keys=both)
    assert again.ok
    assert again[Customer] == run[Customer]
    assert await rotate(store, both) == type(done)(0, 9)
    # The old key opens nothing any more.
    assert not (await verify(store, session_key("local", "r-1"), keys=first)).ok


async def test_fc_79_a_rotation_goes_on_beside_commits(stores: Reopen) -> None:
    """Runs that commit meanwhile lose nothing, and a second rotation finds what they wrote with the old key."""
    old = os.urandom(32)
    first = KeyRing({"old": old})
    both = KeyRing({"old": old, "new": os.urandom(32)}, current="new")
    store = await stores()

    async def write(session_run: str) -> None:
        async with open_session("s-1", store=store, keys=first, run=session_run) as session:
            for n in range(10):
                async with session.step("understand", branch=str(n)) as step:
                    await step.commit(customer())

    await write("r-0")
    done = (await asyncio.gather(rotate(store, both, session="s-1"), write("r-1")))[0]
    more = await rotate(store, both, session="s-1")

    assert done.changed >= 90
    assert done.changed + more.changed + done.kept + more.kept >= 180
    verdict = await verify(store, session_key("local", "s-1"), keys=both)
    assert verdict.ok
    assert verdict.sealed_values == 180
    assert (await rotate(store, both, session="s-1")).kept == 180


async def test_fc_79_what_a_script_returns_is_checked_and_masked(ring: KeyRing) -> None:
    """A violation of a contract with sensitive fields shows neither values nor keys of dicts."""
    workflow = Workflow("bad", results=[Customer])

    @workflow.step
    async def understand() -> Customer:
        return {**customer().model_dump(), "number": CARD, "extra": LONG}  # type: ignore[return-value]

    run = await workflow.run("go", keys=ring)

    assert isinstance(run.problem, ContractViolation)
    assert_clean(str(run.problem), repr(run), str(run.loss))


async def test_fc_79_loss_is_the_same_with_the_key(stores: Reopen, ring: KeyRing) -> None:
    """Who holds the key measures what was measured when the run ended."""
    store = await stores()
    run = await desk().run("go", ask=AnswersModel([{"text": "ok"}]), store=store, id="r-1", keys=ring)

    reader = LogReader(store, session_key("local", "r-1"), keys=ring)
    await reader.read_on()
    assert measure(await reader.view("r-1")) == run.loss
    assert run.loss.locked == ()
