"""A shared value of a session: the fold of all changes, in the order of the log, over all its runs.

A change holds the fields that it sets, deletes or merges, and nothing else. In its header, field by
field (`CellSize`): omitted and not deleted is untouched; deleted and omitted is gone; deleted and not
omitted is set anew; neither is merged by the rule of the field. So which fields have changed since some
revision is known without reading a value.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from statepact.contracts import Contract, check_version, sensitive_fields
from statepact.contracts._check import violation
from statepact.contracts._contract import label
from statepact.contracts._fields import merge_rules
from statepact.contracts._merge import Differing
from statepact.contracts._upgrade import renamed
from statepact.errors import CorruptState, Deleted, MissingInput, StepFailed, VersionMismatch
from statepact.ledger._cells import Cell
from statepact.ledger._codec import upgraded
from statepact.ledger._merging import applied
from statepact.ledger._partial import decode_fields, encode_fields

C = TypeVar("C", bound=Contract)

ABSENT: Any = PydanticUndefined
"""What a field holds that has neither been set nor has a default."""


class How(Enum):
    """What a change does to a field."""

    SET = "set"
    MERGE = "merge"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Folded(Generic[C]):
    """A shared value as it stood at a revision."""

    contract: type[C]
    revision: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)
    """The fields that are there. Never changed, and never given to anybody but as a copy."""
    cells: Mapping[str, Cell] = field(default_factory=dict)
    """For each field its last change, also if that has deleted it."""

    def default(self, name: str) -> Any:
        """Return what a reader sees in a field that is not there: its default, or `ABSENT`."""
        return default_of(self.contract, name)

    def absent(self, name: str) -> MissingInput | Deleted:
        """Return the error for a field that is not there and has no default."""
        what = f"{name} of shared {label(self.contract)}"
        if name in self.cells:
            cell = self.cells[name]
            return Deleted(f"{what} was deleted by step {cell.writer!r} at revision {cell.revision}")
        return MissingInput(f"{what} has not been set", hint="let a step set it first, or give it a default")


def default_of(contract: type[Contract], name: str) -> Any:
    """Return the default of a field, `ABSENT` if it has none."""
    info = contract.model_fields[name]
    return ABSENT if info.is_required() else info.get_default(call_default_factory=True, validated_data={})


def whole(folded: Folded[C], values: Mapping[str, Any], *, side: str = "a shared value") -> C:
    """Return fields of a shared value as an instance that nobody else holds.

    Raises `MissingInput` or `Deleted` for a required field that is not there, and `ContractViolation`.
    """
    contract = folded.contract
    for name, info in contract.model_fields.items():
        if name not in values and info.is_required():
            raise folded.absent(name)
    try:
        return contract.__pydantic_validator__.validate_python(  # type: ignore[no-any-return]
            copy.deepcopy(dict(values)), by_alias=False, by_name=True
        )
    except ValidationError as error:
        problem = violation(contract, error, side=side)
    raise problem


def shared_value(folded: Folded[C]) -> C | None:
    """Return a shared value for people outside a step; `None` if nobody has ever changed it."""
    return whole(folded, folded.values) if folded.cells else None


def document_of(contract: type[Contract], values: Mapping[str, Any]) -> bytes:
    """Return fields of a shared value as JSON, as a model is shown them."""
    return encode_fields(contract, values).data


def fold(start: Folded[C], cells: Iterable[Cell], *, revision: int) -> Folded[C]:
    """Return a shared value at a later revision; `cells` are its changes since, fetched and in order.

    Raises `VersionMismatch` for what this code cannot read, and `CorruptState`.
    """
    contract = start.contract
    values, last = dict(start.values), dict(start.cells)
    for cell in cells:
        check_version(contract, cell.contract.version)
        cell.must_be_open()
        version = cell.contract.version
        erased = cell.erased
        document = upgraded(contract, cell.document or b"", written=version)
        written = decode_fields(contract, document, unset=cell.unset)
        # By name and mask: what an upgrade adds to a whole value, nobody has said in a change.
        for number, name in enumerate(renamed(contract, version, [one.name for one in cell.contract.fields])):
            gone, said = bool(cell.deleted >> number & 1), not cell.omitted >> number & 1
            if not (gone or said) or name not in contract.model_fields:
                continue
            last[name] = cell
            if not said or (erased and cell.contract.fields[number].name in erased and gone):
                values.pop(name, None)
            elif erased and cell.contract.fields[number].name in erased:
                continue  # what was merged in is erased; what it was merged into is not
            elif name not in written:
                raise CorruptState(f"the change at revision {cell.revision} sets {name!r} and does not say to what")
            else:
                values[name] = written[name] if gone else _merged(contract, name, values, written[name], cell)
    return Folded(contract, revision, values, last)


def _merged(contract: type[Contract], name: str, values: Mapping[str, Any], later: Any, cell: Cell) -> Any:
    try:
        return merged_into(contract, name, values.get(name, ABSENT), later)
    except (StepFailed, Differing) as error:
        raise CorruptState(f"the change of {name!r} at revision {cell.revision} cannot be merged") from error


def merged_into(contract: type[Contract], name: str, earlier: Any, later: Any) -> Any:
    """Return a field after a merge; where it is not there, its default is what is merged into.

    Raises `VersionMismatch` if the contract has no rule for it, and what the rule raises.
    """
    rule = merge_rules(contract).get(name)
    if rule is None:
        raise VersionMismatch(
            f"a change merges {name!r} of shared {label(contract)}, which has no merge rule in this code",
            hint="keep the rule of a field as long as sessions live that have used it",
        )
    if earlier is ABSENT:
        earlier = default_of(contract, name)
    if earlier is ABSENT:
        return later
    what = f"shared {label(contract)}, field {name!r},"
    return applied(rule, (earlier, later), what=what, sensitive=name in sensitive_fields(contract))
