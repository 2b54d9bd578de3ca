"""Erased is erased: for readers, in the file, and for whoever guesses. The log still verifies."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statepact import (
    Context,
    Contract,
    MemoryStore,
    Pinned,
    Request,
    Shared,
    SqliteStore,
    Store,
    Workflow,
    erase,
    open_session,
    verify,
)
from statepact.errors import Deleted, SetupError, UnknownSession
from statepact.ledger import SessionKey
from statepact.ledger._blocks import take_apart
from statepact.ledger._digest import leaf_digest, salted_digest
from statepact.ledger._erased import decode_leaves
from statepact.ledger._header import Reached, Read
from statepact.stores._base import Entity, Rewrite
from statepact.stores._draft import Document, Draft
from statepact.stores._open_log import OpenLog

OWNER = "acme"
KEY = SessionKey(OWNER, "s-1")
LOG_KEY = b"a key that is kept elsewhere"
CANARY = "canary-5551234-金丝雀"


class Customer(Contract, version="1.0"):
    name: str
    phone: str
    note: str = ""


class Greeting(Contract, version="1.0"):
    text: str


class Count(Contract, version="1.0"):
    letters: int


class Reply(Contract, version="1.0"):
    text: str


def flow(store: Store, *, log_key: bytes | None = None) -> Workflow:
    """understand → (greet → reply), count reads the customer too."""
    made = Workflow("flow", store=store, log_key=log_key, results=[Reply, Count])

    @made.step
    def understand(request: Request) -> Customer:
        return Customer(name="Mara", phone=CANARY, note="likes tea")

    @made.step
    def greet(customer: Customer) -> Greeting:
        return Greeting(text=f"Hello {customer.name}, {customer.phone}")

    @made.step
    def reply(greeting: Greeting) -> Reply:
        return Reply(text=greeting.text.upper())

    @made.step
    def count(customer: Customer) -> Count:
        return Count(letters=len(customer.phone))

    return made


async def whole_text(store: Store, key: SessionKey = KEY) -> bytes:
    """Everything that a store hands out about a session."""
    headers = await store.headers(key)
    payloads = await store.payloads(key, [one.revision for one in headers])
    from statepact.ledger._blocks import addresses_in

    found = [*(one.header for one in headers), *payloads.values()]
    blocks: dict[bytes, bytes] = {}
    for one in payloads.values():
        if not one.startswith(b"\x00"):
            continue
        for leaf in decode_leaves(one):
            blocks.update(await store.blocks(key, addresses_in(leaf.stored or b"").values()))
    return b"\n".join([*found, *blocks.values()])


# -- what goes, and what stays -------------------------------------------------------------------------


async def test_a_fact_goes_with_everything_made_from_it(store: Store) -> None:
    """The field of its document, and what later steps have committed after they were given it."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")

    done = await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked to")

    assert (done.values, done.derived, done.sessions, done.scrubbed) == (4, 3, ("s-1",), True)
    assert done.remains == ()
    assert CANARY.encode() not in await whole_text(store)
    async with open_session("s-1", owner=OWNER, store=store, run="r-1") as session:
        for contract in (Customer, Greeting, Reply, Count):
            with pytest.raises(Deleted, match="erased"):
                await session.get(contract)
            assert await session.all(contract) == []
    text = await whole_text(store)
    assert b"Mara" in text, "what nobody asked to erase is still there"


async def test_a_field_with_a_default_reads_as_its_default(store: Store) -> None:
    """The contract says that it may be absent, so the rest can be read."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    await erase(store, owner=OWNER, session="s-1", fact="Customer.note", by="dpo", reason="asked to", keep_derived=True)

    async with open_session("s-1", owner=OWNER, store=store, run="r-1") as session:
        customer = await session.get(Customer)
    assert customer is not None
    assert (customer.name, customer.phone, customer.note) == ("Mara", CANARY, "")


async def test_derived_values_can_be_kept_and_the_log_says_so(store: Store) -> None:
    """Somebody decides that, by name."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    done = await erase(
        store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked to", keep_derived=True
    )

    assert (done.values, done.derived, done.kept) == (1, 0, 3)
    assert [place.partition(": ")[2] for place in done.remains] == ["Greeting"]
    log = await OpenLog.open(store, KEY)
    record = await log.record(log.log.entries[-1])
    assert (record["by"], record["reason"], record["what"], record["kept"]) == ("dpo", "asked to", "Customer.phone", 3)


