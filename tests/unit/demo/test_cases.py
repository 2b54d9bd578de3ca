"""The demo's cases: their truth can be checked, and no note gives it away."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import chain, permutations
from pathlib import Path
from typing import get_args

import pytest

from statepact.demo._cases import DEMANDS, Case, Lang, choose, shop_cases
from statepact.demo._notes import notes_for
from statepact.demo._retail import RETAIL_DEMANDS, retail_cases
from statepact.demo._team import Demand
from statepact.errors import SetupError

LANGS: tuple[Lang, Lang] = ("en", "zh")
RETAIL = Path(__file__).resolve().parents[4] / "shared" / "data" / "tau_retail"

needs_retail = pytest.mark.skipif(not RETAIL.is_dir(), reason="the tau retail set is not next to the repository")


def all_cases() -> tuple[Case, ...]:
    return tuple(chain.from_iterable(shop_cases(lang) for lang in LANGS))


def own_values(case: Case) -> set[str]:
    both = (case, case.corrected())
    return {value.casefold() for c in both for name, value in c.truth.items() if name != "demand"}


def test_a_record_can_hold_every_demand_of_every_case() -> None:
    """The record's choice is written out for type checkers; it must not fall behind the cases."""
    assert set(get_args(Demand)) == {*chain(*DEMANDS.values()), *RETAIL_DEMANDS.values(), ""}


# -- the shop ------------------------------------------------------------------------------------


def test_the_shop_has_forty_english_and_twenty_chinese_complaints() -> None:
    """The numbers that the README gives; ids are unique over both languages."""
    assert [len(shop_cases(lang)) for lang in LANGS] == [40, 20]
    assert len({case.id for case in all_cases()}) == 60


def test_every_case_carries_four_short_facts() -> None:
    """Truth is exact and bounded, so a record's field can hold it and be compared with it."""
    for case in all_cases():
        assert list(case.truth) == ["order_id", "product", "problem", "demand"]
        assert all(0 < len(value) <= 40 and value == value.strip() for value in case.truth.values()), case.id
        assert case.demand in DEMANDS[case.lang]


def test_no_fact_is_part_of_another_case_s_fact() -> None:
    """A value found in a record belongs to one case only, before and after corrections."""
    values = [value for case in all_cases() for value in sorted(own_values(case))]

    assert len(values) == len(set(values))
    assert [pair for pair in permutations(values, 2) if pair[0] in pair[1]] == []


def test_every_product_stands_in_its_order() -> None:
    """A looked-up order is enough to name the product, also the corrected one."""
    for case in all_cases():
        items = [item["name"] for item in case.order["items"]]
        assert case.order["order_id"] == case.order_id
        assert case.product in items
        assert case.corrected().product in items


def test_most_complaints_name_order_and_product_and_some_do_not() -> None:
    """Otherwise the look-up would add nothing, or the complaint could not be understood."""
    for lang in LANGS:
        cases = shop_cases(lang)
        for named in (sum(c.order_id in c.text for c in cases), sum(c.product in c.text for c in cases)):
            assert 0.8 * len(cases) <= named < len(cases)


def test_the_problem_is_in_the_customer_s_words() -> None:
    """Whoever reads the complaint can quote the problem; nobody has to guess our wording."""
    for case in all_cases():
        assert case.problem is not None
        assert case.problem.casefold() in case.text.casefold(), case.id


def test_every_demand_occurs_and_means_the_same_in_both_languages() -> None:
    """No demand is in the vocabulary for show."""
    assert len(DEMANDS["en"]) == len(DEMANDS["zh"])
    for lang in LANGS:
        assert {case.demand for case in shop_cases(lang)} == set(DEMANDS[lang])


def test_chinese_complaints_use_full_width_punctuation() -> None:
    """They read as a Chinese customer types, apart from order ids."""
    for case in shop_cases("zh"):
        said = case.text + (case.correction.text if case.correction else "")
        assert not re.search(r"[,;:!?()]", said), case.id


def test_long_order_ids_stay_strings() -> None:
    """Nineteen digits do not fit a float, so an id that passes through one is changed."""
    long = [case.order_id for case in all_cases() if case.order_id.isdigit() and len(case.order_id) == 19]

    assert len(long) >= 10
    assert all(str(int(float(order_id))) != order_id for order_id in long)


