"""The complaints that the demo's team answers, each with the facts its answer must carry.

A case is one customer's complaint together with the order behind it and with what is true about
it: order id, product, problem and demand. The truth is never shown to a model; it is what the
final record is compared with. The shop in `shop.json` is invented: sixty complaints, forty in
English and twenty in Chinese. Order id and product stand in most complaints but not in all, so
some facts can only come from the looked-up order, as in real life.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

import orjson

from statepact.errors import SetupError

Lang = Literal["en", "zh"]
"""Language of a case: of its text, its facts and the notes about it."""

DEMANDS: Mapping[Lang, tuple[str, ...]] = MappingProxyType(
    {
        "en": ("refund", "replacement", "repair", "exchange", "discount", "spare part"),
        "zh": ("退款", "换新", "维修", "换货", "补偿", "配件"),
    }
)
"""What a customer of the shop may want. The n-th word means the same in both languages.

A replacement (换新) is the same article again, an exchange (换货) another size, colour or model.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What the customer takes back later, in a message of its own.

    There is no correction of the order id: with another order everything else would change too.
    """

    field: Literal["product", "problem", "demand"]
    value: str
    """What is true from now on. A product stands in the same order as the first one."""

    text: str
    """The customer's message. A new product or problem stands in it word for word (case aside)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One complaint, the order behind it, and what is true about it."""

    id: str
    lang: Lang
    text: str
    """What the customer wrote."""

    customer: str
    """Who wrote it: a name in the shop, a user id in the retail set. One customer may have several cases."""

    order_id: str
    product: str
    """Name of one of the order's items, exactly as it stands there."""

    problem: str | None
    """What is wrong, in the customer's words; `None` if the source gives no problem."""

    demand: str
    order: Mapping[str, Any] = field(hash=False)
    """The record that a look-up returns: `order_id`, `customer`, `items` (`name`, `quantity`, `price`),
    `signed` (ISO date, `None` if not signed or not known), `amount` (a string) and `currency`."""

    other_order_id: str | None = None
    """Another order of the same customer, for notes that are easily confused; `None` if there is none."""

    other_product: str | None = None
    """First item of that other order."""

    correction: Correction | None = None

    @property
    def truth(self) -> dict[str, str]:
        """The facts that the final record must carry, by field name, in a fixed order.

        `problem` is left out where the source gives none, so count the entries, not the cases.
        """
        facts = {"order_id": self.order_id, "product": self.product, "problem": self.problem, "demand": self.demand}
        return {name: value for name, value in facts.items() if value is not None}

    def corrected(self) -> Case:
        """Return the case as it stands after its correction, or the case itself if it has none.

        The correction's message is appended to the text as a line of its own. The id stays, so
        the notes drawn for the case stay the same.
        """
        fix = self.correction
        if fix is None:
            return self
        return replace(
            self,
            text=f"{self.text}\n{fix.text}",
            product=fix.value if fix.field == "product" else self.product,
            problem=fix.value if fix.field == "problem" else self.problem,
            demand=fix.value if fix.field == "demand" else self.demand,
            correction=None,
        )


def shop_cases(lang: Lang) -> tuple[Case, ...]:
    """Return the invented shop's complaints in one language, in file order: 40 in English, 20 in Chinese."""
    shop: dict[str, Any] = orjson.loads(files("statepact.demo").joinpath("shop.json").read_bytes())
    names = {customer["id"]: customer["name"] for customer in shop["customers"]}
    orders = {order["order_id"]: {**order, "customer": names[order["customer"]]} for order in shop["orders"]}
    # An order without a complaint makes the better distraction: nothing that is noted about it
    # can contradict another case.
    complained = {entry["truth"]["order_id"] for entry in shop["complaints"]}
    calm_first = sorted(orders.values(), key=lambda order: order["order_id"] in complained)
    return tuple(_case(entry, orders, calm_first) for entry in shop["complaints"] if entry["lang"] == lang)


def choose(cases: Sequence[Case], n: int, *, seed: int) -> tuple[Case, ...]:
    """Draw `n` cases without repetition; the same arguments always give the same cases in the same order.

    If there are fewer than `n`, all of them are returned: compare the length. A larger `n` only
    appends, so the ten cases of a quick run are the first ten of a long one.
    """
    if n < 0:
        raise SetupError("a negative number of cases was asked for", hint="ask for 0 or more cases")
    drawn = list(cases)
    random.Random(f"{seed}").shuffle(drawn)
    return tuple(drawn[:n])


def _case(
    entry: Mapping[str, Any],
    orders: Mapping[str, Mapping[str, Any]],
    calm_first: Sequence[Mapping[str, Any]],
) -> Case:
    truth = entry["truth"]
    order = orders[truth["order_id"]]
    others = (o for o in calm_first if o["customer"] == order["customer"] and o is not order)
    other = next(others, None)
    return Case(
        id=entry["id"],
        lang=entry["lang"],
        text=entry["text"],
        customer=order["customer"],
        order_id=truth["order_id"],
        product=truth["product"],
        problem=truth["problem"],
        demand=truth["demand"],
        order=order,
        other_order_id=other["order_id"] if other else None,
        other_product=other["items"][0]["name"] if other else None,
        correction=Correction(**entry["correction"]) if "correction" in entry else None,
    )
