"""One head for each sequence of digests, and the same one however it was reached."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statepact.ledger._mountain import Mountain

digests = st.lists(st.binary(min_size=32, max_size=32), max_size=40)
A, B, C = b"a" * 32, b"b" * 32, b"c" * 32


def test_last_entry_twice_is_another_log() -> None:
    """[a, b, c] and [a, b, c, c] have different heads, as have all the short ones around them."""
    logs = [[], [A], [A, A], [A, B], [B, A], [A, B, C], [A, B, C, C], [A, B, B, C], [A, B, C, C, C]]
    assert len({Mountain(log).root() for log in logs}) == len(logs)


@given(digests)
def test_growing_it_is_building_it_anew(log: list[bytes]) -> None:
    """After each entry the head is that of a mountain built from all entries so far."""
    growing = Mountain()
    for number, digest in enumerate(log):
        assert growing.root() == Mountain(log[:number]).root()
        growing.append(digest)
    assert growing.root() == Mountain(iter(log)).root()
    assert growing.size == len(log)


@given(digests, digests)
def test_different_logs_have_different_heads(one: list[bytes], other: list[bytes]) -> None:
    """Equal heads mean equal logs."""
    assert (Mountain(one).root() == Mountain(other).root()) is (one == other)


@given(digests.filter(lambda log: len(log) > 1), st.data())
def test_any_change_changes_the_head(log: list[bytes], data: st.DataObject) -> None:
    """One flipped bit, two exchanged entries, one left out, one added."""
    at = data.draw(st.integers(0, len(log) - 2))
    flipped = [*log[:at], bytes([log[at][0] ^ 1]) + log[at][1:], *log[at + 1 :]]
    exchanged = [*log[:at], log[at + 1], log[at], *log[at + 2 :]]
    heads = [Mountain(changed).root() for changed in (flipped, log[:at] + log[at + 1 :], [*log, log[-1]], [*log, A])]
    assert Mountain(log).root() not in heads
    assert (Mountain(exchanged).root() == Mountain(log).root()) is (exchanged == log)


@given(digests.filter(lambda log: len(log) > 1))
def test_node_does_not_pass_for_an_entry(log: list[bytes]) -> None:
    """A log of the peaks of another log has another head."""
    peaks = [peak for _, peak in Mountain(log)._peaks]
    assert Mountain(peaks).root() != Mountain(log).root()


def test_appending_costs_a_few_hashes() -> None:
    """The peaks stay few, however long the log is."""
    mountain = Mountain(n.to_bytes(32, "big") for n in range(10_000))
    assert len(mountain._peaks) == (10_000).bit_count()