def test_a_correction_changes_exactly_the_fact_it_names() -> None:
    """At least 15 English and 8 Chinese complaints have one; the message itself says the new value."""
    corrected = {lang: [case for case in shop_cases(lang) if case.correction] for lang in LANGS}
    assert len(corrected["en"]) >= 15
    assert len(corrected["zh"]) >= 8

    for case in chain.from_iterable(corrected.values()):
        fix, after = case.correction, case.corrected()
        assert fix is not None
        assert {name for name, value in after.truth.items() if case.truth[name] != value} == {fix.field}
        assert after.truth[fix.field] == fix.value
        assert fix.field == "demand" or fix.value.casefold() in fix.text.casefold()
        assert after.text == f"{case.text}\n{fix.text}"
        assert after.demand in DEMANDS[case.lang]
        assert after.corrected() == after


def test_a_case_without_correction_is_its_own_corrected_case() -> None:
    """Callers can always ask for the corrected case."""
    case = next(case for case in all_cases() if case.correction is None)

    assert case.corrected() is case


def test_truth_leaves_out_a_problem_that_is_not_known() -> None:
    """What the source does not say is not counted as lost."""
    case = replace(shop_cases("en")[0], problem=None)

    assert list(case.truth) == ["order_id", "product", "demand"]


# -- choosing ------------------------------------------------------------------------------------


def test_choose_is_deterministic_and_only_appends() -> None:
    """The ten cases of a quick run are the first ten of a long one; another seed draws others."""
    cases = shop_cases("en")

    ten = choose(cases, 10, seed=7)

    assert ten == choose(cases, 10, seed=7) == choose(cases, 20, seed=7)[:10]
    assert ten != choose(cases, 10, seed=8)
    assert len({case.id for case in ten}) == 10


def test_choose_gives_all_when_asked_for_more() -> None:
    """The length tells the caller; a negative number is refused instead of cut from the end."""
    cases = shop_cases("zh")

    assert sorted(case.id for case in choose(cases, 99, seed=1)) == sorted(case.id for case in cases)
    assert choose(cases, 0, seed=1) == ()
    with pytest.raises(SetupError):
        choose(cases, -1, seed=1)


# -- notes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True])
def test_notes_never_hold_a_fact_of_their_case(hard: bool) -> None:
    """A right order id, product or problem in the final record cannot have come from a note."""
    for lang in LANGS:
        pool = shop_cases(lang)
        for case in pool:
            for note in notes_for(case, count=40, seed=3, pool=pool, hard=hard):
                assert not [value for value in own_values(case) if value in note.text.casefold()]


def test_notes_are_deterministic_different_per_case_and_only_appended() -> None:
    """Seed, case and pool decide; a run with more notes has the same ones first."""
    for lang in LANGS:
        pool = shop_cases(lang)
        drawn = {case.id: notes_for(case, count=24, seed=1, pool=pool) for case in pool}
        assert len(set(drawn.values())) == len(pool)

        case = pool[0]
        assert notes_for(case, count=24, seed=1, pool=pool) == drawn[case.id]
        assert notes_for(case, count=8, seed=1, pool=pool) == drawn[case.id][:8]
        assert notes_for(case, count=24, seed=2, pool=pool) != drawn[case.id]
        assert notes_for(case, count=0, seed=1, pool=pool) == ()


def test_notes_are_single_lines_that_differ_and_are_filled_in() -> None:
    """Two hundred notes for one case, from many agents, without a repetition."""
    for lang in LANGS:
        pool = shop_cases(lang)
        notes = notes_for(pool[0], count=200, seed=1, pool=pool)
        assert len(set(notes)) == len(notes) == 200
        assert len({note.agent for note in notes}) >= 14
        assert not any(re.search(r"[\n{}]|None", note.text) for note in notes)


def test_ordinary_notes_are_about_other_customers() -> None:
    """Without `hard`, the customer's other orders are not mentioned either."""
    pool = shop_cases("en")
    for case in pool:
        same_customer = {c.order_id for c in pool if c.customer == case.customer} | {case.other_order_id or "-none-"}
        notes = notes_for(case, count=24, seed=1, pool=pool)
        assert not [order for order in same_customer for note in notes if order in note.text]


