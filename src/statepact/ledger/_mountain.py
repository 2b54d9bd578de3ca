"""The head of a log: an append-only Merkle mountain range over the entries' digests.

Appending costs a constant number of hashes on average, the range is derivable from the digests
alone, and its root with its size stands for every entry and their order. The construction is the
one of certificate-transparency style logs (RFC 9162 trees without padding); the size goes into the
root, so that [a, b, c] and [a, b, c, c] differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_PEAK = b"statepact peak 1\x00"
_HEAD = b"statepact head 1\x00"


class Mountain:
    """Peaks over the digests appended so far."""

    __slots__ = ("_peaks", "size")

    def __init__(self, digests: Iterable[bytes] = ()) -> None:
        self._peaks: list[tuple[int, bytes]] = []
        self.size = 0
        for digest in digests:
            self.append(digest)

    def append(self, digest: bytes) -> None:
        """Add the digest of the next entry."""
        height, node = 0, digest
        while self._peaks and self._peaks[-1][0] == height:
            node = hashlib.sha256(_PEAK + self._peaks.pop()[1] + node).digest()
            height += 1
        self._peaks.append((height, node))
        self.size += 1

    def root(self) -> bytes:
        """Return the head over everything appended so far; an empty log has one, too."""
        state = hashlib.sha256(_HEAD + self.size.to_bytes(8, "big"))
        for _, peak in self._peaks:
            state.update(peak)
        return state.digest()
