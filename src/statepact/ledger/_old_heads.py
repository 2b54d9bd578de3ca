"""The digests of removed entries: what proves a head that was kept elsewhere before a log was cut.

Of a removed entry its digest stays, 32 bytes that say nothing about values whose salts are gone. They lie
beside the base as large values, in pieces of equal size, so that only the last piece is written anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statepact.errors import CorruptState
from statepact.ledger._digest import DIGEST_SIZE
from statepact.ledger._mountain import Mountain

DIGESTS = "digests"
"""Key in the record of a base: the addresses of the pieces, in hex."""

PIECE = 4096 * DIGEST_SIZE
"""Bytes of a piece."""


def pieces_of_digests(digests: bytes) -> list[bytes]:
    """Return digests one behind the other in pieces."""
    return [digests[at : at + PIECE] for at in range(0, len(digests), PIECE)]


def addresses_of_digests(record: Mapping[str, Any]) -> list[bytes]:
    """Return the addresses of the pieces that a base names; raises `CorruptState` if they cannot be read."""
    try:
        return [bytes.fromhex(address) for address in record.get(DIGESTS, ())]
    except (ValueError, TypeError) as error:
        raise CorruptState("the digests that a base keeps cannot be read") from error


def root_of(digests: bytes, size: int) -> bytes:
    """Return the head over the oldest `size` entries."""
    return Mountain(digests[at : at + DIGEST_SIZE] for at in range(0, size * DIGEST_SIZE, DIGEST_SIZE)).root()


def belong_to(digests: bytes, size: int, peaks: Sequence[bytes]) -> bool:
    """Whether digests are those of the range with these peaks."""
    if len(digests) != size * DIGEST_SIZE:
        return False
    return root_of(digests, size) == Mountain.of(size, peaks).root()
