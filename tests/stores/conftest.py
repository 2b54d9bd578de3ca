"""Servers for the stores that need one."""

from __future__ import annotations

from _postgres import postgres_database, postgres_server, postgres_url
from _valkey import valkey_server, valkey_url

__all__ = ["postgres_database", "postgres_server", "postgres_url", "valkey_server", "valkey_url"]
