"""How long a session stays in a cache."""

from __future__ import annotations

from datetime import timedelta

from statepact.ledger._lifetime import Lifetimes


def test_lifetime_grows_with_priority() -> None:
    """300 s, and 60 s more for each point."""
    assert [Lifetimes().keep(priority) for priority in (1, 2, 10)] == [360.0, 420.0, 900.0]


def test_priority_zero_is_kept_until_deleted() -> None:
    """Not 300 s, as the formula alone would say."""
    assert Lifetimes().keep(0) is None


def test_nothing_leaves_before_the_hot_time_is_over() -> None:
    """A short base does not push out the newest state."""
    assert Lifetimes(base=timedelta(seconds=1)).keep(1) == 300.0
