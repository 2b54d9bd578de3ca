"""A session goes into one file and comes out of it the same, or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from _cut import cut
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from statepact import (
    Contract,
    Id,
    KeyRing,
    MemoryStore,
    Request,
    Sensitive,
    SqliteStore,
    Store,
    Workflow,
    erase,
    export_session,
    import_session,
    open_session,
    verify,
)
from statepact.cli._app import app
from statepact.errors import Deleted, ImportRefused, KeyMissing, SessionExists, SetupError, UnknownSession
from statepact.ledger import SessionKey
from statepact.ledger._header import Kind
from statepact.stores import Transfer
from statepact.stores._open_log import OpenLog
from statepact.stores._session_file import _frame, read_session

OWNER = "acme"
KEY = SessionKey(OWNER, "s-1")
COPY = SessionKey(OWNER, "s-2")
LOG_KEY = b"a key that is kept elsewhere"
PHONE = "+49 431 5551234"
KEYS = KeyRing({"k": b"k" * 32})


class Customer(Contract, version="1.0"):
    name: str
    phone: Sensitive[str]
    order_id: Id[str] = "KX-2041"


class Page(Contract, version="1.0"):
    text: str


class Reply(Contract, version="1.0"):
    text: str


def flow(store: Store, *, log_key: bytes | None = None, keys: KeyRing | None = None, broken: bool = False) -> Workflow:
    made = Workflow("flow", store=store, log_key=log_key, keys=keys, results=[Reply, Page])

    @made.step
    def understand(request: Request) -> Customer:
        return Customer(name="Mara", phone=PHONE, order_id="KX-2041")

    @made.step
    def look_up(customer: Customer) -> Page:
        return Page(text="x" * 5000)

    @made.step
    def answer(page: Page, customer: Customer) -> Reply:
        if broken:
            raise RuntimeError
        return Reply(text=f"{customer.name} {len(page.text)}")

    return made


async def everything(store: Store, key: SessionKey) -> tuple[list[bytes], dict[int, bytes]]:
    headers = await store.headers(key)
    return [one.header for one in headers], dict(await store.payloads(key, [one.revision for one in headers]))


# -- the same again ------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_a_session_comes_out_as_it_went_in(store: Store, tmp_path: Path, log_key: bytes | None) -> None:
    """Under another name, its digests are the same, encrypted values open, and an open run goes on."""
    await flow(store, log_key=log_key, keys=KEYS, broken=True).run("hi", owner=OWNER, session="s-1", id="r-1")
    before = await verify(store, KEY, log_key=log_key)
    out = await export_session(store, "s-1", tmp_path / "s-1.statepact", owner=OWNER)
    back = await import_session(store, tmp_path / "s-1.statepact", owner=OWNER, name="s-2", log_key=log_key)

    assert (out.masked, out.head) == (0, before.head)
    assert back == Transfer(owner=OWNER, session="s-2", revision=out.revision, head=out.head)
    assert PHONE.encode() not in (tmp_path / "s-1.statepact").read_bytes()
    verdict = await verify(store, COPY, keys=KEYS, log_key=log_key, anchor=before.anchor)
    assert verdict.ok, verdict
    run = await flow(store, log_key=log_key, keys=KEYS).resume("r-1", owner=OWNER, session="s-2")
    assert run[Reply].text == "Mara 5000"
    assert [step.ending for step in run.steps.values()] == ["stored", "stored", "done"]
    assert sorted(use.session for use in await store.entities(OWNER)) == ["s-1", "s-2"]


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_from_one_store_into_another(store: Store, tmp_path: Path, log_key: bytes | None) -> None:
    """Any two, with the same bytes at the end; the new entry says where the others come from."""
    async with MemoryStore() as other:
        for here, there, name in ((other, store, "out"), (store, other, "back")):
            key = SessionKey(OWNER, name)
            await flow(here, log_key=log_key).run("hi", owner=OWNER, session=name, id="r-1")
            await export_session(here, name, tmp_path / name, owner=OWNER, clear=True)
            await import_session(there, tmp_path / name, owner=OWNER, log_key=log_key)

            (old, values), (new, copied) = await everything(here, key), await everything(there, key)
            assert new[:-1] == old
            assert {revision: copied[revision] for revision in values} == values
            assert (await verify(there, key, log_key=log_key)).ok
            log = await OpenLog.open(there, key)
            assert log.log.entries[-1].header.kind is Kind.NOTE
            assert (await log.record(log.log.entries[-1]))["import"]["session"] == name


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_what_is_in_plain_text_is_masked(store: Store, tmp_path: Path, log_key: bytes | None) -> None:
    """Unless somebody says that it is meant. The log verifies all the same, and says what is missing."""
    await flow(store, log_key=log_key).run("hi", owner=OWNER, session="s-1", id="r-1")
    out = await export_session(store, "s-1", tmp_path / "masked", owner=OWNER)
    await export_session(store, "s-1", tmp_path / "clear", owner=OWNER, clear=True)
    await import_session(store, tmp_path / "masked", owner=OWNER, name="s-2", log_key=log_key)

    assert out.masked == 1
    assert PHONE.encode() not in (tmp_path / "masked").read_bytes()
    assert PHONE.encode() in (tmp_path / "clear").read_bytes()
    verdict = await verify(store, COPY, log_key=log_key, anchor=f"{out.revision}:{out.head}")
    assert verdict.ok, verdict
    assert verdict.erased == 1
    async with open_session("s-2", owner=OWNER, store=store, log_key=log_key) as session:
        with pytest.raises(Deleted):
            await session.get(Customer, run="r-1")
        assert await session.get(Page, run="r-1") == Page(text="x" * 5000)


async def test_an_old_revision_is_exported(store: Store, tmp_path: Path) -> None:
    """As it was then, without what has been erased since."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    await erase(store, owner=OWNER, session="s-1", fact="Customer.name", by="dpo", reason="asked", keep_derived=True)
    await export_session(store, "s-1", tmp_path / "old", owner=OWNER, at=2, clear=True)
    await import_session(store, tmp_path / "old", owner=OWNER, name="s-2")

    assert b"Mara" not in (tmp_path / "old").read_bytes()
    assert len(await store.headers(COPY)) == 3
    assert (await verify(store, COPY)).ok


