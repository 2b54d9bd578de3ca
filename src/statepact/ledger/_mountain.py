"""The head of a log: an append-only Merkle mountain range over the entries' digests.

Appending costs a constant number of hashes on average, the range is derivable from the digests
alone, and its root with its size stands for every entry and their order. The construction is the
one of certificate-transparency style logs (RFC 9162 trees without padding); the size goes into the
root, so that [a, b, c] and [a, b, c, c] differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

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

    @classmethod
    def of(cls, size: int, peaks: Sequence[bytes]) -> Mountain:
        """Return the range over `size` digests that are not there any more, from its peaks.

        Raises `ValueError` if a range of this size has another number of peaks.
        """
        heights = heights_of(size)
        mountain = cls()
        mountain._peaks = list(zip(heights, peaks, strict=True))
        mountain.size = size
        return mountain

    @property
    def peaks(self) -> tuple[bytes, ...]:
        """The peaks, the highest first. With the size they are all that is needed to go on."""
        return tuple(peak for _, peak in self._peaks)

    def append(self, digest: bytes) -> None:
        """Add the digest of the next entry."""
        self.append_tree(0, digest)

    def append_tree(self, height: int, node: bytes) -> None:
        """Add a whole tree of 2 ** height entries by its root; the size must be a multiple of that."""
        self.size += 1 << height
        while self._peaks and self._peaks[-1][0] == height:
            node = joined(self._peaks.pop()[1], node)
            height += 1
        self._peaks.append((height, node))

    def root(self) -> bytes:
        """Return the head over everything appended so far; an empty log has one, too."""
        state = hashlib.sha256(_HEAD + self.size.to_bytes(8, "big"))
        for _, peak in self._peaks:
            state.update(peak)
        return state.digest()


def joined(left: bytes, right: bytes) -> bytes:
    """Return the node above two nodes."""
    return hashlib.sha256(_PEAK + left + right).digest()


def heights_of(size: int) -> list[int]:
    """Return the heights of the peaks of a range, the highest first: the bits of its size."""
    return [bit for bit in range(size.bit_length() - 1, -1, -1) if size >> bit & 1]
