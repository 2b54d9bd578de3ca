"""Nodes of a mountain range by place: what proofs are made of.

A node of height h stands for 2 ** h entries that begin at a multiple of that. Nodes over removed entries
are known as far as their base has kept them as peaks, and no proof for an entry that is kept needs others.
"""

from __future__ import annotations

from collections.abc import Sequence

from statepact.errors import Expired
from statepact.ledger._header import Kind
from statepact.ledger._log import SessionLog
from statepact.ledger._mountain import heights_of, joined


def spans_of(size: int) -> list[tuple[int, int]]:
    """Return where the peaks of a range begin, and their heights."""
    spans, start = [], 0
    for height in heights_of(size):
        spans.append((start, height))
        start += 1 << height
    return spans


def added_spans(old: int, new: int) -> list[tuple[int, int]]:
    """Return the largest trees by which a range of one size grows to another one, in order."""
    spans = []
    while old < new:
        height = (new - old).bit_length() - 1
        if old:
            height = min(height, (old & -old).bit_length() - 1)
        spans.append((old, height))
        old += 1 << height
    return spans


class Tree:
    """The nodes over a log's digests. No payload is read; a node costs one hash for each entry below it."""

    def __init__(self, log: SessionLog) -> None:
        self._key = log.key
        self._known: dict[tuple[int, int], bytes] = {}
        if log.base is not None:
            self._known.update(zip(spans_of(log.base.size), log.base.peaks, strict=True))
        for entry in log.entries:
            if entry.header.kind is not Kind.BASE:
                self._known[entry.revision - 1, 0] = entry.header.digest

    def node(self, start: int, height: int) -> bytes:
        """Return a node. Raises `Expired` for one over entries that are removed."""
        known = self._known.get((start, height))
        if known is None:
            if height == 0:
                raise Expired(
                    f"revision {start + 1} of session {self._key.session!r} is older than what is kept",
                    hint="a retention rule has removed it; name a later head",
                )
            half = 1 << height - 1
            known = joined(self.node(start, height - 1), self.node(start + half, height - 1))
            self._known[start, height] = known
        return known

    def peaks(self, size: int) -> tuple[bytes, ...]:
        """Return the peaks of the range when it had this size."""
        return tuple(self.node(*span) for span in spans_of(size))

    def path(self, index: int, size: int) -> tuple[bytes, ...]:
        """Return the nodes beside the way from an entry up to its peak, from below."""
        start, height = peak_over(index, size)
        found = []
        while height:
            height -= 1
            half = 1 << height
            right = index >= start + half
            found.append(self.node(start if right else start + half, height))
            start += half if right else 0
        return tuple(reversed(found))


def peak_over(index: int, size: int) -> tuple[int, int]:
    """Return where the peak over an entry begins, and its height."""
    return next((start, height) for start, height in spans_of(size) if index < start + (1 << height))


def climbed(index: int, size: int, digest: bytes, path: Sequence[bytes]) -> bytes | None:
    """Return the peak to which a path leads from an entry's digest; `None` if it has another length."""
    start, height = peak_over(index, size)
    if len(path) != height:
        return None
    for level, beside in enumerate(path):
        digest = joined(beside, digest) if (index - start) >> level & 1 else joined(digest, beside)
    return digest
