"""What a check with a key, and with a head that was kept elsewhere, finds beyond the plain one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statepact import Contract, MemoryStore, Request, Workflow, open_session
from statepact.errors import CorruptState, KeyMissing, SetupError
from statepact.ledger import SessionKey
from statepact.ledger._anchor import anchor_of
from statepact.ledger._digest import DIGEST_SIZE, entry_digest, leaf_digest
from statepact.ledger._header import pieces_of
from statepact.ledger._keyed import key_of_session
from statepact.ledger._verify import Verdict, verify_entries
from statepact.stores._base import Rewrite
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify
from statepact.testing._sentences import all_at_once, said

KEY = SessionKey("acme", "s-1")
LOG_KEY = b"a key that is kept elsewhere"

Entries = list[tuple[int, bytes, bytes]]


async def written(store: MemoryStore, *, log_key: bytes | None = LOG_KEY, count: int = 6, first: int = 0) -> OpenLog:
    log = await OpenLog.open(store, KEY, log_key=log_key)
    for number in range(first, first + count):
        await log.append(said("say", f"text {number}", branch=str(number)))
    return log


async def bytes_of(store: MemoryStore) -> Entries:
    headers = await store.headers(KEY)
    payloads = await store.payloads(KEY, [one.revision for one in headers])
    return [(one.revision, one.header, payloads[one.revision]) for one in headers]


@pytest.fixture(scope="module")
def sound() -> Entries:
    import asyncio

    async def make() -> Entries:
        store = MemoryStore()
        await written(store)
        return await bytes_of(store)

    return asyncio.run(make())


def check(entries: Entries, *, key: bytes | None = LOG_KEY, anchor: str | None = None) -> Verdict:
    return verify_entries(
        entries,
        owner=KEY.owner,
        key=key_of_session(key, KEY) if key else None,
        anchor=anchor_of(anchor) if anchor else None,
    )


def faulty(verdict: Verdict) -> list[int]:
    return [fault.revision for fault in verdict.faults]


def edited(entry: tuple[int, bytes, bytes]) -> tuple[int, bytes, bytes]:
    """An edit by somebody who computes the digest anew."""
    revision, header, payload = entry
    payload = payload.replace(b"text", b"lies")
    pieces = pieces_of(header)
    digest = entry_digest(pieces.body, [leaf_digest(pieces.salt, 0, payload)])
    return revision, digest + header[DIGEST_SIZE:], payload


def numbered(entries: Entries) -> Entries:
    return [(place, header, payload) for place, (_, header, payload) in enumerate(entries, 1)]


# -- with a key ----------------------------------------------------------------------------------------


def test_each_edit_with_a_fitting_digest_is_named(sound: Entries) -> None:
    """The plain grade sees nothing; with the key the very entry is at fault."""
    for number in range(len(sound)):
        forged = [*sound[:number], edited(sound[number]), *sound[number + 1 :]]
        assert check(forged, key=None).ok
        assert faulty(check(forged)) == [number + 1]


@given(st.data())
def test_any_other_order_or_choice_of_entries_is_found(sound: Entries, data: st.DataObject) -> None:
    """Whatever entries somebody puts in whatever order, if it is not the beginning of the log."""
    order = data.draw(st.lists(st.integers(0, len(sound) - 1), min_size=1, max_size=8))
    verdict = check(numbered([sound[number] for number in order]))
    assert verdict.ok is (order == list(range(len(order))))


def test_entry_without_a_tag_is_a_fault(sound: Entries) -> None:
    """Whoever takes the tags away has to compute the digests anew, and can; the key tells."""
    bare = []
    for revision, header, payload in sound:
        pieces = pieces_of(header)
        body = bytes((pieces.body[0] & 0x7F,)) + pieces.body[1:]
        bare.append(
            (revision, entry_digest(body, [leaf_digest(pieces.salt, 0, payload)]) + pieces.salt + body, payload)
        )
    assert check(bare, key=None).ok
    assert faulty(check(bare)) == [1]
    assert faulty(check([*sound[:3], bare[3], *sound[4:]])) == [4]


def test_entries_of_another_session_or_key_do_not_fit(sound: Entries) -> None:
    """Keys are derived for each session."""
    other = verify_entries(sound, owner="acme", key=key_of_session(LOG_KEY, SessionKey("acme", "s-2")))
    assert faulty(other) == [1, 2, 3, 4, 5, 6]
    assert faulty(check(sound, key=b"another key, long enough")) == [1, 2, 3, 4, 5, 6]


def test_grade_says_what_it_finds_and_misses(sound: Entries) -> None:
    """In words and as JSON."""
    plain, keyed = check(sound, key=None), check(sound)
    anchored = check(sound, anchor=keyed.anchor)
    assert [verdict.grade for verdict in (plain, keyed, anchored)] == ["plain", "keyed", "anchored"]
    assert len({verdict.finds for verdict in (plain, keyed, anchored)}) == 3
    assert len({verdict.misses for verdict in (plain, keyed, anchored)}) == 3
    assert f"head {keyed.anchor}" in str(keyed)
    assert anchored.as_dict()["anchored"] == 6


async def test_concurrent_writers_make_one_chain() -> None:
    """Tags are made when the place of an entry is known, also behind a stranger's entry."""
    store = MemoryStore()
    one, other = [await OpenLog.open(store, KEY, log_key=LOG_KEY) for _ in range(2)]
    await all_at_once(one, *(said("one", branch=str(number)) for number in range(5)))
    await all_at_once(other, *(said("other", branch=str(number)) for number in range(5)))
    await one.append(said("one", branch="last"))

    verdict = await verify(store, KEY, log_key=LOG_KEY)
    assert verdict.ok
    assert (verdict.size, verdict.keyed_from) == (11, 1)


