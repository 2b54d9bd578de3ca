"""Notes of other agents: what else is said in a busy team while one case is being worked on.

Between two steps of a case other agents write short lines about other customers' cases, with
their own order ids, products, amounts and demands. They are true, plausible and beside the point:
whoever passes on the conversation as a whole passes them on too. No note carries order id, product
or problem of the case itself, so a right one in the final record cannot have come from a note.
Demands are a handful of words: the right one may occur, said about somebody else.

A note depends on seed, case and pool only. Asking for more notes appends to the same ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from types import MappingProxyType

from statepact.demo._cases import Case, Lang
from statepact.errors import SetupError


@dataclass(frozen=True, slots=True)
class Note:
    """One line of another agent."""

    agent: str
    text: str


# About 26 tokens each once filled in (ids and amounts count a token per digit in small models).
_OTHER_CUSTOMERS: Mapping[Lang, tuple[Note, ...]] = MappingProxyType(
    {
        "en": (
            Note("warehouse", "{order} is back on the shelf: {product}, contents complete."),
            Note("billing", "{order}: invoice of {amount} {currency} sent again; asks for {demand}."),
            Note("logistics", "Parcel for {order} ({product}) missed the depot, next try tomorrow."),
            Note("returns desk", "{order}: label printed for the {product}, filed under {demand}."),
            Note("quality", "Third report this week about the {product}: {problem}. See {order}."),
            Note("supplier desk", "Asked the maker of the {product} ({order}); they propose {demand}."),
            Note("call centre", "Caller about {order} hung up; wanted {demand}, {amount} {currency}."),
            Note("fraud check", "{order} is clean, {amount} {currency} paid; go on with {demand}."),
            Note("workshop", "On the bench today: {product} from {order}, customer says {problem}."),
            Note("stock", "Only two pieces of {product} left; one is reserved for {order}."),
            Note("carrier claims", "Claim for {order} accepted, {amount} {currency}: {problem}."),
            Note("key accounts", "{order} is from a regular, {product}; settle with {demand} by Friday."),
            Note("night shift", "Moved {order} to tomorrow: {product}, {demand} not yet approved."),
            Note("bookkeeping", "Matched {amount} {currency} with {order}; {demand} booked."),
            Note("packing", "Photo added to {order}: {product} left in a double box."),
            Note("social media", "A post shows the {product}, {problem}; it seems to be {order}."),
        ),
        "zh": (
            Note("仓库", "{order}的{product}已退回入库，外箱拆过，配套齐全。"),
            Note("财务", "{order}发票已重开，金额{amount}元，客户诉求是{demand}。"),
            Note("物流", "{order}（{product}）未赶上今天的班车，明天再派。"),
            Note("退货组", "{order}的面单已打印，物品为{product}，按{demand}登记。"),
            Note("质检", "{product}本周第三次被反映{problem}，见{order}。"),
            Note("供应商对接", "已就{order}询问{product}厂家，对方建议{demand}。"),
            Note("呼叫中心", "{order}来电中途挂断，要求{demand}，涉及{amount}元。"),
            Note("风控", "{order}核查无异常，实付{amount}元，可以走{demand}。"),
            Note("维修间", "今天上台的是{order}的{product}，客户说{problem}。"),
            Note("库存", "{product}只剩两件，其中一件给{order}留着。"),
            Note("理赔", "{order}破损理赔通过，金额{amount}元，原因写的是{problem}。"),
            Note("大客户组", "{order}是老客户，{product}，请在周五前按{demand}处理完。"),
            Note("夜班", "{order}转到明天，{product}，{demand}还没审批。"),
            Note("出纳", "{amount}元已与{order}对上，{demand}入账，不用再催。"),
            Note("打包组", "{order}补了照片，{product}是双层箱发出的，{amount}元。"),
            Note("新媒体", "有人发帖晒{product}，说{problem}，看样子是{order}。"),
        ),
    }
)

_SAME_CUSTOMER: Mapping[Lang, tuple[Note, ...]] = MappingProxyType(
    {
        "en": (
            Note("billing", "{customer} also has {order}; it was settled with {demand} and closed."),
            Note("warehouse", "Other parcel of {customer}: {order}, {product}, left complete and undamaged."),
            Note("logistics", "{order} for {customer} went to a neighbour; {product}, nothing open."),
            Note("call centre", "{customer} once asked about {order}, the {product}; wanted {demand} then."),
            Note("returns desk", "No label for {order} of {customer}: {demand} withdrawn last month."),
            Note("bookkeeping", "Paid in full: {order}, {customer}, {product}. An older {demand} is booked."),
            Note("key accounts", "{customer} reviewed the {product} from {order}: happy, five stars."),
            Note("fraud check", "{customer}, second order {order}: same card and address, no objection."),
        ),
        "zh": (
            Note("财务", "{customer}名下还有{order}，那一单已按{demand}结清关闭。"),
            Note("仓库", "{customer}的另一个包裹{order}，{product}，发出时完好。"),
            Note("物流", "{customer}的{order}由邻居代收，{product}，没有遗留问题。"),
            Note("呼叫中心", "{customer}以前问过{order}的{product}，当时想要{demand}。"),
            Note("退货组", "{customer}的{order}不用打面单，上月已撤回{demand}申请。"),
            Note("出纳", "{order}款项已付清，{customer}，{product}，旧的{demand}已入账。"),
            Note("大客户组", "{customer}给{order}的{product}写了好评，五星。"),
            Note("风控", "{customer}的第二单{order}，同一张卡、同一地址，无异常。"),
        ),
    }
)

_EVERY_NTH = 4
"""In the hard condition one note in so many is about the customer's other order, from the second on."""