async def test_a_step_that_did_not_get_the_field_is_not_derived(store: Store) -> None:
    """The header says field by field what reached a model."""
    log = await OpenLog.open(store, KEY)
    await log.append(document("Customer 1.0|name,phone", b'{"name":"Mara","phone":"%s"}' % CANARY.encode()))
    for step, mask in (("without", 0b01), ("with", 0b10)):
        await log.append(
            document("Note 1.0|text", b'{"text":"t"}', step=step, reads=(Read(1, 0, Reached.PARTLY, mask),))
        )
    done = await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")

    assert done.derived == 1
    again = await OpenLog.open(store, KEY)
    assert [bool(entry.cells[0].erased) for entry in again.log.entries[:3]] == [True, False, True]


def document(contract: str, stored: bytes, *, step: str = "s", reads: tuple[Read, ...] = (), run: str = "r") -> Draft:
    return Draft(
        at=1, run=run, step=step, documents=[Document(contract, take_apart(OWNER, stored))], reads=reads,
        input_digest=b"i" * 16,
    )  # fmt: skip


async def test_one_revision_can_be_named(store: Store) -> None:
    """Where a fact stands several times, one of them."""
    log = await OpenLog.open(store, KEY)
    for number in range(3):
        await log.append(document("Note 1.0|text", b'{"text":"number %d"}' % number, step=str(number)))
    await erase(store, owner=OWNER, session="s-1", fact="Note.text@2", by="dpo", reason="asked")

    again = await OpenLog.open(store, KEY)
    assert [bool(entry.cells[0].erased) for entry in again.log.entries[:3]] == [False, True, False]


async def test_the_request_goes_with_what_models_were_asked(store: Store) -> None:
    """It is shown to every model of the run, declared or not."""
    made = Workflow("asks", store=store)

    @made.step
    async def answer(ctx: Context) -> Reply:
        return await ctx.ask(Reply, "Answer.")

    async def model(prompt: str) -> str:
        return '{"text":"you said something"}'

    await made.run(CANARY, ask=model, owner=OWNER, session="s-1", id="r-1")
    done = await erase(store, owner=OWNER, session="s-1", fact="Request.text", by="dpo", reason="asked")

    assert done.derived == 1
    with pytest.raises(Deleted, match="Request"):
        await made.resume("r-1", ask=model, owner=OWNER, session="s-1")


async def test_a_resumed_run_is_blocked_by_what_is_gone(store: Store) -> None:
    """A step that requires it does not run on less; a step that has committed needs it no more."""
    broken = True
    made = Workflow("flow", store=store)

    @made.step
    def understand(request: Request) -> Customer:
        return Customer(name="Mara", phone=CANARY)

    @made.step
    def greet(customer: Customer) -> Greeting:
        if broken:
            raise RuntimeError
        return Greeting(text=customer.phone)

    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")
    broken = False
    run = await made.resume("r-1", owner=OWNER, session="s-1")

    assert run.steps["understand"].ending == "stored"
    assert run.steps["greet"].ending == "blocked"
    assert isinstance(run.problem, Deleted)
    assert CANARY not in str(run.problem)


async def test_a_finished_run_is_still_finished(store: Store) -> None:
    """Nothing runs again because of an erasure, and nothing comes back."""
    made = flow(store)
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked", keep_derived=True)

    run = await made.resume("r-1", owner=OWNER, session="s-1")
    assert {step.ending for step in run.steps.values()} == {"stored"}
    assert run[Reply].text
    with pytest.raises(Deleted):
        run[Customer]


async def test_deleted_is_no_loss(store: Store) -> None:
    """The report says deleted, in its ledger too, and finds nothing missing."""
    made = Workflow("flow", store=store)

    class Complaint(Contract, version="1.0"):
        problem: Pinned[str]

    @made.step
    def understand(request: Request) -> Complaint:
        return Complaint(problem=CANARY)

    @made.step
    def answer(complaint: Complaint) -> Reply:
        return Reply(text=complaint.problem)

    run = await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    assert run.loss.losses == ()
    await erase(store, owner=OWNER, session="s-1", fact="Reply", by="dpo", reason="asked")
    report = (await made.resume("r-1", owner=OWNER, session="s-1")).loss

    assert report.losses == ()
    assert report.deleted == ("Reply.text",)
    assert "deleted (on purpose, so no loss): Reply.text" in str(report)
    row = next(row for row in report.ledger.rows if row.fact == "Reply.text")
    assert (row.value, row.cells) == ("deleted", ("not yet known", "deleted"))


