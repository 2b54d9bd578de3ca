"""What one can do with a log holds on every store."""

from __future__ import annotations

from _backends import *  # noqa: F403 - fixtures
