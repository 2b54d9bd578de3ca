"""What a check of a log finds, and what it cannot find."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statepact.ledger import SessionKey
from statepact.ledger._header import Header, Kind, Names, Reached, Read, decode_header
from statepact.ledger._mountain import Mountain
from statepact.ledger._verify import Verdict, verify_entries
from statepact.stores import MemoryStore, SqliteStore, Store
from statepact.stores._draft import Pinned
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import PORTION, verify
from statepact.testing import FakeClock
from statepact.testing._sentences import remark, said
from statepact.workflow._run_scope import RunScope

KEY = SessionKey("acme", "s-1")


@dataclass(frozen=True)
class Stored:
    """A log as bytes: revision, header, payload; and blocks."""

    entries: tuple[tuple[int, bytes, bytes], ...]
    blocks: Mapping[bytes, bytes]

    def check(self) -> Verdict:
        return verify_entries(self.entries, owner=KEY.owner, blocks=self.blocks)

    def headers(self) -> list[Header]:
        names = Names()
        return [decode_header(header, names) for _, header, _ in self.entries]

    def with_entry(self, number: int, header: bytes, payload: bytes) -> Stored:
        entries = list(self.entries)
        entries[number] = entries[number][0], header, payload
        return replace(self, entries=tuple(entries))

    def in_order(self, order: Sequence[int]) -> Stored:
        """Put entries in another order, or leave some out, and give them gapless revisions."""
        entries = [(place + 1, *self.entries[number][1:]) for place, number in enumerate(order)]
        return replace(self, entries=tuple(entries))


async def write(store: Store, key: SessionKey = KEY, *, seal: bool = True, then: int = 0) -> OpenLog:
    """A run with large and small values, a failed attempt, reads of what came before, and a seal."""
    log = await OpenLog.open(store, key)
    await log.append(said("request", "刀片坏了"))
    await log.append(replace(said("understand", "blade " * 1000), reads=(Read(1, 0, Reached.SENT),)))
    await log.append(remark("ERR_MODEL"))
    for step in ("look_up", "decide", "answer"):
        await log.append(
            replace(said(step, branch="b"), reads=(Read(2, 0, Reached.PARTLY, 5),), extra=b'{"reason":"x"}')
        )
    if seal:
        await RunScope(log, "r-1", clock=FakeClock()).close("done")
    for number in range(then):
        await log.append(said("again", run="r-2", branch=str(number)))
    return log


async def stored(store: Store, key: SessionKey = KEY) -> Stored:
    headers = await store.headers(key)
    payloads = await store.payloads(key, [one.revision for one in headers])
    blocks = dict(store._sessions[key].blocks) if isinstance(store, MemoryStore) else {}
    return Stored(
        tuple((one.revision, one.header, payloads[one.revision]) for one in headers),
        blocks,
    )


@pytest.fixture(scope="module")
def sound() -> Stored:
    """Seven entries, the last one a seal."""
    import asyncio

    async def make() -> Stored:
        store = MemoryStore()
        await write(store)
        return await stored(store)

    return asyncio.run(make())


def faulty(verdict: Verdict) -> list[int]:
    assert not verdict.ok
    return [fault.revision for fault in verdict.faults]


# -- a log that is as it was committed -----------------------------------------------------------------


def test_sound_log(sound: Stored) -> None:
    """Everything was checked, the seal covers all before it, and the head is the one of the log."""
    verdict = sound.check()

    assert verdict.ok
    assert verdict.faults == ()
    assert (verdict.checked, verdict.size, verdict.sealed) == (7, 7, 6)
    assert verdict.head == Mountain(header.digest for header in sound.headers()).root().hex()
    assert verdict.as_dict()["ok"] is True
    assert "7 of 7 entries" in str(verdict)
    assert len(sound.blocks) == 1


def test_empty_log_is_sound() -> None:
    """There is nothing that could be wrong."""
    verdict = verify_entries([])
    assert verdict.ok
    assert (verdict.checked, verdict.size, verdict.sealed, verdict.head) == (0, 0, 0, Mountain().root().hex())


async def test_seal_of_a_run_beside_another(tmp_path: Path) -> None:
    """A seal stands behind entries that came while it was written; it says how many it covers."""
    store = MemoryStore()
    ours, theirs = await write(store, seal=False), await OpenLog.open(store, KEY)
    await theirs.append(said("theirs", run="r-2"))
    await RunScope(ours, "r-1", clock=FakeClock()).close("done")

    verdict = (await stored(store)).check()
    assert verdict.ok
    assert (verdict.size, verdict.sealed) == (8, 6)


# -- damage --------------------------------------------------------------------------------------------


def test_any_flipped_byte_of_a_header_is_found_at_its_entry(sound: Stored) -> None:
    """Every byte of every header, two kinds of flip; nobody else is accused."""
    for number, (revision, header, payload) in enumerate(sound.entries):
        for at in range(len(header)):
            for flip in (0x01, 0x80):
                damaged = header[:at] + bytes([header[at] ^ flip]) + header[at + 1 :]
                assert faulty(sound.with_entry(number, damaged, payload).check()) == [revision]


def test_any_flipped_byte_of_a_payload_is_found_at_its_entry(sound: Stored) -> None:
    """Values, addresses of large values, reasons, the record of a seal."""
    for number, (revision, header, payload) in enumerate(sound.entries):
        for at in range(len(payload)):
            damaged = payload[:at] + bytes([payload[at] ^ 0x10]) + payload[at + 1 :]
            assert faulty(sound.with_entry(number, header, damaged).check()) == [revision]


def test_flipped_byte_of_a_large_value_is_found(sound: Stored) -> None:
    """The entry that refers to it is named."""
    ((address, data),) = sound.blocks.items()
    for at in range(0, len(data), 97):
        damaged = {address: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]}
        assert faulty(replace(sound, blocks=damaged).check()) == [2]
    assert faulty(replace(sound, blocks={}).check()) == [2]
    assert faulty(verify_entries(sound.entries, owner="umbrella", blocks=sound.blocks)) == [2]


@given(st.data())
def test_cut_or_lengthened_bytes_are_found(sound: Stored, data: st.DataObject) -> None:
    """An entry that lost its end, or got something behind it."""
    number = data.draw(st.integers(0, len(sound.entries) - 1))
    revision, header, payload = sound.entries[number]
    if data.draw(st.booleans()):
        header = data.draw(st.sampled_from([header[: len(header) // 2], header[:-1], header + b"x", b""]))
    else:
        payload = data.draw(st.sampled_from([payload[: len(payload) // 2], payload[:-1], payload + b"x", b""]))
    assert faulty(sound.with_entry(number, header, payload).check()) == [revision]


@given(st.lists(st.tuples(st.integers(-3, 9), st.none() | st.binary(max_size=90), st.none() | st.binary(max_size=90))))
def test_no_bytes_make_it_raise(entries: list[tuple[int, bytes | None, bytes | None]]) -> None:
    """Whatever stands there is a fault, not an exception."""
    verdict = verify_entries(entries, owner="acme", blocks={})
    assert verdict.ok is (not entries)
    assert verdict.size == len(entries)


@given(st.data())
def test_damage_in_several_places_names_them_all(sound: Stored, data: st.DataObject) -> None:
    """One fault does not hide another in the bytes of another entry."""
    numbers = data.draw(st.sets(st.integers(0, len(sound.entries) - 1), min_size=1))
    damaged = sound
    for number in numbers:
        _, header, payload = damaged.entries[number]
        damaged = damaged.with_entry(number, header, payload[:-1] + bytes([payload[-1] ^ 1]))
    assert faulty(damaged.check()) == [number + 1 for number in sorted(numbers)]


# -- order and number ----------------------------------------------------------------------------------


def test_removed_entry_leaves_a_gap(sound: Stored) -> None:
    """One missing in the middle is named by its revision, and so are several."""
    for number in range(6):
        left = tuple(one for place, one in enumerate(sound.entries) if place != number)
        assert faulty(replace(sound, entries=left).check()) == [number + 1]
    verdict = replace(sound, entries=sound.entries[:2] + sound.entries[5:]).check()
    assert [str(fault) for fault in verdict.faults] == ["revision 3: it is missing, and all up to 5"]


def test_removed_and_renumbered_is_found_by_the_seal_at_the_latest(sound: Stored) -> None:
    """Somebody has closed the gap: names, reads or the seal do not agree any more."""
    for number in range(6):
        order = [place for place in range(7) if place != number]
        assert not sound.in_order(order).check().ok


def test_exchanged_entries_are_found_under_a_seal(sound: Stored) -> None:
    """Each entry is sound by itself, so it takes the names, the reads or the seal."""
    for one in range(6):
        for other in range(one):
            order = list(range(7))
            order[one], order[other] = other, one
            assert not sound.in_order(order).check().ok


def test_doubled_entry_is_found(sound: Stored) -> None:
    """A step is committed once."""
    assert set(faulty(sound.in_order([0, 1, 2, 3, 4, 4, 5]).check())) == {6}
    assert not sound.in_order([0, 0, 1, 2, 3, 4, 5]).check().ok


def test_entries_out_of_order_are_named(sound: Stored) -> None:
    """A store that hands out revisions in another order."""
    entries = (*sound.entries[:2], sound.entries[3], sound.entries[2], *sound.entries[4:])
    assert not replace(sound, entries=entries).check().ok


async def test_removal_of_the_newest_is_found_only_if_a_later_seal_exists() -> None:
    """What stands under a seal cannot be removed unnoticed, what stands behind the last one can.

    That is the limit of this grade: only a head that was kept elsewhere tells.
    """
    store = MemoryStore()
    log = await write(store, then=3)
    open_ended = await stored(store)
    whole = open_ended.check()
    assert (whole.ok, whole.size, whole.sealed) == (True, 10, 6)

    cut = replace(open_ended, entries=open_ended.entries[:-2]).check()
    assert cut.ok, "nothing in the log itself says that there was more"
    assert cut.head != whole.head, "but a head that was kept elsewhere does"
    without_seal = replace(open_ended, entries=open_ended.entries[:6]).check()
    assert without_seal.ok
    assert without_seal.sealed == 0

    await RunScope(log, "r-2", clock=FakeClock()).close("done")
    sealed = await stored(store)
    assert (sealed.check().ok, sealed.check().sealed) == (True, 10)
    assert faulty(sealed.in_order([0, 1, 2, 3, 4, 5, 6, 7, 8, 10]).check()) == [10]


async def test_exchange_behind_the_last_seal_may_go_unnoticed() -> None:
    """The same limit: entries without new names and reads can change places where no seal follows."""
    store = MemoryStore()
    await write(store, then=1)
    log = await OpenLog.open(store, KEY)
    await log.append(said("again", run="r-2", branch="b"))
    await log.append(said("look_up", run="r-2", branch="b"))
    end = await stored(store)

    exchanged = end.in_order([*range(8), 9, 8]).check()
    assert exchanged.ok
    assert exchanged.head != end.check().head


def test_edit_by_somebody_who_computes_the_digest_anew_is_found_under_a_seal(sound: Stored) -> None:
    """A changed value with a fitting digest changes the head that the seal has recorded."""
    from statepact.ledger._digest import DIGEST_SIZE, entry_digest, leaf_digest
    from statepact.ledger._header import pieces_of

    revision, header, payload = sound.entries[0]
    edited = payload.replace("刀".encode(), "灯".encode())
    salt = sound.headers()[0].salt
    digest = entry_digest(pieces_of(header).body, [leaf_digest(salt, 0, edited)])
    forged = sound.with_entry(0, digest + header[DIGEST_SIZE:], edited).check()

    assert faulty(forged) == [7]
    assert replace(sound, entries=((revision, digest + header[DIGEST_SIZE:], edited),)).check().ok


# -- in a store ----------------------------------------------------------------------------------------


async def test_store_is_read_in_portions(tmp_path: Path) -> None:
    """A log longer than a portion, with one large value in many entries."""
    async with SqliteStore(tmp_path / "state.db", durability="process") as store:
        log = await OpenLog.open(store, KEY)
        for number in range(2 * PORTION + 10):
            await log.append(said("look", "x" * 5000, branch=str(number)))
        verdict = await verify(store, KEY)
    assert verdict.ok
    assert (verdict.checked, verdict.size) == (2 * PORTION + 10, 2 * PORTION + 10)


async def test_session_that_does_not_exist_is_empty() -> None:
    """Whether that is a mistake the caller knows."""
    verdict = await verify(MemoryStore(), KEY)
    assert (verdict.ok, verdict.size) == (True, 0)


@pytest.mark.parametrize(
    ("edit", "revisions"),
    [
        ("update entry set payload = replace(payload, 'look_up', 'look_in') where revision = 4", [4]),
        ("update entry set payload = null where revision = 4", [4]),
        ("update entry set payload = 17 where revision = 4", [4]),
        ("update entry set payload = cast(x'ff' as text) where revision = 4", [4]),
        ("update entry set payload = x'' where revision = 4", [4]),
        ("update header set bytes = 'text' where id = 5", [5]),
        ("delete from header where id = 5", [5]),
        ("delete from entry where revision = 3", [3]),
        ("delete from block", [2]),
        ("update block set bytes = upper(bytes)", [2]),
        ("update entry set revision = 20 where revision = 7", [7]),
    ],
)
async def test_edit_with_the_sqlite_shell_is_found(tmp_path: Path, edit: str, revisions: list[int]) -> None:
    """Whatever a careless hand does to the tables: the entry is named, and nothing is raised."""
    async with SqliteStore(tmp_path / "state.db") as store:
        await write(store)
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        db.execute(edit)
        db.commit()

    async with SqliteStore(tmp_path / "state.db", read_only=True) as store:
        assert faulty(await verify(store, KEY)) == revisions


def test_seal_kind_is_what_closes_a_run(sound: Stored) -> None:
    """The tests above rest on it."""
    assert [header.kind for header in sound.headers()] == [Kind.COMMIT] * 2 + [Kind.ATTEMPT] + [Kind.COMMIT] * 3 + [
        Kind.SEAL
    ]


async def test_pinned_facts_of_a_later_revision_are_remarked_upon() -> None:
    """A step cannot have been given what was committed after it."""
    store = MemoryStore()
    log = await write(store, seal=False)
    await log.append(replace(said("early"), pinned=Pinned(as_of=log.log.revision + 1)))

    assert faulty((await stored(store)).check()) == [7]