async def test_a_shared_value_is_gone_with_its_changes(store: Store) -> None:
    """The fold over what is left, and `Deleted` for a required field."""
    made = Workflow("flow", store=store)

    class Profile(Contract, version="1.0"):
        phone: str
        city: str = ""

    @made.step
    def learn(request: Request, profile: Shared[Profile]) -> Reply:
        profile.set(phone=CANARY, city="Kiel")
        return Reply(text="ok")

    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    await erase(store, owner=OWNER, session="s-1", fact="Profile.phone", by="dpo", reason="asked")

    assert CANARY.encode() not in await whole_text(store)
    async with open_session("s-1", owner=OWNER, store=store) as session:
        with pytest.raises(Deleted, match="phone"):
            await session.shared(Profile)


async def test_a_part_of_a_workflow_is_followed(store: Store) -> None:
    """What goes in as a copy and comes out as a copy goes on both sides."""
    inner = Workflow("inner", takes=Customer)

    @inner.step
    def shout(customer: Customer) -> Greeting:
        return Greeting(text=customer.phone)

    outer = Workflow("outer", store=store)

    @outer.step
    def understand(request: Request) -> Customer:
        return Customer(name="Mara", phone=CANARY)

    outer.step(inner, name="part")

    @outer.step
    def reply(greeting: Greeting) -> Reply:
        return Reply(text=greeting.text)

    run = await outer.run("hi", owner=OWNER, session="s-1", id="r-1")
    assert run[Reply].text == CANARY
    done = await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")
    assert CANARY.encode() not in await whole_text(store)
    assert done.remains == ()

    await outer.run("hi", owner=OWNER, session="s-2", id="r-1")
    await erase(store, owner=OWNER, session="s-2", fact="Greeting", by="dpo", reason="asked")
    text = await whole_text(store, SessionKey(OWNER, "s-2"))
    assert text.count(CANARY.encode()) == 2, "the customer, and the copy with which the part was asked"


async def test_reasons_of_models_go_with_the_values(store: Store) -> None:
    """What stands beside a value in a model's words may hold it."""
    made = Workflow("flow", store=store)

    @made.step
    def decide(ctx: Context) -> Reply:
        ctx.because(f"somebody wrote {CANARY}")
        return Reply(text="yes")

    assert (await made.run("hi", owner=OWNER, session="s-1", id="r-1")).ok
    assert CANARY.encode() in await whole_text(store)
    await erase(store, owner=OWNER, session="s-1", fact="Reply.text", by="dpo", reason="asked")

    assert CANARY.encode() not in await whole_text(store)
    assert (await verify(store, KEY)).ok


# -- sessions and owners -------------------------------------------------------------------------------


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_a_session_and_an_owner(store: Store, log_key: bytes | None) -> None:
    """Every value of theirs; of nobody else."""
    made = flow(store, log_key=log_key)
    for session in ("s-1", "s-2", "s-3"):
        await made.run(f"hello there {session}", owner=OWNER, session=session, id="r")
    await made.run("hi", owner="umbrella", session="s-1", id="r")
    anchors = {name: (await verify(store, SessionKey(OWNER, name), log_key=log_key)).anchor for name in ("s-1", "s-2")}

    await erase(store, owner=OWNER, session="s-1", by="dpo", reason="asked", log_key=log_key)
    assert CANARY.encode() in await whole_text(store, SessionKey(OWNER, "s-2"))
    done = await erase(store, owner=OWNER, by="dpo", reason="left", log_key=log_key)

    assert done.sessions == ("s-2", "s-3"), "what is gone is not erased again"
    for name, anchor in anchors.items():
        assert CANARY.encode() not in await whole_text(store, SessionKey(OWNER, name))
        assert b"hello there" not in await whole_text(store, SessionKey(OWNER, name))
        verdict = await verify(store, SessionKey(OWNER, name), log_key=log_key, anchor=anchor)
        assert verdict.ok, verdict
        assert verdict.erased == 7
        assert "7 values were erased" in str(verdict)
    assert CANARY.encode() in await whole_text(store, SessionKey("umbrella", "s-1"))
    assert [info.session for info in await store.sessions(OWNER)] == ["s-1", "s-2", "s-3"]


