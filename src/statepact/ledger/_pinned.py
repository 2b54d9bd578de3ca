"""Pinned facts by rule: which of them came along with a step, said in two numbers and not in a read each.

Most steps are shown all pinned facts of their run, so the header says up to which revision, and how
many of the oldest had no room. Who writes it and who reads it need the same idea of "all": it is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from statepact.ledger._cells import Cell, Entry
from statepact.ledger._header import Header, Reached, Read
from statepact.ledger._log import SessionLog


def may_be_cut(cell: Cell) -> bool:
    """Whether room may be made by leaving out the pinned facts of a cell that are no limits.

    What a run was asked is shown as its request, so it takes no room among the pinned facts.
    """
    return not cell.is_request


def reads_of(log: SessionLog, entry: Entry) -> Sequence[Read]:
    """Return all that a step was given: the reads of its header, and those that the header's rule stands for."""
    return all_reads(log, entry.header)


def all_reads(log: SessionLog, header: Header) -> Sequence[Read]:
    """Return the same from a header, which need not be in the log yet."""
    if not header.pinned_as_of:
        return header.reads
    return (*header.reads, *_by_rule(log, header))


def _by_rule(log: SessionLog, header: Header) -> Iterator[Read]:
    named = {(read.revision, read.cell) for read in header.reads}
    left = header.pinned_cut
    for cell in log.pinned(header.run, header.pinned_as_of):
        if (cell.revision, cell.number) in named:
            continue
        if header.pinned_reached is Reached.UNKNOWN:
            yield Read(cell.revision, cell.number, declared=False)
            continue
        mask = 0
        if header.pinned_reached is Reached.SENT:
            contract = cell.contract
            mask = contract.pinned_mask
            if left and mask != contract.limit_mask and may_be_cut(cell):
                mask = contract.limit_mask
                left -= 1
        yield Read(cell.revision, cell.number, Reached.PARTLY, mask, declared=False)
