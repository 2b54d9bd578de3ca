"""A step's hold on a shared value of the session: what it has read of it, and how it changes it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

from statepact.contracts import Contract, label, open_path, pinned_fields
from statepact.contracts._fields import merge_rules
from statepact.contracts._merge import Differing, Merge
from statepact.errors import ConflictingValues, SetupError, StateError
from statepact.ledger._partial import checked_fields, given
from statepact.ledger._shared import ABSENT, Folded, How, merged_into, whole
from statepact.ledger._unset import unset_in

C = TypeVar("C", bound=Contract)


class Shared(Generic[C]):
    """A value that all runs of a session share: `basket: Shared[Basket]` as a parameter of a step.

    What a step changes is committed together with its output, or not at all. Who commits first wins. A
    step that changes fields without having read them is put behind the winner. One that has read what
    the winner changed runs again on the new value; so only read what you need.

    ```python
    @shop.step
    async def check_out(basket: Shared[Basket]) -> Receipt:
        coupon = basket.fields.coupon      # read one field
        basket.set(coupon=None)            # null is a value
        basket.delete("phone")             # gone
        basket.merge(visits=1)             # by the merge rule of the field, here Merge.add
        ...
    ```
    """

    def __init__(self, folded: Folded[C], *, step: str) -> None:
        self._folded = folded
        self._step = step
        self._changes: dict[str, tuple[How, Any]] = {}
        self._read: set[str] = set()
        self._closed = False

    @property
    def contract(self) -> type[C]:
        """The contract of the value."""
        return self._folded.contract

    @property
    def revision(self) -> int:
        """The revision of the session at which the value was read."""
        return self._folded.revision

    # -- reading ---------------------------------------------------------------------------------

    @property
    def value(self) -> C:
        """The whole value with this step's own changes; counts as reading all of it.

        Its `model_fields_set` are the fields that are there; the others hold their defaults. Raises
        `MissingInput` if a required field was never set, `Deleted` if it was deleted.
        """
        self._note_read(*self.contract.model_fields)
        return whole(self._folded, self._now())

    @property
    def fields(self) -> C:
        """The fields one by one: `basket.fields.coupon` reads `coupon` and nothing else."""
        return cast(C, _Fields(self))

    def read(self, name: str) -> Any:
        """Return one field; its default if it is not there. Raises `MissingInput` and `Deleted`."""
        self._check(name)
        self._note_read(name)
        now = self._now()
        value = now[name] if name in now else self._folded.default(name)
        if value is ABSENT:
            raise self._folded.absent(name)
        return copy.deepcopy(value)

    def has(self, name: str) -> bool:
        """Whether a field is there: set, if only to null, and not deleted. Counts as reading it."""
        self._check(name)
        self._note_read(name)
        return name in self._now()

    # -- changing --------------------------------------------------------------------------------

    def set(self, **fields: Any) -> None:
        """Set fields, whatever they held. Raises `ContractViolation` with all problems."""
        self._set(self._checked(fields))

    def delete(self, *names: str) -> None:
        """Remove fields: they are gone, and readers see their default. Not the same as null."""
        self._check(*names)
        self._open()
        self._changes |= dict.fromkeys(names, (How.DELETE, None))

    def merge(self, **fields: Any) -> None:
        """Merge into fields by their merge rules: `merge(count=2)` adds two under `Merge.add`.

        Nobody's merge is lost however many there are at once, and the step need not run again. Only
        rules of your own and `Merge.union` of dicts look at the value, and so count as reading it.
        """
        rules = merge_rules(self.contract)
        if without := [name for name in fields if name in self.contract.model_fields and name not in rules]:
            raise SetupError(
                f"{', '.join(without)} of shared {label(self.contract)} has no merge rule",
                hint="mark the field: Annotated[int, Merge.add]; or set it",
            )
        for name, value in self._checked(fields).items():
            self._merge(name, value, rules[name])

    def replace(self, value: C) -> None:
        """Put a whole value in its place: fields that `value` does not set are gone."""
        if type(value) is not self.contract:
            raise SetupError(f"shared {label(self.contract)} cannot be replaced by {type(value).__name__}")
        fields = self._checked({name: getattr(value, name) for name in value.model_fields_set})
        self.delete(*(name for name in self.contract.model_fields if name not in fields))
        self._set(fields)

    def _set(self, fields: Mapping[str, Any]) -> None:
        self._changes |= {name: (How.SET, value) for name, value in fields.items()}

    def _merge(self, name: str, value: Any, rule: Merge) -> None:
        how, before = self._changes.get(name, (None, None))
        if rule.name == "custom" or isinstance(value, dict):
            # It may fail, or say no. If it did so when others read the log, none of them could.
            self._note_read(name)
            now = self._now().get(name, ABSENT)
            self._set(self._checked({name: self._both(name, now, value)}))
        elif how is None:
            self._changes[name] = How.MERGE, value
        elif how is How.MERGE:
            self._changes[name] = How.MERGE, rule.both(before, value)
        else:
            earlier = before if how is How.SET else ABSENT
            self._changes[name] = How.SET, self._both(name, earlier, value)

    def _both(self, name: str, earlier: Any, later: Any) -> Any:
        try:
            return merged_into(self.contract, name, earlier, later)
        except Differing as differing:
            cell = self._folded.cells.get(name)
            raise ConflictingValues(
                label(self.contract),
                writers=[*([cell.writer] if cell is not None else []), self._step],
                fields=list(dict.fromkeys(open_path(self.contract, f"{name}.{key}") for key in differing.keys)),
            ) from None

    def _checked(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        self._open()
        side = f"a change of a shared value by step {self._step!r}"
        return given(checked_fields(self.contract, fields, side=side))

    def _check(self, *names: str) -> None:
        if unknown := [name for name in names if name not in self.contract.model_fields]:
            raise SetupError(
                f"{label(self.contract)} has no field {', '.join(map(repr, unknown))}",
                hint=f"it has: {', '.join(self.contract.model_fields)}",
            )

    def _open(self) -> None:
        if self._closed:
            raise StateError(
                f"shared {label(self.contract)} was changed after step {self._step!r} had committed",
                hint="change it before the commit: both are one",
            )

    # -- for the commit --------------------------------------------------------------------------

    def _now(self) -> dict[str, Any]:
        """Return the fields that are there, with this step's changes."""
        values = dict(self._folded.values)
        for name, (how, value) in self._changes.items():
            if how is How.DELETE:
                values.pop(name, None)
            elif how is How.SET:
                values[name] = value
            else:
                values[name] = self._both(name, values.get(name, ABSENT), value)
        return values

    def _note_read(self, *names: str) -> None:
        """Note fields as read, unless what they hold is this step's own word."""
        own = {name for name, (how, _) in self._changes.items() if how is not How.MERGE}
        self._read.update(name for name in names if name not in own)

    def _settle(self) -> None:
        """Check the value that the changes make, where validators of the user look at several fields."""
        if not self._changes:
            return
        decorators = self.contract.__pydantic_decorators__
        if decorators.model_validators or decorators.root_validators:
            self._note_read(*self.contract.model_fields)
        now = self._now()
        if all(name in now for name, info in self.contract.model_fields.items() if info.is_required()):
            whole(self._folded, now, side=f"what step {self._step!r} makes of a shared value")

    def _masks(self) -> tuple[dict[str, Any], int, int, tuple[str, ...]]:
        """Return what is to be written: fields, the masks `omitted` and `deleted`, nested unset paths."""
        fields = {name: value for name, (how, value) in self._changes.items() if how is not How.DELETE}
        omitted, paths = unset_in(checked_fields(self.contract, fields, side="a change of a shared value"))
        deleted = 0
        for number, name in enumerate(self.contract.model_fields):
            how, _ = self._changes.get(name, (How.MERGE, None))
            deleted |= (how is not How.MERGE) << number
        return fields, omitted, deleted, paths


class _Fields:
    """Looks like the value, and notes which of its fields somebody looks at."""

    def __init__(self, shared: Shared[Any]) -> None:
        self._shared = shared

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._shared.read(name)


def check_shareable(step: str, contract: type[Contract]) -> None:
    """Raise `SetupError` for a contract whose value a session cannot share."""
    if pinned := pinned_fields(contract):
        raise SetupError(
            f"step {step!r} shares {label(contract)}, whose field {pinned[0].name!r} is pinned",
            hint="pinned facts belong to one run: pin the field in a contract that a step returns",
        )
