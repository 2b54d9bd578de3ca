"""The clock of tests, and how the package's names are loaded."""

from __future__ import annotations

import pytest

import statepact.testing
from statepact.testing import FakeClock, StoreSuite
from statepact.workflow._clock import Clock


def test_time_stands_still_until_it_is_moved() -> None:
    """Milliseconds, forward only."""
    clock: Clock = FakeClock(1_000)
    assert (clock.now(), clock.now()) == (1_000, 1_000)
    assert isinstance(clock, FakeClock)
    clock.advance(1.5)
    assert clock.now() == 2_500
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


async def test_sleeping_returns_at_once_and_is_recorded() -> None:
    """A day passes in no time, and the test can see what was slept."""
    clock = FakeClock(0)
    await clock.sleep(86_400)
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.slept == [86_400, 0, -1]
    assert clock.now() == 86_400_000


def test_public_names() -> None:
    """What `__all__` promises is there, and nothing else is invented."""
    assert statepact.testing.__all__ == sorted(statepact.testing.__all__)
    assert all(hasattr(statepact.testing, name) for name in statepact.testing.__all__)
    assert StoreSuite.__name__ == "StoreSuite"
    with pytest.raises(AttributeError):
        statepact.testing.Nothing  # noqa: B018
