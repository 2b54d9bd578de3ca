"""A disk that forgets: from the record of what was written and synced, any state a power loss can leave.

Model: a write is safe once its file was synced after it, and not before; a new file is there once it or
its folder was synced. Of everything else a power loss keeps nothing, a prefix, any subset in any order,
or pieces of sectors. What is mapped into memory (`-shm`) is gone.

After a sync that failed, what was written before it may be on the disk or not, and no later sync makes it
safe: the kernel has taken it for written (Linux marks the pages clean). Only writing it again does.
"""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

How = Literal["nothing", "prefix", "subset", "torn", "everything"]
HOWS: tuple[How, ...] = ("nothing", "prefix", "subset", "torn")
"""Of a power loss; `everything` is left if only the process is killed."""
SECTOR = 512

MADE, WRITTEN, CUT, SYNCED, REMOVED, FOLDER_SYNCED, MARK, SYNC_FAILED = range(1, 9)
_RECORD = struct.Struct("=Iiqq")


class Op(NamedTuple):
    """One thing that happened to the disk, or a mark between."""

    kind: int
    file: int
    offset: int
    data: bytes


def read_trace(path: Path) -> list[Op]:
    """Return what the shim has written down; a last record that was cut off is left out."""
    return list(_ops(path.read_bytes()))


def _ops(raw: bytes) -> Iterator[Op]:
    at = 0
    while at + _RECORD.size <= len(raw):
        kind, file, offset, length = _RECORD.unpack_from(raw, at)
        at += _RECORD.size
        yield Op(kind, file, offset, raw[at : at + length])
        at += length


@dataclass
class Disk:
    """What is durable, and what is not yet."""

    durable: dict[int, bytearray] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    pending: list[Op] = field(default_factory=list)
    doubtful: int = 0
    """How many of the first of them a failed sync has left in doubt."""

    def apply(self, op: Op) -> None:
        """Take in the next thing that happened."""
        if op.kind == MADE:
            self.names[op.file] = op.data.decode()
        if op.kind == SYNCED:
            self._settle(lambda one: one.file == op.file and one.kind != REMOVED)
        elif op.kind == FOLDER_SYNCED:
            self._settle(lambda one: one.kind in (MADE, REMOVED))
        elif op.kind == SYNC_FAILED:
            self._doubt(op.file)
        elif op.kind != MARK:
            self.pending.append(op)

    def settle(self) -> None:
        """Take everything up to here for safe."""
        self._settle(lambda _: True)

    def _settle(self, chosen: Callable[[Op], bool]) -> None:
        doubted, rest = self.pending[: self.doubtful], []
        for op in self.pending[self.doubtful :]:
            if chosen(op):
                _do(self.durable, op)
                doubted = [left for old in doubted for left in _uncovered(old, op)]
            else:
                rest.append(op)
        self.doubtful = len(doubted)
        self.pending = doubted + rest

    def _doubt(self, file: int) -> None:
        known = self.pending[: self.doubtful]
        known += [op for op in self.pending[self.doubtful :] if op.kind == WRITTEN and op.file == file]
        rest = [op for op in self.pending[self.doubtful :] if op.kind != WRITTEN or op.file != file]
        self.doubtful, self.pending = len(known), known + rest

    def after_power_loss(self, how: How, chance: random.Random) -> dict[str, bytes]:
        """Return the files that are left, by name."""
        left = {file: bytearray(data) for file, data in self.durable.items()}
        for op in _kept(self.pending, how, chance):
            _do(left, op)
        return {self.names[file]: bytes(data) for file, data in left.items()}


def _kept(pending: list[Op], how: How, chance: random.Random) -> Iterator[Op]:
    if how == "everything":
        yield from pending
    elif how == "prefix":
        yield from pending[: chance.randint(0, len(pending))]
    elif how == "subset":
        yield from (op for op in pending if chance.random() < 0.5)
    elif how == "torn":
        for op in pending:
            if op.kind != WRITTEN:
                if chance.random() < 0.5:
                    yield op
                continue
            for start, end in _sectors(op):
                if chance.random() < 0.5:
                    yield op._replace(offset=start, data=op.data[start - op.offset : end - op.offset])


def _uncovered(old: Op, new: Op) -> Iterator[Op]:
    """Yield what is left of a write once a later one is safe."""
    start, end = old.offset, old.offset + len(old.data)
    if new.file != old.file or new.kind not in (WRITTEN, CUT):
        yield old
        return
    low = new.offset
    high = end if new.kind == CUT else low + len(new.data)
    if start < min(low, end):
        yield old._replace(data=old.data[: min(low, end) - start])
    if max(high, start) < end:
        yield old._replace(offset=max(high, start), data=old.data[max(high, start) - start :])


def _sectors(op: Op) -> Iterator[tuple[int, int]]:
    at, end = op.offset, op.offset + len(op.data)
    while at < end:
        border = min(end, (at // SECTOR + 1) * SECTOR)
        yield at, border
        at = border


def _do(files: dict[int, bytearray], op: Op) -> None:
    if op.kind == MADE:
        files.setdefault(op.file, bytearray())
        return
    data = files.get(op.file)
    if data is None:
        return  # written to a file of which the power loss has left no name
    if op.kind == WRITTEN:
        if len(data) < op.offset:
            data.extend(bytes(op.offset - len(data)))
        data[op.offset : op.offset + len(op.data)] = op.data
    elif op.kind == CUT:
        del data[op.offset :]
        data.extend(bytes(op.offset - len(data)))
    elif op.kind == REMOVED:
        del files[op.file]