@pytest.mark.parametrize("log_key", [None, LOG_KEY])
async def test_a_log_whose_beginning_was_removed(store: Store, tmp_path: Path, log_key: bytes | None) -> None:
    """It begins where it began, with the same revisions."""
    for run in ("r-1", "r-2"):
        await flow(store, log_key=log_key).run("hi", owner=OWNER, session="s-1", id=run)
    await cut(store, KEY, 5, log_key=log_key)
    out = await export_session(store, "s-1", tmp_path / "cut", owner=OWNER)
    await import_session(store, tmp_path / "cut", owner=OWNER, name="s-2", log_key=log_key)

    verdict = await verify(store, COPY, log_key=log_key, anchor=f"{out.revision}:{out.head}")
    assert verdict.ok, verdict
    assert (await store.headers(COPY))[0].revision == 5


async def test_an_import_is_known_to_the_session_it_is_a_copy_of(store: Store, tmp_path: Path) -> None:
    """So an erasure finds it; and what was erased since the export does not come back with the file."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    await export_session(store, "s-1", tmp_path / "file", owner=OWNER, clear=True)
    await import_session(store, tmp_path / "file", owner=OWNER, name="s-2")
    done = await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="asked")

    assert done.copies == ("s-2",)
    with pytest.raises(ImportRefused, match="erased in session 's-1'"):
        await import_session(store, tmp_path / "file", owner=OWNER, name="s-3")
    done = await erase(store, owner=OWNER, session="s-1", fact="Customer.phone", by="dpo", reason="x", forks=True)
    assert (done.sessions, done.copies) == (("s-2",), ())


# -- what is refused -----------------------------------------------------------------------------------


async def test_a_session_that_is_there_stays_as_it_is(store: Store, tmp_path: Path) -> None:
    """Under its own name as well as under another one."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    await export_session(store, "s-1", tmp_path / "file", owner=OWNER)
    before = await everything(store, KEY)
    with pytest.raises(SessionExists):
        await import_session(store, tmp_path / "file", owner=OWNER)
    assert await everything(store, KEY) == before


