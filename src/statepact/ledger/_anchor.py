"""A head that was kept outside the store: what makes a removal of the newest entries visible."""

from __future__ import annotations

from typing import NamedTuple

from statepact.errors import SetupError
from statepact.ledger._digest import DIGEST_SIZE


class Anchor(NamedTuple):
    """How many entries a log had, and the head over them."""

    size: int
    head: bytes

    def __str__(self) -> str:
        return f"{self.size}:{self.head.hex()}"


def anchor_of(text: str) -> Anchor:
    """Return the anchor that `statepact verify` has printed as `SIZE:HEX`. Raises `SetupError`."""
    size, colon, head = text.strip().partition(":")
    try:
        anchor = Anchor(int(size), bytes.fromhex(head))
    except ValueError:
        anchor = Anchor(-1, b"")
    if not colon or anchor.size < 0 or len(anchor.head) != DIGEST_SIZE:
        raise SetupError("an anchor is SIZE:HEX", hint="give the head as `statepact verify` has printed it")
    return anchor
