"""Identifiers of records, and those that an output changed or made up."""

from __future__ import annotations

import pytest

from statepact.meaning import UnknownId, ids_in, normal_id, unknown_ids

FIRST = "a2361956-d9be-46cc-a587-be153680e3cf"
SECOND = "a2361956-11aa-4c1e-9a0b-77e0c4d1f002"
STATE = (f"order {FIRST}", f"order {SECOND}")


@pytest.mark.parametrize(
    "name",
    [
        *("KX-5512", "#W2378156", "EU-20418", "A7-0093-B", "7264519830127364511", "INC-48213", "1Z999AA10123456784"),
        *(FIRST, "HAT069", "sofia_hernandez_5364", "CA1234", "PROJ-42", "112-3456789-1234567", "#4521", "a2361956"),
        *("KX\u20115512", "ＫＸ－５５１２", "13800138000", "gift_card_1675628", "K1NW8N"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "Order {}, please.", "订单{}已发货", "({})", "orders/{}.", "id={}"])
def test_an_identifier_is_found(name: str, around: str) -> None:
    assert [span.text for span in ids_in(around.format(name))] == [name]


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-30", "30.11.2026", "11/30/2026", "30-Nov-2026", "20261130", "2026-11-30T19:45:00+08:00", "2026-11"),
        *("19:45", "19:45:30", "2026年11月30日", "in 2026", "2024-2026", "Q3-2026"),
        *(
            "59.90",
            "1,299.00",
            "€45",
            "€12800",
            "12800 EUR",
            "12800元",
            "¥12,800",
            "EUR 12800",
            "1.355,90 €",
            "CHF 1'234.50",
        ),
        *("12.5%", "10000%", "1234", "12 of 276", "45万", "v1.3", "7.4.19", "1.2.3-rc1", "10.0.0.1"),
        *("230ml", "20KB", "1080p", "1.5L", "1920x1080", "12800 tokens", "12800人", "30-day", "2-year-old", "24-hour"),
        *("+49 30 1234567", "138-0013-8000", "sofia8690@example.com", "1990s", "100th"),
        *(
            "covid-19",
            "Windows11",
            "iPhone15",
            "utf-8",
            "GPT-4o",
            "ISO-27001",
            "sha-256",
            "step_1",
            "b2b-sales",
            "H264",
        ),
        *("refund", "", "---", "###", "café12345"),
    ],
)
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert ids_in(text) == ()


def test_the_span_refers_to_the_original_text() -> None:
    text = "ß 订单： ＫＸ－５５１２，谢谢"
    (span,) = ids_in(text)

    assert text[span.start : span.end] == span.text == "ＫＸ－５５１２"


def test_ids_are_compared_without_case_and_hash() -> None:
    assert normal_id("#W2378156") == normal_id("w2378156") == normal_id(" Ｗ2378156 ")
    assert normal_id("KX-5512") != normal_id("KX5512")


def test_a_shortened_id_that_fits_two_is_ambiguous_and_both_are_listed() -> None:
    (found,) = unknown_ids("Order a2361956 is ready", STATE)

    assert (found.kind, found.nearest, found.candidates) == ("ambiguous", None, (FIRST, SECOND))


def test_a_mistyped_digit_shows_the_nearest_id_and_corrects_nothing() -> None:
    wrong = FIRST[:-4] + "e3ce"

    assert unknown_ids(wrong, STATE) == (
        UnknownId(id=wrong, start=0, end=36, kind="changed", nearest=FIRST, distance=1, candidates=(FIRST,)),
    )


def test_an_id_in_capitals_is_the_same_id() -> None:
    assert unknown_ids(f"Order {FIRST.upper()}", STATE) == ()


def test_a_unique_beginning_is_truncated() -> None:
    (found,) = unknown_ids("A2361956-D9BE-46CC-A587", STATE)

    assert (found.kind, found.nearest) == ("truncated", FIRST)


def test_a_unique_end_is_truncated_too() -> None:
    (found,) = unknown_ids("incident 48213", ["INC-48213"])

    assert (found.kind, found.nearest) == ("truncated", "INC-48213")


@pytest.mark.parametrize(
    ("output", "distance"), [("KX-5521", 1), ("KX-5513", 1), ("KX5512", 1), ("KX-55122", 1), ("KY-5513", 2)]
)
def test_one_or_two_edits_are_a_change(output: str, distance: int) -> None:
    (found,) = unknown_ids(output, ["order KX-5512"])

    assert (found.kind, found.nearest, found.distance) == ("changed", "KX-5512", distance)


def test_an_id_like_none_that_is_known_is_unknown() -> None:
    (found,) = unknown_ids("order ZZ-99999, ZZ-99999 again", ["KX-5512"])

    assert found == UnknownId(id="ZZ-99999", start=6, end=14, kind="unknown")


def test_whatever_stands_in_a_known_text_is_known() -> None:
    """Short ids, numbers with a currency and parts of addresses count too; words around an id do not matter."""
    known = ["KX-5512", "paid 12800 EUR", "user: sofia8690@example.com", "#W2378156"]
    output = "KX-5512-related 12800 order_KX-5512 sofia8690 W2378156"

    assert unknown_ids(output, known) == ()


def test_a_prefix_in_capitals_or_another_word_is_part_of_the_id() -> None:
    """A gift card and a credit card of the same number are two records."""
    assert [found.kind for found in unknown_ids("INC-48213", ["48213"])] == ["unknown"]
    assert len(unknown_ids("gift_card_4421486", ["credit_card_4421486"])) == 1


def test_hostile_texts_pass() -> None:
    """Repetitions that would make a careless pattern start over at every character."""
    for piece in ("1,", "1.", "1-", "a-", "a.", "1'", "9", "a1", "a1-", "+1 ", "1.1aa", "#", "-abc", "a_1@"):
        ids_in(piece * 40_000 + "_")
    unknown_ids("x1-" * 40_000, ["-abc" * 40_000 + "-1"])


def test_every_id_is_checked_even_when_the_search_for_nearest_gives_up() -> None:
    known = [f"KX-{n:06}" for n in range(20_000)]
    output = " ".join(f"KX-{n:06}9Q" for n in range(0, 20_000, 10))

    assert len(unknown_ids(output, [" ".join(known)])) == 2_000