async def test_a_file_is_of_its_owner(store: Store, tmp_path: Path) -> None:
    """To whom encrypted and large values are bound; nobody gets it by naming another one."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    await export_session(store, "s-1", tmp_path / "file", owner=OWNER)
    with pytest.raises(ImportRefused, match="another owner"):
        await import_session(store, tmp_path / "file", owner="umbrella", name="s-9")
    assert list(await store.sessions("umbrella")) == []


async def test_files_and_sessions_that_are_not_there(store: Store, tmp_path: Path) -> None:
    """Nothing is overwritten, and nothing half is left."""
    await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    (tmp_path / "there").write_text("mine")
    for path in (tmp_path / "there", tmp_path / "no" / "folder"):
        with pytest.raises(SetupError):
            await export_session(store, "s-1", path, owner=OWNER)
    with pytest.raises(UnknownSession):
        await export_session(store, "never", tmp_path / "new", owner=OWNER)
    with pytest.raises(SetupError):
        await import_session(store, tmp_path / "never", owner=OWNER)
    await export_session(store, "s-1", tmp_path / "new", owner=OWNER)

    assert (tmp_path / "there").read_text() == "mine"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]  # noqa: PTH208
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


async def test_a_log_with_tags_takes_its_key(store: Store, tmp_path: Path) -> None:
    """Without it, or with another one, nobody can say that it is sound."""
    await flow(store, log_key=LOG_KEY).run("hi", owner=OWNER, session="s-1", id="r-1")
    await export_session(store, "s-1", tmp_path / "file", owner=OWNER)
    with pytest.raises(KeyMissing):
        await import_session(store, tmp_path / "file", owner=OWNER, name="s-2")
    with pytest.raises(ImportRefused, match="tag"):
        await import_session(store, tmp_path / "file", owner=OWNER, name="s-2", log_key=b"another log key 12345")
    assert list(await store.headers(COPY)) == []


def a_file(**options: Any) -> bytes:
    """Return an export of a session with everything in it."""

    async def made(path: Path) -> None:
        store = MemoryStore()
        await flow(store, keys=KEYS).run("hi", owner=OWNER, session="s-1", id="r-1")
        await flow(store).run("hi", owner=OWNER, session="s-1", id="r-2")
        await export_session(store, "s-1", path, owner=OWNER, **options)

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(made(Path(folder) / "file"))
        return (Path(folder) / "file").read_bytes()


FILE = a_file()


async def taken(data: bytes, folder: Path, **options: Any) -> None:
    """Raise `ImportRefused` if a file is not taken in, and see that nothing was written then."""
    path = folder / "hostile"
    path.write_bytes(data)
    store = MemoryStore()
    try:
        await import_session(store, path, owner=OWNER, **options)
    except ImportRefused:
        assert list(await store.sessions(OWNER)) == []
        raise
    assert (await verify(store, KEY)).ok


def resealed(body: bytes) -> bytes:
    """Return a file with the right digest at its end, as somebody makes it who knows the format."""
    import hashlib

    return body + _frame(b"Z", hashlib.sha256(body).digest())


BODY = FILE[: -len(_frame(b"Z", b"0" * 32))]


async def test_every_cut_and_many_changes_are_refused(tmp_path: Path) -> None:
    """Also with the digest at the end computed anew: then the digests of the log do not agree."""
    await taken(FILE, tmp_path)
    for place in range(0, len(FILE), 97):
        with pytest.raises(ImportRefused):
            await taken(FILE[:place], tmp_path)
        with pytest.raises(ImportRefused):
            await taken(FILE[:place] + bytes([FILE[place] ^ 1]) + FILE[place + 1 :], tmp_path)
    with pytest.raises(ImportRefused):
        await taken(FILE + b"x", tmp_path)


@pytest.mark.parametrize("what", [b"H", b"P", b"B", b"M"])
async def test_what_somebody_has_made_up_is_refused(tmp_path: Path, what: bytes) -> None:
    """Frames exchanged, repeated, left out, filled with something else; whoever does it seals the file again."""
    frames = list(split(BODY))
    for number, (letter, raw) in enumerate(frames):
        if letter != what:
            continue
        for new in ([], [(letter, raw), (letter, raw)], [(letter, b"")], [(letter, raw[:-1] + b"\xff")],
                    [(letter, b"\xff" * 1000)], [(b"Q", raw)]):  # fmt: skip
            changed = frames[:number] + new + frames[number + 1 :]
            body = BODY[:20] + b"".join(_frame(*frame) for frame in changed)
            if letter == b"B" and new == [(letter, raw), (letter, raw)]:
                continue  # the same value twice is the same value
            if letter == b"B" and len(raw) < 1000 and new == [(letter, raw[:-1] + b"\xff")]:
                continue  # a sealed value is checked by whoever has the key
            with pytest.raises(ImportRefused):
                await taken(resealed(body), tmp_path)


def split(body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the frames of a file without its end."""
    at, found = 20, []
    while at < len(body):
        length = int.from_bytes(body[at + 1 : at + 9], "big")
        found.append((body[at : at + 1], body[at + 9 : at + 9 + length]))
        at += 9 + length
    return found


