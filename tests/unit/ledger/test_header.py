"""A header is read as it was written, and one that was not written so is refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statepact.errors import CorruptState
from statepact.ledger._digest import DIGEST_SIZE, INPUT_DIGEST_SIZE, SALT_SIZE, TAG_SIZE
from statepact.ledger._header import CellSize, Header, Kind, Names, Reached, Read, decode_header, encode_body

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
sizes = st.integers(0, 2**40)
masks = st.integers(0, 2**70)


@st.composite
def reads(draw: st.DrawFn) -> Read:
    reached = draw(st.sampled_from(Reached))
    mask = draw(st.integers(0, 2**70)) if reached is Reached.PARTLY else 0
    return Read(draw(sizes), draw(sizes), reached, mask, draw(st.booleans()))


headers = st.builds(
    Header,
    kind=st.sampled_from(Kind),
    at=st.integers(0, 2**48),
    run=names,
    step=names,
    branch=names,
    salt=st.binary(min_size=SALT_SIZE, max_size=SALT_SIZE),
    input_digest=st.binary(min_size=INPUT_DIGEST_SIZE, max_size=INPUT_DIGEST_SIZE),
    cells=st.lists(st.builds(CellSize, names, sizes, st.booleans(), masks, masks), max_size=4).map(tuple),
    reads=st.lists(reads(), max_size=4).map(tuple),
    pinned_as_of=st.integers(0, 2**20),
    digest=st.binary(min_size=DIGEST_SIZE, max_size=DIGEST_SIZE),
)


def with_pins(header: Header, cut: int, reached: Reached) -> Header:
    """Return the header as one of a step that was shown pinned facts, if it says so."""
    return replace(header, pinned_cut=cut, pinned_reached=reached) if header.pinned_as_of else header


def with_tag(header: Header, tag: bytes) -> Header:
    """Return the header as one of a log with a key."""
    return replace(header, keyed=bool(tag), tag=tag)


tags = st.one_of(st.just(b""), st.binary(min_size=TAG_SIZE, max_size=TAG_SIZE))
headers = st.builds(with_tag, st.builds(with_pins, headers, sizes, st.sampled_from(Reached)), tags)


@given(st.lists(headers, max_size=6))
def test_a_log_of_headers_comes_back_equal(log: list[Header]) -> None:
    """Each is read with nothing but the headers before it."""
    writer, reader = Names(), Names()
    for header in log:
        stored = header.stored(encode_body(header, writer))
        assert decode_header(stored, reader) == header
        assert len(reader) == len(writer)


@given(st.lists(headers, min_size=2, max_size=6))
def test_names_are_spelled_out_once(log: list[Header]) -> None:
    """A header of names that the log knows holds none of them."""
    used = Names()
    for header in log:
        encode_body(header, used)
    before = len(used)
    for header in log:
        encode_body(header, used)
    assert len(used) == before


@given(headers, headers, headers)
def test_refused_entry_leaves_no_names(kept: Header, refused: Header, later: Header) -> None:
    """After a commit that was not kept, the next one is written as if it had never been tried."""
    tried, untried, reader = Names(), Names(), Names()
    assert encode_body(kept, tried) == encode_body(kept, untried)
    before = len(tried)
    encode_body(refused, tried)
    tried.cut_back(before)

    body = encode_body(later, tried)

    assert body == encode_body(later, untried)
    decode_header(kept.stored(encode_body(kept, Names())), reader)
    assert decode_header(later.stored(body), reader) == later


@given(headers, st.data())
def test_cut_header_is_refused(header: Header, data: st.DataObject) -> None:
    """Whatever part is missing: an error, never a shorter header, and never an `IndexError`."""
    stored = header.stored(encode_body(header, Names()))
    cut = data.draw(st.integers(0, len(stored) - 1))
    with pytest.raises(CorruptState):
        decode_header(stored[:cut], Names())


@given(st.binary(max_size=200))
def test_bytes_that_are_no_header_are_refused_or_read(raw: bytes) -> None:
    """No bytes raise anything but `CorruptState`, and none take long."""
    with suppress(CorruptState):
        decode_header(raw, Names())


def test_usual_header_is_small() -> None:
    """About 80 bytes once the names are known: that is what keeps a stored step near its payload."""
    used = Names()
    header = Header(
        kind=Kind.COMMIT,
        at=1_767_225_600_000,
        run="018f3a",
        step="look_up",
        cells=(CellSize("Order 1.0|order_id,signed", 938),),
        reads=(Read(1, 0, Reached.SENT), Read(2, 0, Reached.PARTLY, 5)),
    )
    encode_body(header, used)
    assert len(header.stored(encode_body(header, used))) < 95


def test_a_number_that_goes_on_for_ever_is_refused() -> None:
    """Reading it would cost the square of its length, so nobody can make us do that."""
    body = bytes([Kind.COMMIT]) + b"\x00" * INPUT_DIGEST_SIZE + b"\xff" * 2**22
    with pytest.raises(CorruptState):
        decode_header(b"\x00" * (DIGEST_SIZE + SALT_SIZE) + body, Names())
