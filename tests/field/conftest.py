"""Field cases run on every store that they concern."""

from __future__ import annotations

from _backends import *  # noqa: F403 - fixtures