async def test_log_that_gets_a_key_later_is_vouched_for_as_it_was_then() -> None:
    """The first tag covers the head over everything before it."""
    store = MemoryStore()
    await written(store, log_key=None, count=3)
    await written(store, count=2, first=3)

    verdict = await verify(store, KEY, log_key=LOG_KEY)
    assert verdict.ok
    assert verdict.keyed_from == 4
    assert "tags begin at revision 4" in str(verdict)
    entries = await bytes_of(store)
    assert faulty(check([edited(entries[0]), *entries[1:]])) == [4]


async def test_who_has_no_key_or_another_one_cannot_write() -> None:
    """A log of which a part is not tagged would be worth nothing."""
    store = MemoryStore()
    await written(store)

    reader = await OpenLog.open(store, KEY)
    with pytest.raises(KeyMissing, match="STATEPACT_LOG_KEY"):
        await reader.append(said("say", branch="more"))
    with pytest.raises(KeyMissing):
        await OpenLog.open(store, KEY, log_key=b"another key, long enough")
    assert (await verify(store, KEY, log_key=LOG_KEY)).ok


async def test_a_changed_log_is_not_continued_under_its_key() -> None:
    """Whoever opens it with the key is told at once."""
    store = MemoryStore()
    await written(store)
    _, header, payload = edited((await bytes_of(store))[2])
    await store.rewrite(KEY, Rewrite(replace={3: (header, payload)}), after=6)

    with pytest.raises(CorruptState, match="revision 3"):
        await OpenLog.open(store, KEY, log_key=LOG_KEY)


# -- with an anchor ------------------------------------------------------------------------------------


def test_removal_of_the_newest_is_found_with_an_anchor(sound: Entries) -> None:
    """What no key can find."""
    anchor = check(sound).anchor
    for size in range(len(sound)):
        assert not size or check(sound[:size]).ok
        verdict = check(sound[:size], anchor=anchor)
        assert faulty(verdict)[-1] == size + 1
        assert f"{6 - size} are gone" in verdict.faults[-1].what


def test_an_older_anchor_covers_what_was_there_then(sound: Entries) -> None:
    """The log has grown since: that is no fault, and what is under the anchor is checked without a key."""
    anchor = check(sound[:4]).anchor
    assert anchor.startswith("4:")
    assert check(sound, anchor=anchor).ok
    assert check(sound, key=None, anchor=anchor).ok
    assert faulty(check([edited(sound[0]), *sound[1:]], key=None, anchor=anchor)) == [4]


@pytest.mark.parametrize("text", ["", "7", "7:", "7:zz", ":" + "0" * 64, "-1:" + "0" * 64, "7:" + "0" * 62])
def test_what_is_no_anchor_is_refused(text: str) -> None:
    """A typing error must not read as a fault of the log."""
    with pytest.raises(SetupError, match="SIZE:HEX"):
        anchor_of(text)


# -- in a workflow -------------------------------------------------------------------------------------


class Answer(Contract, version="1.0"):
    text: str


async def test_runs_and_sessions_are_tagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """`log_key=` or the environment, and nothing else to do."""
    store = MemoryStore()
    flow = Workflow("flow", store=store, log_key=LOG_KEY)

    @flow.step
    def answer(request: Request) -> Answer:
        return Answer(text=request.text.upper())

    await flow.run("hello", session="s-1", owner="acme")
    monkeypatch.setenv("STATEPACT_LOG_KEY", f"{LOG_KEY.decode()}\n")
    async with open_session("s-1", owner="acme", store=store) as session, session.step("say") as step:
        await step.commit(Answer(text="again"))

    verdict = await verify(store, KEY, log_key=LOG_KEY)
    assert verdict.ok, verdict
    assert verdict.keyed_from == 1
    monkeypatch.setenv("STATEPACT_LOG_KEY", "short")
    with pytest.raises(SetupError, match="16 are the fewest"):
        open_session("s-1", store=store)
