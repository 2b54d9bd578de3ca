"""The entry that stands for everything a retention rule has removed.

It keeps what the entries behind it need: the names that were given out, the peaks of the mountain
range, and the tag with which the chain goes on. Its body is that of a header without cells and reads
which introduces all names, and behind them size, peaks and tag.
"""

from __future__ import annotations

from dataclasses import dataclass

from statepact.errors import CorruptState
from statepact.ledger._digest import DIGEST_SIZE, INPUT_DIGEST_SIZE
from statepact.ledger._header import KEYED, Kind, Numbers, put
from statepact.ledger._mountain import heights_of


@dataclass(frozen=True, slots=True)
class Base:
    """What is known about removed entries."""

    size: int
    """Revision of the newest removed entry; the base stands in its place."""
    names: tuple[str, ...]
    peaks: tuple[bytes, ...]
    tag: bytes
    """Tag of the newest removed entry, empty in a log without a key."""


def base_body(base: Base, *, at: int, keyed: bool) -> bytes:
    """Return the bytes of a base that its digest covers."""
    # A base belongs to no run. What stands there is not looked at, but must be a name of the log.
    nobody = base.names.index("") if "" in base.names else 0
    out = bytearray((Kind.BASE | keyed * KEYED,))
    out += b"\x00" * INPUT_DIGEST_SIZE
    put(out, (at, nobody, nobody, nobody, 0, 0, 0, len(base.names)))
    for name in base.names:
        raw = name.encode()
        put(out, (len(raw),))
        out += raw
    put(out, (base.size, len(base.tag)))
    return bytes(out) + base.tag + b"".join(base.peaks)


def base_of(body: bytes) -> Base:
    """Return what a base says; raises `CorruptState` if it cannot be read."""
    try:
        numbers = Numbers(body)
        for _ in range(7):
            next(numbers)  # time, run, step, branch, no cells, no reads, no pinned facts
        names = tuple(numbers.text(next(numbers)) for _ in range(next(numbers)))
        size, tag_size = next(numbers), next(numbers)
        tag = numbers.raw(tag_size)
        peaks = tuple(numbers.raw(DIGEST_SIZE) for _ in heights_of(size))
    except (IndexError, ValueError) as error:
        raise CorruptState("the base of a log cannot be read") from error
    return Base(size, names, peaks, tag)
