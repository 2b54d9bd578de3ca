"""A document is taken apart and put together again, byte for byte."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statepact.errors import CorruptState
from statepact.ledger._blocks import DOCUMENT_LIMIT, FIELD_LIMIT, Parts, addresses_in, put_together, take_apart
from statepact.ledger._digest import block_digest

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | texts
large = st.tuples(texts, st.integers(1, 1500)).map(lambda pair: (pair[0] or "修") * pair[1])
values = st.recursive(
    scalars | large, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
documents = st.dictionaries(texts, values, max_size=6).map(lambda fields: canonical(fields))


def canonical(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


@given(documents)
def test_document_comes_back_byte_for_byte(document: bytes) -> None:
    """Order, escapes and numbers included: readers and comparisons see one canonical form."""
    parts = take_apart("acme", document)
    assert put_together(parts.stored, dict(parts.blocks)).document == document


@given(documents)
def test_only_large_fields_of_large_documents_become_blocks(document: bytes) -> None:
    """What stays in the document is small, and each block is large and under its address."""
    parts = take_apart("acme", document)
    if len(document) <= DOCUMENT_LIMIT:
        assert parts == Parts(document)
    for address, data in parts.blocks:
        assert len(data) >= FIELD_LIMIT
        assert address == block_digest("acme", data)
    assert set(addresses_in(parts.stored).values()) == {address for address, _ in parts.blocks}


def test_equal_values_have_one_address_within_an_owner() -> None:
    """An unchanged text is stored once, in whatever field, step or session it stands."""
    text = "c" * 5000
    one, other = (take_apart("acme", canonical({"text": text, "n": n})) for n in (1, 2))
    (twice,) = {address for address, _ in take_apart("acme", canonical({"a": text, "b": text})).blocks}
    assert one.blocks == other.blocks
    assert twice == one.blocks[0][0]
    assert take_apart("umbrella", canonical({"text": text, "n": 1})).blocks[0][0] != one.blocks[0][0]


@pytest.mark.parametrize(
    "document",
    [
        b'{"n":123456789012345678901234567890,"t":"' + b"x" * 5000 + b'"}',
        b'{"n":1.0000000000000000001,"t":"' + b"x" * 5000 + b'"}',
        b'{"b":1,"a":"' + b"x" * 5000 + b'"}',
        b'{"a":"\\u4fee' + b"x" * 5000 + b'"}',
    ],
)
def test_document_that_would_change_stays_whole(document: bytes) -> None:
    """Large numbers, unusual escapes, another order: rather large than different."""
    assert take_apart("acme", document) == Parts(document)
    assert put_together(document, {}).document == document


def test_missing_block_is_named_by_its_field() -> None:
    """No document is handed out without one of its fields."""
    parts = take_apart("acme", canonical({"report": "x" * 5000, "n": 1}))
    with pytest.raises(CorruptState, match="'report' is missing"):
        put_together(parts.stored, {})


@given(documents.filter(lambda document: len(document) > DOCUMENT_LIMIT), st.data())
def test_damaged_cell_is_an_error_of_ours_or_another_document(document: bytes, data: st.DataObject) -> None:
    """Flipped or cut bytes raise nothing but `CorruptState`; that they differ the digest tells."""
    parts = take_apart("acme", document)
    raw = bytearray(parts.stored)
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(raw), parts.stored[:at]):
        with suppress(CorruptState):
            put_together(damaged, dict(parts.blocks))


@pytest.mark.parametrize("stored", [b"{}\x00", b"{}\x00[]", b'{}\x00{"a":"zz"}', b'{}\x00{"a":1}', b"{}\x00null"])
def test_unreadable_addresses_are_an_error_of_ours(stored: bytes) -> None:
    """Whatever stands behind the mark."""
    with pytest.raises(CorruptState):
        put_together(stored, {})
