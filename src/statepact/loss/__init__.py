"""Loss: what was known, delivered, owed and contradicted, as pure functions of a run's log."""

from __future__ import annotations

from statepact.contracts import MASK
from statepact.loss._measure import measure
from statepact.loss._report import (
    SIGNS,
    ChangedId,
    Conflict,
    Delivery,
    Ledger,
    LedgerRow,
    Loss,
    LossReport,
    Obligation,
)

__all__ = [
    "MASK",
    "SIGNS",
    "ChangedId",
    "Conflict",
    "Delivery",
    "Ledger",
    "LedgerRow",
    "Loss",
    "LossReport",
    "Obligation",
    "measure",
]
