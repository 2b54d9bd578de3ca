"""The entry that stands for everything a retention rule has removed.

It keeps what the entries behind it need: the names that were given out, the peaks of the mountain
range, the tag with which the chain goes on, which runs there were, and the changes of shared values that
are still in force. Its body is that of a header without reads which introduces all names; its cells are
these changes, and behind the names it says where each of them came from.

Its payload is a list of leaves, as that of an entry of which something was erased, under a mark of its own:
who has read the log before it was cut must not take it for the entry that stood in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from statepact.errors import CorruptState
from statepact.ledger._digest import DIGEST_SIZE, INPUT_DIGEST_SIZE
from statepact.ledger._header import KEYED, CellSize, Kind, Numbers, numbered_cell, put
from statepact.ledger._mountain import heights_of

RETAINED = "retained"
"""Key in the record of a note: up to which revision a retention rule has removed the entries."""

BASE = "base"
"""Key in the record of a note: the digest of the base that stands for them, in hex. A base is no part of the
mountain range, but the note is; so whatever vouches for the note, a seal, a tag or an anchor, vouches for it."""


def retained_record(size: int, digest: bytes) -> dict[str, Any]:
    """Return what a note says of the base that stands in the place of entry `size`.

    Whoever makes a log that begins with a base says so in it, or the check of the log finds a fault.
    """
    return {RETAINED: size, BASE: digest.hex()}


def removed_in(record: Mapping[str, Any]) -> int:
    """Return up to which revision a note says that entries were removed, 0 if it does not; raises `CorruptState`."""
    try:
        return int(record.get(RETAINED, 0))
    except (TypeError, ValueError) as error:
        raise CorruptState("what a note says was removed cannot be read") from error


class Origin(NamedTuple):
    """Where a change of a shared value was committed that a base carries on. It keeps this place for good."""

    revision: int
    cell: int
    run: str
    step: str
    branch: str


@dataclass(frozen=True, slots=True)
class Base:
    """What is known about removed entries."""

    size: int
    """Revision of the newest removed entry; the base stands in its place."""
    names: tuple[str, ...]
    peaks: tuple[bytes, ...]
    tag: bytes
    """Tag of the newest removed entry, empty in a log without a key."""
    runs: tuple[str, ...] = ()
    """The runs that are removed."""
    origins: tuple[Origin, ...] = ()
    """Where its cells came from, in their order."""


def base_body(base: Base, cells: Sequence[CellSize] = (), *, at: int, keyed: bool) -> bytes:
    """Return the bytes of a base that its digest covers; `cells` are the changes that it carries."""
    number = {name: place for place, name in enumerate(base.names)}
    # A base belongs to no run. What stands there is not looked at, but must be a name of the log.
    nobody = number.get("", 0)
    out = bytearray((Kind.BASE | keyed * KEYED,))
    out += b"\x00" * INPUT_DIGEST_SIZE
    put(out, (at, nobody, nobody, nobody, len(cells)))
    for cell in cells:
        put(out, (number[cell.contract], cell.size << 2 | cell.shared << 1 | 1, cell.omitted, cell.deleted))
    put(out, (0, 0, len(base.names)))
    for name in base.names:
        raw = name.encode()
        put(out, (len(raw),))
        out += raw
    put(out, (len(base.runs), *(number[run] for run in base.runs)))
    for origin in base.origins:
        put(out, (origin.revision, origin.cell, number[origin.run], number[origin.step], number[origin.branch]))
    put(out, (base.size, len(base.tag)))
    return bytes(out) + base.tag + b"".join(base.peaks)


def base_of(body: bytes) -> Base:
    """Return what a base says; raises `CorruptState` if it cannot be read."""
    try:
        numbers = Numbers(body)
        for _ in range(4):
            next(numbers)  # time, run, step, branch
        cells = [numbered_cell(numbers) for _ in range(next(numbers))]
        for _ in range(2):
            next(numbers)  # no reads, no pinned facts
        names = tuple(numbers.text(next(numbers)) for _ in range(next(numbers)))
        runs = tuple(names[next(numbers)] for _ in range(next(numbers)))
        origins = tuple(_origin(numbers, names) for _ in cells)
        size, tag_size = next(numbers), next(numbers)
        tag = numbers.raw(tag_size)
        peaks = tuple(numbers.raw(DIGEST_SIZE) for _ in heights_of(size))
    except (IndexError, ValueError) as error:
        raise CorruptState("the base of a log cannot be read") from error
    return Base(size, names, peaks, tag, runs, origins)


def _origin(numbers: Numbers, names: Sequence[str]) -> Origin:
    revision, cell = next(numbers), next(numbers)
    return Origin(revision, cell, *(names[next(numbers)] for _ in range(3)))
