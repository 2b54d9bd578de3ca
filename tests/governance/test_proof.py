"""One fact can be proven to somebody who has a head of the log and nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from _cut import cut
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from statepact import (
    Contract,
    KeyRing,
    MemoryStore,
    Request,
    Sensitive,
    SqliteStore,
    Store,
    Workflow,
    check_proof,
    erase,
    fork,
    prove,
    verify,
)
from statepact.cli._app import app
from statepact.errors import Deleted, Expired, ProofRefused, SensitiveInClear, UnknownFact, UnknownRevision
from statepact.ledger import SessionKey, SessionLog
from statepact.ledger._blocks import take_apart
from statepact.ledger._digest import entry_digest, leaf_path, merkle_root, root_from
from statepact.ledger._header import Kind
from statepact.ledger._mountain import Mountain
from statepact.ledger._tree import Tree, added_spans, climbed, peak_over, spans_of
from statepact.stores import check_consistency, prove_consistency
from statepact.stores._draft import Document, Draft
from statepact.stores._open_log import OpenLog

OWNER = "acme"
KEY = SessionKey(OWNER, "s-1")
LOG_KEY = b"a key that is kept elsewhere"
CANARY = "canary-5551234"


class Order(Contract, version="1.0"):
    order_id: str
    status: str = "open"


class Customer(Contract, version="1.0"):
    name: str
    phone: Sensitive[str]


class Page(Contract, version="1.0"):
    text: str
    title: str


def shop(store: Store, *, log_key: bytes | None = None, keys: KeyRing | None = None) -> Workflow:
    """Three steps, the second with two outputs of which one is large."""
    made = Workflow("shop", store=store, log_key=log_key, keys=keys, results=[Order, Customer, Page])

    @made.step
    def look_up(request: Request) -> Order:
        return Order(order_id="KX-2041", status="shipped 发货")

    @made.step
    def read(order: Order) -> Page:
        return Page(text="x" * 5000, title=CANARY)

    @made.step
    def who(order: Order) -> Customer:
        return Customer(name="Mara", phone=CANARY)

    return made


async def head(store: Store, key: SessionKey = KEY) -> str:
    return (await verify(store, key)).anchor


# -- a value stands in a log ---------------------------------------------------------------------------


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_a_fact_is_proven_with_nothing_but_a_head(store: Store, log_key: bytes | None) -> None:
    """The proof shows the value that was asked for, and nothing else of the session."""
    made = shop(store, log_key=log_key)
    for run in ("r-1", "r-2"):
        await made.run("hi", owner=OWNER, session="s-1", id=run)
    proof = await prove(store, "s-1", "Order.status@2", owner=OWNER)
    proven = check_proof(proof, head=await head(store))

    assert (proven.revision, proven.values) == (2, {"order_id": "KX-2041", "status": "shipped 发货"})
    assert proven.at > 0
    assert CANARY.encode() not in proof
    assert len(proof) < 2_000, "a small document"


async def test_the_newest_is_meant_unless_a_revision_is_named(store: Store) -> None:
    """Of a fact that was written several times."""
    made = shop(store)
    for run in ("r-1", "r-2"):
        await made.run("hi", owner=OWNER, session="s-1", id=run)
    first, newest = [
        check_proof(await prove(store, "s-1", fact, owner=OWNER), head=await head(store))
        for fact in ("Order@2", "Order")
    ]
    assert (first.revision, newest.revision > 5) == (2, True)


async def test_a_large_value_is_proven(store: Store) -> None:
    """It stands beside the document, under its digest."""
    await shop(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    proof = await prove(store, "s-1", "Page.text", owner=OWNER)

    assert check_proof(proof, head=await head(store)).values == {"text": "x" * 5000, "title": CANARY}
    changed = json.loads(proof)
    changed["large"]["text"] = json.dumps("y" * 5000)
    with pytest.raises(ProofRefused, match="large"):
        check_proof(json.dumps(changed, separators=(",", ":"), sort_keys=True).encode(), head=await head(store))


async def test_a_proof_is_for_a_head_that_somebody_keeps(store: Store) -> None:
    """An older one, if the value was there; of another log, never."""
    made = shop(store)
    await made.run("hi", owner=OWNER, session="s-1", id="r-1")
    kept = await head(store)
    await made.run("ho", owner=OWNER, session="s-1", id="r-2")
    await made.run("ho", owner=OWNER, session="s-2", id="r-2")

    assert check_proof(await prove(store, "s-1", "Order", owner=OWNER, head=kept), head=kept).revision == 2
    newest = await prove(store, "s-1", "Order@2", owner=OWNER)
    with pytest.raises(ProofRefused):
        check_proof(newest, head=kept)
    with pytest.raises(ProofRefused, match="not one of this session"):
        await prove(store, "s-2", "Order", owner=OWNER, head=kept)
    with pytest.raises(UnknownRevision):
        await prove(store, "s-1", "Order", owner=OWNER, head=f"99:{'0' * 64}")


async def test_what_is_erased_beside_it_does_not_matter(store: Store) -> None:
    """A value of the same commit may be gone, or another field of the same value, which the log then says."""
    log = await OpenLog.open(store, KEY)
    cells = [
        Document("Order 1.0|order_id,status", take_apart(OWNER, b'{"order_id":"KX-1","status":"open"}')),
        Document("Note 1.0|text", take_apart(OWNER, b'{"text":"%s"}' % CANARY.encode())),
        Document("Page 1.0|text,title", take_apart(OWNER, b'{"text":"one","title":"two"}')),
    ]
    await log.append(Draft(at=1, run="r", step="s", documents=cells, input_digest=b"i" * 16, extra=b'{"reason":"x"}'))
    before = await prove(store, "s-1", "Page", owner=OWNER)
    old = await head(store)
    await erase(store, owner=OWNER, session="s-1", fact="Note", by="dpo", reason="asked")
    proof = await prove(store, "s-1", "Order.status", owner=OWNER)

    assert check_proof(proof, head=await head(store)).values == {"order_id": "KX-1", "status": "open"}
    assert CANARY.encode() not in proof
    await erase(store, owner=OWNER, session="s-1", fact="Page.text", by="dpo", reason="asked")
    proof = await prove(store, "s-1", "Page.title", owner=OWNER)
    proven = check_proof(proof, head=await head(store))
    assert (proven.values, proven.redacted) == ({"title": "two"}, True)
    assert check_proof(before, head=old).values == {"text": "one", "title": "two"}, "who has it, has it"
    with pytest.raises(Deleted, match="after this head"):
        await prove(store, "s-1", "Page.title", owner=OWNER, head=old)
    for fact in ("Note", "Note.text", "Page.text"):
        with pytest.raises(Deleted):
            await prove(store, "s-1", fact, owner=OWNER)
    changed = json.loads(proof)
    changed["value"]["stored"] = '{"title":"new"}'
    with pytest.raises(ProofRefused, match="erasure"):
        check_proof(json.dumps(changed, separators=(",", ":"), sort_keys=True).encode(), head=await head(store))


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_a_log_whose_beginning_was_removed_still_proves_the_rest(store: Store, log_key: bytes | None) -> None:
    """The base has kept the peaks, and no other nodes are needed."""
    made = shop(store, log_key=log_key)
    for run in range(4):
        await made.run("hi", owner=OWNER, session="s-1", id=f"r-{run}")
    kept = await head(store)
    for size in (1, 6, 11):
        await cut(store, KEY, size, log_key=log_key)
        proof = await prove(store, "s-1", "Order", owner=OWNER, head=kept)
        assert check_proof(proof, head=kept).values["order_id"] == "KX-2041"
    with pytest.raises(Expired):
        await prove(store, "s-1", "Order@2", owner=OWNER)


async def test_a_fork_proves_what_its_session_proves(store: Store) -> None:
    """Up to the fork both have one head."""
    await shop(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    kept = await head(store)
    done = await fork(store, "s-1", "s-2", owner=OWNER)

    assert f"{done.revision}:{done.head}" == kept
    one, two = [await prove(store, name, "Order", owner=OWNER, head=kept) for name in ("s-1", "s-2")]
    assert one == two


async def test_sensitive_values_are_not_given_away_by_accident(store: Store) -> None:
    """In plain text they take a word; encrypted, only their id is in the value."""
    await shop(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    await shop(store, keys=KeyRing({"k": b"k" * 32})).run("hi", owner=OWNER, session="s-2", id="r-1")

    with pytest.raises(SensitiveInClear, match=r"Customer\.phone"):
        await prove(store, "s-1", "Customer.name", owner=OWNER)
    proof = await prove(store, "s-1", "Customer.name", owner=OWNER, clear=True)
    assert check_proof(proof, head=await head(store)).values == {"name": "Mara", "phone": CANARY}
    sealed = await prove(store, "s-2", "Customer.name", owner=OWNER)
    proven = check_proof(sealed, head=await head(store, SessionKey(OWNER, "s-2")))
    assert (proven.values, proven.sealed) == ({"name": "Mara"}, ("phone",))
    with pytest.raises(UnknownFact, match="encrypted"):
        await prove(store, "s-2", "Customer.phone", owner=OWNER)


async def test_what_is_not_there_is_not_proven(store: Store) -> None:
    """Another contract, another field, another revision, a default that nobody has set, a refused commit."""
    log = await OpenLog.open(store, KEY)
    order = Document("Order 1.0|order_id,status", take_apart(OWNER, b'{"order_id":"KX-1","status":"open"}'), omitted=2)
    await log.append(Draft(at=1, run="r", step="s", documents=[order], input_digest=b"i" * 16))
    await log.append(Draft(kind=Kind.REFUSAL, at=1, run="r", step="t", documents=[order], input_digest=b"i" * 16))

    assert check_proof(await prove(store, "s-1", "Order", owner=OWNER), head=await head(store)).revision == 1
    for fact in ("Never", "Order.never", "Order@2", "Order@3", "Order.status"):
        with pytest.raises(UnknownFact):
            await prove(store, "s-1", fact, owner=OWNER)


# -- one log is the beginning of another ---------------------------------------------------------------


async def test_a_log_has_only_grown(store: Store) -> None:
    """From any head that was kept to any later one; of a log that was changed, never."""
    made = shop(store)
    heads = []
    for run in range(3):
        await made.run("hi", owner=OWNER, session="s-1", id=f"r-{run}")
        heads.append(await head(store))
    await made.run("hi", owner=OWNER, session="s-2", id="r-0")
    for number, old in enumerate(heads):
        for later in heads[number:]:
            proof = await prove_consistency(store, "s-1", old, owner=OWNER, head=later)
            check_consistency(proof, old=old, head=later)
            assert len(proof) < 1_500
    proof = await prove_consistency(store, "s-1", heads[0], owner=OWNER)
    check_consistency(proof, old=heads[0], head=heads[2])
    with pytest.raises(ProofRefused):
        check_consistency(proof, old=heads[1], head=heads[2])
    with pytest.raises(ProofRefused):
        await prove_consistency(store, "s-2", heads[0], owner=OWNER)
    with pytest.raises(ProofRefused):
        await prove_consistency(store, "s-1", heads[2], owner=OWNER, head=heads[0])


# -- whatever is changed is noticed --------------------------------------------------------------------


def a_log() -> tuple[bytes, bytes, bytes, str, str]:
    """Return proofs of a value, of a redacted one and of two heads, and the two heads."""

    async def made() -> tuple[bytes, bytes, bytes, str, str]:
        store = MemoryStore()
        workflow = shop(store)
        await workflow.run("hi", owner=OWNER, session="s-1", id="r-1")
        old = await head(store)
        await workflow.run("ho", owner=OWNER, session="s-1", id="r-2")
        await erase(
            store, owner=OWNER, session="s-1", fact="Order.status@2", by="dpo", reason="asked", keep_derived=True
        )
        return (
            await prove(store, "s-1", "Page", owner=OWNER),
            await prove(store, "s-1", "Order.order_id@2", owner=OWNER),
            await prove_consistency(store, "s-1", old, owner=OWNER),
            old,
            await head(store),
        )

    return asyncio.run(made())


VALUE, REDACTED, GROWN, OLD, NEW = a_log()


def refuses(proof: bytes) -> bool:
    try:
        if b"consistency" in proof[:2_000] and b'"old"' in proof:
            check_consistency(proof, old=OLD, head=NEW)
        else:
            check_proof(proof, head=NEW)
    except ProofRefused:
        return True
    return False


@pytest.mark.parametrize("proof", [REDACTED, GROWN], ids=["value", "heads"])
def test_every_byte_counts(proof: bytes) -> None:
    """Each byte of a proof, changed in any one bit, makes it worthless."""
    assert not refuses(proof)
    for place in range(len(proof)):
        for bit in range(8):
            changed = proof[:place] + bytes([proof[place] ^ 1 << bit]) + proof[place + 1 :]
            assert refuses(changed), (place, bit)


@given(st.integers(0, len(VALUE) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_any_change_of_a_proof_is_refused(place: int, put: bytes, gone: int) -> None:
    """Bytes exchanged, put in and left out."""
    changed = VALUE[:place] + put + VALUE[place + gone :]
    if changed.removesuffix(b"\n") != VALUE:
        assert refuses(changed)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["format", "size", "peaks", "value", "old", "new", "added", "large", "owner"]), inner
)), st.sampled_from(["statepact proof 1", "statepact consistency 1"]))  # fmt: skip
def test_what_is_no_proof_is_refused(plain: object, form: str) -> None:
    """Whatever somebody sends: one error, and nothing else."""
    for sent in (plain, {**plain, "format": form} if isinstance(plain, dict) else plain):
        assert refuses(json.dumps(sent).encode())
    assert refuses(b"[" * 100_000)


@given(st.sampled_from(["size", "revision", "leaf", "leaves"]), st.integers(-(2**63), 2**64))
def test_numbers_that_fit_nothing_are_refused(name: str, number: int) -> None:
    """Negative, huge, and those of another place."""
    changed = json.loads(VALUE)
    place = changed if name == "size" else changed["value"]
    if place[name] != number:
        place[name] = number
        assert refuses(json.dumps(changed, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode())


def test_kinds_of_nodes_never_pass_for_each_other() -> None:
    """A peak, a node inside an entry, an entry and a head over the same two digests all differ."""
    one, two = b"1" * 32, b"2" * 32
    peak = Mountain([one, two])
    found = {peak.peaks[0], peak.root(), merkle_root([one, two]), entry_digest(b"", [one, two]), merkle_root([one])}
    assert len(found) == 5


# -- the trees -----------------------------------------------------------------------------------------


@given(st.integers(1, 70), st.data())
def test_paths_lead_to_the_root_of_an_entry(count: int, data: st.DataObject) -> None:
    """From each leaf, and with no other leaf, place or number."""
    leaves = [bytes([number]) * 32 for number in range(count)]
    index = data.draw(st.integers(0, count - 1))
    path = leaf_path(leaves, index)

    assert root_from(leaves[index], index, count, path) == merkle_root(leaves)
    assert root_from(b"x" * 32, index, count, path) != merkle_root(leaves)
    assert root_from(leaves[index], index, count, [*path, b"x" * 32]) is None


@given(st.integers(1, 200), st.data())
def test_paths_lead_to_the_peaks_of_a_log(size: int, data: st.DataObject) -> None:
    """From each entry at each size; and from each size to each later one."""
    digests = [number.to_bytes(32, "big") for number in range(size)]
    tree = Tree(SessionLog(KEY))
    tree._known.update({(number, 0): digest for number, digest in enumerate(digests)})
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size))

    assert tree.peaks(size) == Mountain(digests).peaks
    peak = tree.peaks(size)[spans_of(size).index(peak_over(index, size))]
    assert climbed(index, size, digests[index], tree.path(index, size)) == peak
    grown = Mountain.of(old, tree.peaks(old))
    for start, height in added_spans(old, size):
        grown.append_tree(height, tree.node(start, height))
    assert grown.root() == Mountain(digests).root()


# -- the commands --------------------------------------------------------------------------------------


async def test_the_commands_make_and_check_proofs(tmp_path: Path) -> None:
    """From a file with a head and a file with a proof; a wrong one ends with exit code 1."""
    async with SqliteStore(tmp_path / "state.db") as store:
        await shop(store).run("hi", owner=OWNER, session="s-1", id="r-1")
        old = await head(store)
        await shop(store).run("ho", owner=OWNER, session="s-1", id="r-2")
        new = await head(store)
    asked = ["--store", f"sqlite:///{tmp_path}/state.db", "--owner", OWNER]
    proof = tmp_path / "proof.json"
    (tmp_path / "head").write_text(new + "\n")

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, arguments)
        return done.exit_code, done.output

    def commands() -> None:
        code, text = run("prove", "s-1", "Order.status", *asked)
        assert code == 0
        proof.write_text(text)
        code, said = run("verify", "--proof", str(proof), "--head", str(tmp_path / "head"))
        assert (code, "status: shipped 发货" in said) == (0, True)
        code, said = run("verify", "--proof", str(proof), "--head", new, "--json")
        assert json.loads(said)["values"]["order_id"] == "KX-2041"
        code, said = run("verify", "--proof", str(proof), "--head", old)
        assert (code, "ERR_PROOF_REFUSED" in said) == (1, True)
        code, text = run("prove", "s-1", "--from", old, *asked)
        proof.write_text(text)
        code, said = run("verify", "--proof", str(proof), "--old", old, "--head", new)
        assert (code, "beginning" in said) == (0, True)
        assert run("prove", "s-1", *asked)[0] == 2
        assert run("verify", *asked)[0] == 2
        assert run("verify", "s-1", "--head", str(tmp_path / "head"), *asked)[0] == 0

    await asyncio.to_thread(commands)