def test_hard_notes_mix_in_the_customer_s_other_order() -> None:
    """Every fourth note is about it; the demand it names is never the customer's own."""
    for lang in LANGS:
        pool = shop_cases(lang)
        for case in (case for case in pool if case.other_order_id):
            notes = notes_for(case, count=16, seed=1, pool=pool, hard=True)
            about = [note.text for note in notes if str(case.other_order_id) in note.text]
            assert len(about) == 4
            wanted = {case.demand, case.corrected().demand}
            vocabulary = set(DEMANDS[lang]) - wanted
            assert not [text for text in about for demand in wanted if demand in text]
            assert any(demand in text for text in about for demand in vocabulary)


def test_hard_notes_of_a_customer_with_one_order_are_ordinary_notes() -> None:
    """There is nothing to confuse, and the number of notes stays what was asked for."""
    pool = shop_cases("en")
    case = next(case for case in pool if case.other_order_id is None)

    assert notes_for(case, count=9, seed=1, pool=pool, hard=True) == notes_for(case, count=9, seed=1, pool=pool)


def test_a_pool_without_other_customers_is_refused() -> None:
    """Fewer notes than asked for would be another condition without saying so."""
    case = shop_cases("en")[0]

    with pytest.raises(SetupError, match="no case of another customer"):
        notes_for(case, count=1, seed=1, pool=[case, *shop_cases("zh")])


# -- the retail set ------------------------------------------------------------------------------


@pytest.mark.data
@needs_retail
def test_retail_tasks_that_change_no_order_are_skipped_and_counted() -> None:
    """Every task is a case or counted; at least sixty are cases."""
    found = retail_cases(RETAIL)

    assert len(found.cases) >= 60
    assert found.skipped > 0
    assert len(found.cases) + found.skipped == len(json.loads((RETAIL / "tasks.json").read_bytes()))
    assert len({case.id for case in found.cases}) == len(found.cases)


@pytest.mark.data
@needs_retail
def test_retail_truth_comes_from_the_looked_up_order_and_the_right_answer() -> None:
    """The product stands in the order, the demand in the vocabulary; problems only with a reason given."""
    cases = retail_cases(RETAIL).cases
    for case in cases:
        assert case.order["order_id"] == case.order_id != case.other_order_id
        assert case.product in [item["name"] for item in case.order["items"]]
        assert case.demand in RETAIL_DEMANDS.values()
        assert (case.problem is not None) == (case.demand == "cancellation")
        assert case.text

    case = cases[0]
    for note in notes_for(case, count=40, seed=1, pool=cases, hard=True):
        assert not [value for value in own_values(case) if value in note.text.casefold()]


DB = b'{"orders": {"#1": {"order_id": "#1", "user_id": "u", "status": "pending", "items": []}}, "users": {}}'
TASK = (
    b'[{"id": "7", "user_scenario": {"instructions": {"reason_for_call": "You have second thoughts."}},'
    b' "evaluation_criteria": {"actions": [{"name": "cancel_pending_order", "arguments": {%s}}]}}]'
)


@pytest.mark.parametrize(
    ("db", "tasks", "where"),
    [
        (None, None, r"cannot read .*db\.json"),
        (DB, None, r"cannot read .*tasks\.json"),
        (b"not json", TASK, r"db\.json is not the tau retail set's"),
        (b'{"orders": {}}', TASK, r"users: Field required"),
        (DB, b'[{"id": "7"}]', r"0\.user_scenario: Field required"),
        (DB, TASK % b"", r"task '7' has a call order_id: Field required"),
        (DB, TASK % b'"order_id": "#2"', r"task '7' changes an order that db\.json does not have"),
        (DB, TASK % b'"order_id": "#1"', r"task '7' concerns no item that its order has"),
    ],
)
def test_a_wrong_retail_folder_is_explained(tmp_path: Path, db: bytes | None, tasks: bytes | None, where: str) -> None:
    """What, where and what to do, whichever way the folder is wrong; no value of the files is shown."""
    for name, content in (("db.json", db), ("tasks.json", tasks)):
        if content is not None:
            (tmp_path / name).write_bytes(content)

    with pytest.raises(SetupError, match=where) as caught:
        retail_cases(tmp_path)
    assert "db.json and tasks.json" in caught.value.hint
    assert "second thoughts" not in str(caught.value)
