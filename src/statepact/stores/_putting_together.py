"""Putting merges together: of a hundred changes that added one to a counter, one change that says a hundred.

Only code that knows the contract can do that, because a log knows which fields a change has merged and not
by which rule. What a kept step was given stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from statepact.contracts import Contract, sensitive_fields
from statepact.ledger._blocks import take_apart
from statepact.ledger._cells import Cell
from statepact.ledger._described import describe, described
from statepact.ledger._partial import decode_fields, encode_fields
from statepact.ledger._retention import Carried
from statepact.ledger._shared import ABSENT, Folded, fold
from statepact.stores._open_log import OpenLog


async def put_together(log: OpenLog, carried: Sequence[Carried], contract: type[Contract]) -> list[Carried]:
    """Return the changes that a base carries on, with fewer of one shared value that make the same.

    Changes under another version, erased in part, sealed, or with nested fields that nobody has set stay as
    they are, and so do all of this value then.
    """
    ours = [one for one in carried if one.cell.contract.name == contract.contract_name]
    record = described(describe(contract))
    if any(one.cell.contract != record or one.cell.erased for one in ours) or sensitive_fields(contract):
        return list(carried)
    await log.fetch([one.cell for one in ours])
    if any(one.cell.unset for one in ours):
        return list(carried)
    new = dict.fromkeys((one.cell for one in ours), 0) | {one.cell: one.mask for one in ours}
    sums: dict[Cell, dict[str, Any]] = {}
    parts: dict[Cell, list[Cell]] = {}
    resets: dict[Cell, int] = {}
    for number, field in enumerate(record.fields):
        bit = 1 << number
        touching = [one for one in ours if one.mask & bit]
        merged = [one.cell for one in takewhile(lambda one: not one.given & bit, touching)]  # noqa: B023
        if len(merged) < 2:
            continue
        last = merged[-1]
        until = [one.cell for one in ours[: [one.cell for one in ours].index(last) + 1]]
        value = fold(Folded(contract), until, revision=last.revision).values.get(field.name, ABSENT)
        if value is ABSENT:
            continue
        sums.setdefault(last, {})[field.name] = value
        parts.setdefault(last, []).extend(merged[:-1])
        resets[last] = resets.get(last, 0) | bit
        for cell in merged[:-1]:
            new[cell] &= ~bit
    made = []
    for one in carried:
        mask = new.get(one.cell, one.mask)
        if not mask and not one.given:
            continue
        change = one._replace(mask=mask)
        if one.cell in sums:
            change = _with(change, contract, sums[one.cell], log.key.owner)
            change = change._replace(reset=resets[one.cell], of=tuple(parts[one.cell]))
        made.append(change)
    return made


def _with(change: Carried, contract: type[Contract], values: dict[str, Any], owner: str) -> Carried:
    """Return a change that says these values."""
    said = decode_fields(contract, change.cell.document or b"{}")
    fields = {name: value for name, value in said.items() if name not in change.dropped} | values
    ordered = {name: fields[name] for name in contract.model_fields if name in fields}
    return change._replace(written=take_apart(owner, encode_fields(contract, ordered).data))
