"""Assigning to a field of a contract is an error for mypy, through pydantic's plugin.

pyright does not see it: it knows `frozen` only as a class keyword, and then asks every subclass to
repeat it, so that each contract of each user would be an error. Should it learn to, drop the line below.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=false

from __future__ import annotations

from statepact import Contract, Pinned


class Complaint(Contract, version="1.0"):
    product: str
    problem: Pinned[str]


complaint = Complaint(product="a", problem="b")
complaint.product = "other"  # type: ignore[misc]
complaint.problem = "other"  # type: ignore[misc]
