"""Which values were made from others: what an erasure has to follow.

The headers say what each step was given and how it reached the step. A step that was given a value may
have put it into its output, so its output counts as derived; one of which the log knows that the value
did not reach it does not. Where nobody reported what was sent, it may have been.
"""

from __future__ import annotations

from statepact.ledger._header import Reached, Read
from statepact.ledger._log import SessionLog


def may_have_brought(read: Read, fields: frozenset[str], log: SessionLog) -> bool:
    """Whether a read may have brought one of these fields of its cell to a step."""
    if read.reached is not Reached.PARTLY or not log.keeps_cell(read.revision, read.cell):
        return True
    contract = log.cell(read.revision, read.cell).contract
    return any(read.mask >> number & 1 for number, field in enumerate(contract.fields) if field.name in fields)
