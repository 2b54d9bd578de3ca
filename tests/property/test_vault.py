"""Sensitive values: whatever is changed in a row, it opens as what was stored or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statepact import Contract, KeyRing, MemoryStore, Sensitive, open_session
from statepact.errors import CorruptState, KeyMissing
from statepact.ledger import session_key
from statepact.ledger._blocks import addresses_in, is_value_id, put_together, take_apart
from statepact.ledger._codec import encode
from statepact.ledger._vault import new_value_id
from statepact.stores import Rewrite
from statepact.stores._log_reader import LogReader
from statepact.stores._verify import verify

RING = KeyRing({"k1": b"1" * 32, "k2": b"2" * 32}, current="k2")

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**50), 10**50) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=40),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text("aé\"\\ 中{}[],:", max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


class Note(Contract):
    secret: Sensitive[Any]
    other: Sensitive[str]
    open: Any = None
    large: str = ""


@given(values, values, st.text('ab预"\\', max_size=30), st.integers(0, 4_000) | st.integers(4_200, 6_000))
def test_document_comes_back_byte_for_byte(secret: Any, shown: Any, other: str, large: int) -> None:
    """Whatever stands in sensitive and open fields, with and without large values beside them."""
    document = encode(Note(secret=secret, other=other, open=shown, large="x" * large))
    parts = take_apart("acme", document, sensitive=("other", "secret"), keys=RING)
    addresses = addresses_in(parts.stored)

    assert parts.document == document
    assert {name for name, address in addresses.items() if is_value_id(address)} == {"other", "secret"}
    assert ("large" in addresses) == (large > 4_100)
    whole = put_together(parts.stored, dict(parts.blocks), owner="acme", keys=RING)
    assert (whole.document, whole.locked) == (document, {})
    masked = put_together(parts.stored, dict(parts.blocks), owner="acme")
    assert masked.locked == {"other": "k2", "secret": "k2"}


@given(st.binary(max_size=80), st.data())
def test_no_flipped_bit_is_taken_for_the_value(value: bytes, data: st.DataObject) -> None:
    """Every byte of a row is signed or part of what names the key."""
    value_id = new_value_id()
    row = RING.seal("acme", value_id, value + b".")
    at = data.draw(st.integers(0, len(row) - 1))
    flipped = row[:at] + bytes([row[at] ^ data.draw(st.integers(1, 255))]) + row[at + 1 :]

    with pytest.raises((CorruptState, KeyMissing)):
        RING.open("acme", value_id, flipped)


@given(st.binary(max_size=200))
def test_no_other_bytes_are_taken_for_a_row(row: bytes) -> None:
    """Rubbish is an error of ours."""
    with pytest.raises((CorruptState, KeyMissing)):
        RING.open("acme", new_value_id(), row)


@given(st.integers(0, 200))
def test_no_shortened_row_opens(kept: int) -> None:
    """Nor a longer one."""
    value_id = new_value_id()
    row = RING.seal("acme", value_id, b"x" * 100)
    for other in (row[: min(kept, len(row) - 1)], row + b"\x00" * (kept + 1)):
        with pytest.raises((CorruptState, KeyMissing)):
            RING.open("acme", value_id, other)


def rows_of(store: MemoryStore, owner: str) -> dict[bytes, bytes]:
    return dict(store._sessions[session_key(owner, "s-1")].blocks)


async def written(store: MemoryStore, owner: str) -> None:
    opener = open_session("s-1", owner=owner, store=store, keys=RING, run="r-1")
    async with opener as session, session.step("note") as step:
        await step.commit(Note(secret={"card": "4111"}, other="预算"))


@pytest.mark.parametrize("damage", ["swapped", "foreign", "missing", "cut", "flipped"])
def test_damaged_rows_are_named_and_not_read(damage: str) -> None:
    """By a reader as an error, by `verify` as a fault of the entry, both before anybody sees a value."""

    async def main() -> None:
        store = MemoryStore()
        await written(store, "acme")
        await written(store, "globex")
        key, ours, theirs = session_key("acme", "s-1"), rows_of(store, "acme"), rows_of(store, "globex")
        one, two = ours
        change: dict[bytes, bytes | None] = {
            "swapped": {one: ours[two], two: ours[one]},
            "foreign": {one: next(iter(theirs.values()))},
            "missing": {one: None},
            "cut": {one: ours[one][:-1]},
            "flipped": {one: ours[one][:-1] + bytes([ours[one][-1] ^ 1])},
        }[damage]  # type: ignore[assignment]
        await store.rewrite(key, Rewrite(blocks=change), after=(await store.headers(key))[-1].revision)

        verdict = await verify(store, key, keys=RING)
        assert len(verdict.faults) == (2 if damage == "swapped" else 1)
        assert all("sensitive value" in fault.what for fault in verdict.faults)
        reader = LogReader(store, key, keys=RING)
        await reader.read_on()
        with pytest.raises(CorruptState):
            await reader.view("r-1")
        assert (await verify(store, session_key("globex", "s-1"), keys=RING)).ok

    asyncio.run(main())
