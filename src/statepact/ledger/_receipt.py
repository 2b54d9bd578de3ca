"""What a client keeps of a commit beside the store."""

from __future__ import annotations

from typing import NamedTuple

from statepact.ledger._key import SessionKey


class Receipt(NamedTuple):
    """Names one entry for ever: its place, and the digest of what it is. About 50 bytes; holds no value."""

    key: SessionKey
    revision: int
    digest: bytes
