"""Cases from the tau retail set, for a measurement on texts that nobody here wrote.

The set gives a customer's request and the tool calls that answer it rightly. We take as true only
what those calls say: the order and the demand from the first call that changes an order, the
product from the first item it names, the problem from its reason. Calls that concern a whole
order (cancel, new address, new payment) name no item; there the order's first item counts.
Nothing of the set is copied here; the folder is the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from statepact.demo._cases import Case
from statepact.errors import SetupError

RETAIL_DEMANDS: Mapping[str, str] = MappingProxyType(
    {
        "cancel_pending_order": "cancellation",
        "return_delivered_order_items": "return",
        "exchange_delivered_order_items": "exchange",
        "modify_pending_order_items": "item change",
        "modify_pending_order_address": "address change",
        "modify_pending_order_payment": "payment change",
    }
)
"""What a retail customer may want, by the tool call that does it."""

_HINT = "point at the folder of the tau retail set that holds db.json and tasks.json, unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetailCases:
    """What could be made of the set, and how much could not."""

    cases: tuple[Case, ...]
    """In the order of the tasks. Several tasks may be about the same customer, even the same order."""

    skipped: int
    """Tasks whose right answer changes no order, so that they have no order id or demand to keep."""


class _Item(BaseModel):
    item_id: str
    name: str
    price: Decimal


class _Order(BaseModel):
    order_id: str
    user_id: str
    status: str
    items: list[_Item]


class _User(BaseModel):
    orders: list[str]


class _Database(BaseModel):
    orders: dict[str, _Order]
    users: dict[str, _User]


class _Action(BaseModel):
    name: str
    arguments: dict[str, Any]


class _Instructions(BaseModel):
    reason_for_call: str
    known_info: str | None = None


class _Scenario(BaseModel):
    instructions: _Instructions


class _Criteria(BaseModel):
    actions: list[_Action] | None = None


class _Task(BaseModel):
    id: str
    user_scenario: _Scenario
    evaluation_criteria: _Criteria | None = None


class _Write(BaseModel):
    """Arguments of a call that changes an order, as far as a case needs them."""

    order_id: str
    item_ids: list[str] = []
    reason: str | None = None


def retail_cases(folder: Path) -> RetailCases:
    """Read `db.json` and `tasks.json` of the tau retail set and return the cases found in them.

    Raises `SetupError` if a file is missing, is not JSON, lacks something, or if the two files do
    not belong together; the message says where.
    """
    database = _read(folder / "db.json", TypeAdapter(_Database))
    tasks = _read(folder / "tasks.json", TypeAdapter(list[_Task]))
    found = [case for task in tasks if (case := _case(task, database)) is not None]
    return RetailCases(cases=tuple(found), skipped=len(tasks) - len(found))


def _case(task: _Task, database: _Database) -> Case | None:
    criteria = task.evaluation_criteria
    changes = [a for a in (criteria.actions if criteria else None) or [] if a.name in RETAIL_DEMANDS]
    if not changes:
        return None
    writes = [_arguments(task, change) for change in changes]
    order = database.orders.get(writes[0].order_id)
    if order is None:
        raise _mismatch(task, "changes an order that db.json does not have")
    item = _concerned(writes[0], order)
    if item is None:
        raise _mismatch(task, "concerns no item that its order has")
    # An order that another call of the same task changes is part of the request, not a distraction.
    part_of_request = {write.order_id for write in writes}
    other = _other_order(order, database, without=part_of_request)
    said = task.user_scenario.instructions
    return Case(
        id=f"retail-{task.id}",
        lang="en",
        text="\n".join(part for part in (said.reason_for_call, said.known_info) if part),
        customer=order.user_id,
        order_id=order.order_id,
        product=item.name,
        problem=writes[0].reason,
        demand=RETAIL_DEMANDS[changes[0].name],
        order=_record(order),
        other_order_id=other.order_id if other else None,
        other_product=other.items[0].name if other else None,
    )


def _arguments(task: _Task, action: _Action) -> _Write:
    try:
        return _Write.model_validate(action.arguments)
    except ValidationError as error:
        raise _mismatch(task, f"has a call {_where(error)}") from None


def _concerned(write: _Write, order: _Order) -> _Item | None:
    if not write.item_ids:
        return next(iter(order.items), None)
    return next((item for item in order.items if item.item_id == write.item_ids[0]), None)


def _other_order(order: _Order, database: _Database, *, without: set[str]) -> _Order | None:
    user = database.users.get(order.user_id)
    listed = [database.orders[name] for name in (user.orders if user else []) if name in database.orders]
    return next((o for o in listed if o.items and o.order_id not in without), None)


def _record(order: _Order) -> dict[str, Any]:
    # The set has no dates and one row per piece, hence no `signed` and a quantity of one. Prices
    # come from JSON numbers; two digits are what they were written with.
    return {
        "order_id": order.order_id,
        "customer": order.user_id,
        "items": [{"name": item.name, "quantity": 1, "price": f"{item.price:.2f}"} for item in order.items],
        "signed": None,
        "status": order.status,
        "amount": f"{sum((item.price for item in order.items), Decimal(0)):.2f}",
        "currency": "USD",
    }


_T = TypeVar("_T")


def _read(path: Path, shape: TypeAdapter[_T]) -> _T:
    try:
        return shape.validate_json(path.read_bytes())
    except OSError as error:
        raise SetupError(f"cannot read {path}: {error.strerror or type(error).__name__}", hint=_HINT) from error
    except ValidationError as error:
        # Not chained: the text of a ValidationError holds values.
        raise SetupError(f"{path} is not the tau retail set's {path.name}\n  {_where(error)}", hint=_HINT) from None


def _where(error: ValidationError) -> str:
    problems = error.errors(include_input=False, include_context=False, include_url=False)
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"]) or "(whole file)"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place}: {first['msg']}{more}"


def _mismatch(task: _Task, what: str) -> SetupError:
    return SetupError(f"tasks.json: task {task.id!r} {what}", hint=_HINT)
