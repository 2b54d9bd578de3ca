"""No digest of one kind can pass for one of another, and each covers everything that it should."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from statepact.ledger._digest import (
    INPUT_DIGEST_SIZE,
    SALT_SIZE,
    block_digest,
    entry_digest,
    input_digest,
    leaf_digest,
    merkle_root,
    new_salt,
)
from statepact.ledger._mountain import Mountain

SALT = b"s" * SALT_SIZE
leaves = st.lists(st.binary(min_size=32, max_size=32), max_size=9)


@given(st.binary(max_size=80))
def test_kinds_of_digest_are_kept_apart(data: bytes) -> None:
    """The same bytes as leaf, node, entry, input, block and peak: six digests."""
    digests = [
        leaf_digest(b"\x00" * SALT_SIZE, 0, data),
        merkle_root([data[:32].ljust(32), data[32:64].ljust(32)]),
        entry_digest(data, [data[:32].ljust(32)]),
        input_digest("", "", "", [data]),
        block_digest("", data),
        Mountain([data]).root(),
    ]
    assert len({digest[:INPUT_DIGEST_SIZE] for digest in digests}) == 6


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_leaf_covers_salt_place_and_bytes(one: bytes, other: bytes) -> None:
    """Two cells of a commit with the same bytes have different leaves."""
    assert leaf_digest(SALT, 0, one) != leaf_digest(SALT, 1, one)
    assert leaf_digest(SALT, 0, one) != leaf_digest(b"t" * SALT_SIZE, 0, one)
    assert (leaf_digest(SALT, 0, one) == leaf_digest(SALT, 0, other)) is (one == other)


@given(leaves, leaves)
def test_root_differs_when_the_leaves_differ(one: list[bytes], other: list[bytes]) -> None:
    """Number and order of leaves are covered by the entry's digest."""
    assert (entry_digest(b"h", one) == entry_digest(b"h", other)) is (one == other)


@given(leaves.filter(bool))
def test_last_leaf_twice_is_another_entry(some: list[bytes]) -> None:
    """An odd leaf moves up; nothing is doubled, so nothing can be doubled unnoticed."""
    assert entry_digest(b"h", some) != entry_digest(b"h", [*some, some[-1]])


def test_root_of_two_leaves_is_not_the_entry_of_their_node() -> None:
    """A node put in the place of a leaf does not make the same entry."""
    a, b = b"a" * 32, b"b" * 32
    assert entry_digest(b"h", [a, b]) != entry_digest(b"h", [merkle_root([a, b])])


def test_header_is_covered() -> None:
    """An entry's digest changes with every byte of its header."""
    header = bytes(range(60))
    flipped = [header[:n] + bytes([header[n] ^ 1]) + header[n + 1 :] for n in range(60)]
    assert len({entry_digest(raw, [b"x" * 32]) for raw in [header, *flipped]}) == 61


def test_input_digest_is_the_same_step_again() -> None:
    """Run, step, branch and the inputs in their order decide, and nothing else does."""
    inputs = [b"1" * 32, b"2" * 32]
    same = input_digest("r", "s", "b", inputs)
    others = [
        input_digest("x", "s", "b", inputs),
        input_digest("r", "x", "b", inputs),
        input_digest("r", "s", "x", inputs),
        input_digest("r", "s", "b", inputs[::-1]),
        input_digest("r", "s", "b", inputs[:1]),
        input_digest("r", "sb", "", inputs),
        input_digest("rs", "b", "", inputs),
    ]
    assert input_digest("r", "s", "b", iter(inputs)) == same
    assert all(one != other for one, other in combinations([same, *others], 2))


def test_block_address_covers_the_owner() -> None:
    """Equal texts of two owners have addresses that say nothing about each other. FC-75."""
    addresses = [block_digest(owner, data) for owner, data in [("ua", b"x"), ("ub", b"x"), ("u", b"ax"), ("ua", b"y")]]
    assert len(set(addresses)) == 4


def test_salts_are_fresh() -> None:
    """No two entries share one."""
    salts = {new_salt() for _ in range(100)}
    assert len(salts) == 100
    assert {len(salt) for salt in salts} == {SALT_SIZE}
