"""What every test may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# One profile everywhere: a test that fails on one machine fails on all, and a busy machine with
# two cores is no reason to fail.
settings.register_profile("ci", deadline=None, derandomize=True)
# For a search at night: pytest --hypothesis-profile=search
settings.register_profile("search", deadline=None, derandomize=False, max_examples=2_000)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real public data beside the repository, or skip the test."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("needs the folder `shared` with real data beside the repository")
    return folder