async def test_deleted_differs_from_never_existed(store: Store) -> None:
    """A session that is gone says so; one that never was is unknown."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    await erase(store, owner=OWNER, session="s-1", by="dpo", reason="asked")

    async with open_session("s-1", owner=OWNER, store=store, run="r-2") as session:
        with pytest.raises(Deleted):
            await session.get(Customer, run="r-1")
        assert await session.get(Customer, run="never") is None
    with pytest.raises(UnknownSession):
        await erase(store, owner=OWNER, session="never", by="dpo", reason="asked")


async def test_entities_are_forgotten_with_their_values(store: Store) -> None:
    """Of a fact those that it names, of a session all of them."""
    log = await OpenLog.open(store, KEY)
    draft = document("Order 1.0|order_id,city", b'{"city":"Kiel","order_id":"KX-2041"}')
    draft.entities = (Entity("order", "kx2041"), Entity("city", "Kiel"))
    await log.append(draft)

    await erase(store, owner=OWNER, session="s-1", fact="Order.order_id", by="dpo", reason="asked")
    assert [use.value for use in await store.entities(OWNER)] == ["Kiel"]
    await erase(store, owner=OWNER, session="s-1", by="dpo", reason="asked")
    assert list(await store.entities(OWNER)) == []


async def test_large_values_go_unless_another_value_needs_them(store: Store) -> None:
    """A block belongs to all cells that name it."""
    log = await OpenLog.open(store, KEY)
    text = b"x" * 5000
    for step in ("one", "two"):
        await log.append(document("Page 1.0|text,title", b'{"text":"%s","title":"t"}' % text, step=step))
    address = take_apart(OWNER, b'{"text":"%s","title":"t"}' % text).blocks[0][0]

    done = await erase(store, owner=OWNER, session="s-1", fact="Page.text@1", by="dpo", reason="asked")
    assert done.remains == ("revision 2: Page",)
    assert await store.blocks(KEY, [address])
    await erase(store, owner=OWNER, session="s-1", fact="Page.text@2", by="dpo", reason="asked")
    assert not await store.blocks(KEY, [address])
    assert (await verify(store, KEY)).ok


# -- against others at work ----------------------------------------------------------------------------


async def test_what_was_made_meanwhile_does_not_bring_it_back(store: Store) -> None:
    """A worker that had read the value before the erasure commits after it: refused."""
    made = Workflow("flow", store=store)

    @made.step
    def understand(request: Request) -> Customer:
        return Customer(name="Mara", phone=CANARY)

    @made.step
    async def greet(customer: Customer) -> Greeting:
        await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")
        return Greeting(text=customer.phone)

    run = await made.run("hi", owner=OWNER, session="s-1", id="r-1")

    assert isinstance(run.problem, Deleted)
    assert CANARY.encode() not in await whole_text(store)
    assert (await verify(store, KEY)).ok


async def test_pinned_facts_that_were_rendered_before_are_not_shown_again(store: Store) -> None:
    """What a run keeps in memory for its later steps goes, too."""
    made = Workflow("flow", store=store, results=[Greeting, Count])
    prompts: list[str] = []
    greeted = asyncio.Event()

    class Complaint(Contract, version="1.0"):
        problem: Pinned[str]

    async def model(prompt: object) -> str:
        prompts.append(str(prompt))
        return '{"text":"ok"}'

    @made.step
    def understand(request: Request) -> Complaint:
        return Complaint(problem=CANARY)

    @made.step
    async def first(ctx: Context, complaint: Complaint) -> Greeting:
        greeting = await ctx.ask(Greeting, "Greet.")
        greeted.set()
        return greeting

    @made.step
    async def second(request: Request) -> Reply:
        await greeted.wait()
        await erase(store, owner=OWNER, session="s-1", fact="Complaint", by="dpo", reason="asked")
        return Reply(text="ok")

    @made.step
    async def third(ctx: Context, reply: Reply) -> Count:
        await ctx.ask(Greeting, "Count.")
        return Count(letters=1)

    run = await made.run("hi", ask=model, owner=OWNER, session="s-1", id="r-1")
    assert CANARY in prompts[0]
    assert len(prompts) == 2, run.problem
    assert all(CANARY not in prompt for prompt in prompts[1:])
    assert CANARY.encode() not in await whole_text(store)


# -- what is left says nothing -------------------------------------------------------------------------


async def test_no_digest_of_an_erased_value_can_be_guessed(store: Store) -> None:
    """Whoever has the file and knows the value by all but its last digit cannot confirm a guess."""
    log = await OpenLog.open(store, KEY)
    stored = b'{"phone":"5551234"}'
    entry = await log.append(document("Customer 1.0|phone", stored))
    digest = leaf_digest(entry.header.salt, 0, stored)
    salt = entry.header.salt
    await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")

    text = await whole_text(store)
    assert digest in text, "the place of the entry in the log stays proven"
    for start in range(len(text) - 15):
        piece = text[start : start + 16]
        assert piece != salt
        assert leaf_digest(piece, 0, stored) != digest
        assert salted_digest(piece, 0, stored) != digest


@pytest.mark.parametrize("what", ["fact", "session", "owner"])
@pytest.mark.parametrize("durability", ["power", "process"])
async def test_no_byte_is_left_in_the_file(tmp_path: Path, what: str, durability: str) -> None:
    """Not in pages that were freed or split, not in the write-ahead log."""
    file = tmp_path / "state.db"
    large = CANARY * 400
    async with SqliteStore(file, durability=durability) as store, SqliteStore(file) as other:  # type: ignore[arg-type]
        made = flow(store)
        for number in range(40):  # pages split, rows move, and the canary with them
            await made.run(f"hi {number}", owner=OWNER, session=f"s-{number % 4}", id=f"r-{number}")
        log = await OpenLog.open(store, SessionKey(OWNER, "s-1"))
        await log.append(
            document("Page 1.0|phone,text", b'{"phone":"%s","text":"%s"}' % (CANARY.encode(), large.encode()))
        )
        await other.sessions(OWNER)
        assert b"canary" in everything(file)
        if what == "owner":
            await erase(store, owner=OWNER, by="dpo", reason="asked")
        else:
            for number in range(4):
                pages = ("Page",) if number == 1 else ()
                facts = ("Customer.phone", *pages) if what == "fact" else (None,)
                for fact in facts:
                    done = await erase(store, owner=OWNER, session=f"s-{number}", fact=fact, by="dpo", reason="asked")
                    assert done.scrubbed
        assert b"canary" not in everything(file), "while it is open"
    assert b"canary" not in everything(file)
    assert "金丝雀".encode() not in everything(file)


def everything(file: Path) -> bytes:
    return b"".join(one.read_bytes() for one in file.parent.iterdir())


async def test_a_reader_of_an_old_state_is_reported(tmp_path: Path) -> None:
    """The old pages cannot go while somebody reads them; afterwards they can."""
    file = tmp_path / "state.db"
    async with SqliteStore(file, durability="process", lock_timeout=0.1) as store:
        await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
        with closing(sqlite3.connect(file, isolation_level=None)) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from entry").fetchall()
            done = await erase(store, owner=OWNER, session="s-1", by="dpo", reason="asked")
            assert not done.scrubbed
            assert done.values
        assert await store.scrub()
        assert b"canary" not in everything(file)


# -- the log afterwards --------------------------------------------------------------------------------


async def erased_entries(store: Store, *facts: str, log_key: bytes | None = LOG_KEY) -> None:
    await flow(store, log_key=log_key).run("hi", owner=OWNER, session="s-1", id="r-1")
    for fact in facts:
        await erase(store, owner=OWNER, session="s-1", fact=fact, by="dpo", reason="asked", log_key=log_key)


async def test_all_grades_pass_and_the_rest_can_be_read() -> None:
    """Before and after the same anchor; tags stay."""
    store = MemoryStore()
    await erased_entries(store)
    before = await verify(store, KEY, log_key=LOG_KEY)
    await erase(store, owner=OWNER, session="s-1", fact="Greeting", by="dpo", reason="asked", log_key=LOG_KEY)

    after = await verify(store, KEY, log_key=LOG_KEY, anchor=before.anchor)
    assert after.ok, after
    assert (after.size, after.checked, after.erased) == (before.size + 1, before.size + 1, 2)


async def test_erased_without_record_is_a_fault() -> None:
    """Whoever removes values must say so in the log, and with a key only its holder can."""
    store = MemoryStore()
    await erased_entries(store, "Reply.text")
    entries = [(one.revision, one.header) for one in await store.headers(KEY)]
    payloads = dict(await store.payloads(KEY, range(1, len(entries) + 1)))
    await store.rewrite(KEY, Rewrite(replace={len(entries): (b"", b"")}), after=len(entries))

    from statepact.ledger._verify import verify_entries

    cut = [(revision, header, payloads[revision]) for revision, header in entries[:-1]]
    found = verify_entries(cut, owner=OWNER).faults
    assert len(found) == 1
    assert "nothing in the log says that it should be" in found[0].what


async def test_what_comes_back_from_a_backup_is_a_fault() -> None:
    """The old row has the right digest, and should not be there."""
    store = MemoryStore()
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    headers = {one.revision: one.header for one in await store.headers(KEY)}
    payloads = dict(await store.payloads(KEY, headers))
    await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")
    after = len(await store.headers(KEY))
    await store.rewrite(KEY, Rewrite(replace={2: (headers[2], payloads[2])}), after=after)

    verdict = await verify(store, KEY)
    assert [(fault.revision, "is there again" in fault.what) for fault in verdict.faults] == [(2, True)]


async def test_changed_rest_of_a_redacted_document_is_a_fault() -> None:
    """What is left is covered by a digest that the erasure has committed."""
    store = MemoryStore()
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked", keep_derived=True)
    headers = {one.revision: one.header for one in await store.headers(KEY)}
    payload = dict(await store.payloads(KEY, [2]))[2]
    await store.rewrite(KEY, Rewrite(replace={2: (headers[2], payload.replace(b"Mara", b"Lara"))}), after=len(headers))

    assert [fault.revision for fault in (await verify(store, KEY)).faults] == [2]


# -- at random -----------------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_erased_at_random_the_log_verifies_and_exactly_that_is_gone(data: st.DataObject) -> None:
    """Values with names of their own, steps that read some of them: what goes is what was asked and what followed."""
    store = MemoryStore()
    log = await OpenLog.open(store, KEY, log_key=LOG_KEY)
    count = data.draw(st.integers(1, 8))
    sources: list[list[int]] = []
    for number in range(count):
        read = sorted(data.draw(st.sets(st.integers(0, number - 1), max_size=2))) if number else []
        sources.append(read)
        stored = b'{"a":"value-a-%d.","b":"value-b-%d."}' % (number, number)
        reads = tuple(Read(one + 1, 0, Reached.SENT) for one in read)
        await log.append(document(f"C{number} 1.0|a,b", stored, step=str(number), reads=reads))
    expected: set[tuple[int, str]] = set()
    for _ in range(data.draw(st.integers(1, 3))):
        number, name = data.draw(st.integers(0, count - 1)), data.draw(st.sampled_from(["a", "b", ""]))
        names = set(name or "ab")
        fact = f"C{number}.{name}" if name else f"C{number}"
        await erase(store, owner=OWNER, session="s-1", fact=fact, by="dpo", reason="asked", log_key=LOG_KEY)
        expected |= {(number, one) for one in names}
        touched = {number}
        for later in range(number + 1, count):
            if touched & set(sources[later]):
                touched.add(later)
                expected |= {(later, "a"), (later, "b")}

    verdict = await verify(store, KEY, log_key=LOG_KEY)
    assert verdict.ok, verdict
    assert verdict.erased == len(expected)
    text = await whole_text(store)
    for number in range(count):
        for name in "ab":
            assert (b"value-%s-%d." % (name.encode(), number) in text) is ((number, name) not in expected)


# -- how it is asked -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fact", ["", "@3", "Order.", "Order@x", "Order@0", "Order.phone@", ".phone"])
async def test_what_names_no_fact_is_refused(fact: str) -> None:
    """Nothing is erased by a typing error."""
    with pytest.raises(SetupError):
        await erase(MemoryStore(), owner=OWNER, session="s-1", fact=fact, by="dpo", reason="asked")


@pytest.mark.parametrize(
    "asked", [{"by": "", "reason": "r"}, {"by": "b", "reason": ""}, {"by": "b", "reason": "r", "fact": "Order@7"}]
)
async def test_an_erasure_needs_who_why_and_where(asked: dict[str, str]) -> None:
    """Who asks must be known for ever."""
    with pytest.raises(SetupError):
        await erase(MemoryStore(), owner=OWNER, **asked)  # type: ignore[arg-type]
