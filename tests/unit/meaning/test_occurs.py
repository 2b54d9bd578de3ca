"""A value stands in a text as itself, or it does not."""

from __future__ import annotations

import pytest

from statepact.meaning import Occurrence, fold, occurrence


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("KX-1", "Your order (KX-1), shipped."),
        ("KX-1", "kx-1"),
        ("KX-1", "KX-1's parcel"),
        ("KX-1", "订单KX-1已发货"),
        ("KX-5512", "see invoice/KX-5512.pdf"),
        ("refund", "We start the Refund."),
        ("refund", "a full «refund»"),
        ("cold brew", "a cold\n  brew"),
        ("Größe", "die GRÖSSE passt"),
        ("café", "the cafe\u0301 is open"),
        ("预算有限", "客户预算有限，尽量便宜点"),
        ("神仙水230ml", "买了神仙水 230ml，瓶口漏液"),
        ("瓶口漏液", "瓶口 漏液"),
        ("45", "共45元"),
        ("45", "it costs 45€, or $45"),
        ("45", "EUR45"),
        ("230", "a 230ml bottle"),
        ("30", "a 30-day window"),
        ("45", "金额45，30天内退"),
        ("59.90", "59.90."),
        ("2026-11-30", "on 2026-11-30T19:45:00Z"),
        ("19:45", "at 19：45"),
        ("AB12", "ＡＢ１２"),
        ("1,234", "1,234 parcels"),
    ],
)
def test_a_value_stands_in_a_text(value: str, text: str) -> None:
    assert occurrence(value, text) is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("KX-1", "KX-12"),
        ("KX-1", "AKX-1"),
        ("KX-1", "KX-1-B"),
        ("KX-1", "EU-KX-1"),
        ("KX-1", "KX‑12 and KX-1\u200b2"),
        ("5512", "KX-5512"),
        ("refund", "refunds"),
        ("refund", "prerefund"),
        ("refund", "refund_id"),
        ("can", "we can't"),
        ("45", "450"),
        ("45", "4.5"),
        ("45", "45.5 kg"),
        ("45", "45,000"),
        ("45", "1,045"),
        ("45", "-45"),
        ("45", "30-45 minutes"),
        ("45", "30–45 minutes"),
        ("45", "19:45"),
        ("45", "45万元"),
        ("45", "45 thousand"),
        ("45", "45k"),
        ("45", "0.45"),
        ("45", ".45"),
        ("102", "10²"),
        ("500", "1\u00a0500"),
        ("2026", "2026-11-30"),
        ("e", "cafe\u0301"),
        ("s", "ß"),
        ("", "anything"),
        ("  ", "a  b"),
    ],
)
def test_a_part_of_something_else_is_not_the_value(value: str, text: str) -> None:
    assert occurrence(value, text) is None


def test_the_span_refers_to_the_original_text() -> None:
    """Folding changes lengths; offsets do not follow it."""
    text = "ßß  订单： ＫＸ‑５５１２ 已发货"
    found = occurrence("KX-5512", text)

    assert found == Occurrence(text.index("Ｋ"), text.index(" 已"), negated=False)


def test_models_write_other_hyphens_into_ids() -> None:
    """U+2011 looks the same and is what many models write."""
    assert occurrence("KX-5512", "Order KX\u20115512 is on its way.") is not None


def test_an_occurrence_outside_a_negation_wins() -> None:
    found = occurrence("refund", "Not a refund? Yes, the refund is coming.")

    assert found == Occurrence(23, 29, negated=False)


def test_the_first_denied_occurrence_is_returned_when_all_are() -> None:
    assert occurrence("退款", "不要退款，也不用退款") == Occurrence(2, 4, negated=True)


def test_a_text_can_be_folded_once_for_many_values() -> None:
    text = fold("Blade broke, refund wanted")

    assert [occurrence(value, text) is not None for value in ("blade", "refund", "lid")] == [True, True, False]


def test_known_to_be_wrong_single_letters_and_plain_spaces_in_numbers() -> None:
    """Current answers, stated in the docstring of `occurrence`."""
    assert occurrence("A", "a refund") is not None
    assert occurrence("500", "1 500 EUR") is not None


def test_hostile_text_is_cut_short_not_slow() -> None:
    """Every position matches and none is clean; the search gives up with "not proven"."""
    assert occurrence("a" * 5_000, "a" * 200_000) is None
    assert occurrence("x", "xx " * 100_000 + "x") is not None
    assert occurrence("a", "a" + "\u0301\u0316" * 100_000) is None