@pytest.mark.parametrize("letter", [b"M", b"H", b"P", b"B", b"E", b"Z", b"?"])
async def test_lengths_that_lie_cost_nothing(tmp_path: Path, letter: bytes) -> None:
    """A part that claims to have more bytes than there are, or than it can have, is not waited for."""
    for length in (len(BODY), 2**30, 2**63, 2**64 - 1):
        for start in (BODY[:20], BODY):
            with pytest.raises(ImportRefused):
                await taken(start + letter + length.to_bytes(8, "big") + b"x" * 100, tmp_path)


async def test_what_a_file_says_about_itself_is_not_believed(tmp_path: Path) -> None:
    """Another head, other revisions, missing values that are there, numbers that are none."""
    frames = split(BODY)
    says = json.loads(frames[0][1])
    for change in (
        {"head": "0" * 64},
        {"revision": 2**60},
        {"revision": -1},
        {"first": 0},
        {"first": 3},
        {"owner": ""},
        {"owner": None},
        {"session": "x\x00"},
        {"session": "x" * 20_000},
        {"masked": "many"},
        {"erased": [{"revision": 1, "leaf": 0, "fields": ["text"]}]},
        {"erased": "all"},
        {"erased": []},
    ):
        body = BODY[:20] + _frame(b"M", json.dumps({**says, **change}).encode())
        with pytest.raises(ImportRefused):
            await taken(resealed(body + b"".join(_frame(*frame) for frame in frames[1:])), tmp_path)


@pytest.mark.parametrize("entity", [b"[]", b'["a","b"]', b'["a","b",-1]', b'["a","",1]', b'["a","b",1e400]', b"x",
                                    b'["a","b",9223372036854775807]', b'["a","\\u0000",1]'])  # fmt: skip
async def test_what_a_session_is_about_is_checked(tmp_path: Path, entity: bytes) -> None:
    """The index of a store takes text and a time."""
    with pytest.raises(ImportRefused):
        await taken(resealed(BODY + _frame(b"E", entity)), tmp_path)


async def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """Its size is looked at before anything else."""
    with pytest.raises(ImportRefused, match="allowed"):
        await taken(FILE, tmp_path, max_bytes=len(FILE) - 1)
    await taken(FILE, tmp_path, max_bytes=len(FILE))


async def test_only_the_log_under_a_head_is_taken(tmp_path: Path) -> None:
    """Whoever has kept a head need not believe the file."""
    says = json.loads(split(BODY)[0][1])
    await taken(FILE, tmp_path, head=f"{says['revision']}:{says['head']}")
    for head in (f"{says['revision']}:{'0' * 64}", f"{says['revision'] + 5}:{says['head']}"):
        with pytest.raises(ImportRefused):
            await taken(FILE, tmp_path, head=head)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_session_are_refused(data: bytes) -> None:
    """Whatever they are: one error."""
    import io

    for start in (b"", BODY[:20], BODY[:200]):
        with pytest.raises(ImportRefused):
            read_session(io.BytesIO(start + data), size=len(start + data))


# -- the commands --------------------------------------------------------------------------------------


async def test_the_commands_write_and_read_a_file(tmp_path: Path) -> None:
    """And say what is in it, what was masked, and why a file is refused."""
    async with SqliteStore(tmp_path / "state.db") as store:
        await flow(store).run("hi", owner=OWNER, session="s-1", id="r-1")
    path = str(tmp_path / "s-1.statepact")

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*arguments, "--store", f"sqlite:///{tmp_path}/state.db"])
        return done.exit_code, done.output

    def commands() -> None:
        code, said = run("export", "s-1", path, "--owner", OWNER)
        assert (code, "1 sensitive values" in said) == (0, True)
        code, said = run("import", path, "--owner", OWNER, "--as", "s-2", "--json")
        assert (code, json.loads(said)["session"]) == (0, "s-2")
        assert run("verify", "s-2", "--owner", OWNER)[0] == 0
        code, said = run("import", path, "--as", "s-3")
        assert (code, "ERR_IMPORT_REFUSED" in said) == (1, True)
        assert run("export", "s-1", path, "--owner", OWNER)[0] == 2

    await asyncio.to_thread(commands)