def notes_for(case: Case, *, count: int, seed: int, pool: Sequence[Case], hard: bool = False) -> tuple[Note, ...]:
    """Return `count` notes of other agents, the same for the same seed, case and pool.

    `pool` is where the other customers come from; cases of the same customer or in another
    language are passed over. With `hard`, every fourth note is about another order of this
    customer, if there is one. No note holds the case's order id, product or problem, nor what its
    correction makes of them. Raises `SetupError` if the pool has nobody else to write about.
    """
    rng = random.Random(f"{seed}:{case.id}")
    ordinary = _about_others(case, pool, rng)
    confusable = _about_same_customer(case, pool, rng) if hard else None
    notes: list[Note] = []
    for place in range(count):
        wanted = confusable if place % _EVERY_NTH == 1 else None
        note = next(wanted, None) if wanted else None
        notes.append(note or next(ordinary))
    return tuple(notes)


def _about_others(case: Case, pool: Sequence[Case], rng: random.Random) -> Iterator[Note]:
    """Yield notes without end: every other case once, then again with other templates."""
    own = _own_values(case)
    others = [c for c in pool if c.lang == case.lang and c.customer != case.customer]
    rng.shuffle(others)
    templates = list(_OTHER_CUSTOMERS[case.lang])
    rng.shuffle(templates)
    usable = False
    for lap in count_from():
        for place, other in enumerate(others):
            # The shift by lap pairs each case with every template once before a note repeats.
            note = _fill(templates[(place + lap) % len(templates)], _values(other), own)
            if note is not None:
                usable = True
                yield note
        if not usable and lap + 1 >= len(templates):
            raise SetupError(
                f"no notes can be written for case {case.id!r}: the pool has no case of another customer",
                hint="pass all cases of the set as the pool, not only the chosen ones",
            )


def _about_same_customer(case: Case, pool: Sequence[Case], rng: random.Random) -> Iterator[Note]:
    """Yield notes about the customer's other order without end, or none if there is none."""
    if case.other_order_id is None:
        return
    own = _own_values(case)
    # Another demand than the customer's own: the notes must not help.
    taken = {case.demand, case.corrected().demand}
    demands: list[str | None] = [*sorted({c.demand for c in pool if c.lang == case.lang} - taken)] or [None]
    templates = list(_SAME_CUSTOMER[case.lang])
    rng.shuffle(templates)
    product, customer = case.other_product, case.customer
    while True:
        usable = False
        for template in templates:
            values = {"order": case.other_order_id, "product": product, "customer": customer}
            note = _fill(template, {**values, "demand": rng.choice(demands)}, own)
            if note is not None:
                usable = True
                yield note
        if not usable:
            return


def _own_values(case: Case) -> tuple[str, ...]:
    """Return what no note about others may hold: facts before and after the correction."""
    after = case.corrected()
    found = (case.order_id, case.product, case.problem, after.product, after.problem)
    return tuple(value.casefold() for value in found if value)


def _values(case: Case) -> Mapping[str, str | None]:
    return {
        "order": case.order_id,
        "product": case.product,
        "problem": case.problem,
        "demand": case.demand,
        "amount": case.order.get("amount"),
        "currency": case.order.get("currency"),
    }


def _fill(template: Note, values: Mapping[str, str | None], own: Sequence[str]) -> Note | None:
    """Return the note, or `None` if a value it needs is missing or it would hold one of `own`."""
    if any(value is None and f"{{{name}}}" in template.text for name, value in values.items()):
        return None
    text = template.text.format_map(values)
    return None if any(value in text.casefold() for value in own) else Note(template.agent, text)
