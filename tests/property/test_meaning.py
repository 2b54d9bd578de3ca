"""What holds for any two texts."""

from __future__ import annotations

import datetime as dt
import unicodedata
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from statepact.meaning import fold, ids_in, negated_at, normal_id, occurrence, stands_in, unknown_ids, value_texts

# Lone surrogates included: models and terminals do produce them.
anything = st.text(st.characters(exclude_categories=[]), max_size=60)
# Few characters that mean much here, so that values do meet texts.
dense = st.text(st.sampled_from("aKX19-_.,:'# ，、。不没要是就了款ßéＫ１‑²①\u0301\u200b\ud83d n"), max_size=40)
texts = anything | dense
scalars = (
    texts
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.booleans()
    | st.none()
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.binary()
)
values = st.recursive(scalars, lambda parts: st.lists(parts, max_size=3) | st.tuples(parts), max_leaves=5)

_DROPPED = dict.fromkeys(map(ord, "\u00ad\u200b\u200e\u200f\u2060\ufeff\ufe0e\ufe0f\u202a\u202b\u202c\u202d\u202e"))
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2212"), "-")


def plain(text: str) -> str:
    """Say independently of the library what two equal texts have in common."""
    text = text.translate(_DROPPED).translate(dict.fromkeys(range(0x2066, 0x206A)))
    for _ in range(2):
        text = unicodedata.normalize("NFKC", text).casefold()
    return "".join(unicodedata.normalize("NFKC", text).translate(_HYPHENS).split())


@given(texts, texts)
def test_an_occurrence_says_the_value(value: str, around: str) -> None:
    """No span is ever reported whose text differs from the value after normalisation."""
    for text in (around, f"{around} {value} {around}", f"{around}{value}{around}"):
        found = occurrence(value, text)
        if found is not None:
            assert plain(text[found.start : found.end]) == plain(value)
            assert fold(text[found.start : found.end]).text == fold(value).text.strip()


@given(texts)
def test_a_value_that_says_something_stands_in_itself(value: str) -> None:
    found = occurrence(value, f"\n{value}\n")

    assert (found is not None) == bool(fold(value).text.strip()) or unicodedata.combining(fold(value).text.strip()[0])


@given(texts)
def test_folding_keeps_track_of_the_source(text: str) -> None:
    folded = fold(text)

    assert len(folded.text) == len(folded.starts) == len(folded.ends)
    assert list(folded.starts) == sorted(folded.starts)
    assert list(folded.ends) == sorted(folded.ends)
    assert all(0 <= start < end <= len(text) for start, end in zip(folded.starts, folded.ends, strict=True))


@given(st.integers(min_value=-(10**20), max_value=10**20), st.integers(min_value=-(10**20), max_value=10**20))
@example(45, 450)
@example(45, -45)
@example(1, 10000)
def test_one_number_never_proves_another(written: int, known: int) -> None:
    for form in value_texts(written):
        assert (stands_in(known, f"the total is {form} EUR") is not None) == (written == known) or " " in form


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9))
def test_every_form_of_a_value_stands_for_it(value: Decimal) -> None:
    assert all(stands_in(value, f"({form})") for form in value_texts(value))


@settings(max_examples=50)
@given(st.dates(), st.dates())
@example(dt.date(2000, 1, 1), dt.date(2001, 1, 1))
def test_one_date_never_proves_another(written: dt.date, known: dt.date) -> None:
    for form in value_texts(written):
        if f"{written.year:04}" in form:
            assert (stands_in(known, form) is not None) == (written == known)


@given(values, texts, st.integers(-5, 80), st.integers(-5, 80))
def test_nothing_raises(value: object, text: str, start: int, end: int) -> None:
    negated_at(text, start, end)
    value_texts(value)
    stands_in(value, text)
    normal_id(text)
    unknown_ids(text, [text[::-1], text[:10]])


@given(texts)
def test_ids_are_spans_of_the_text_and_never_unknown_to_it(text: str) -> None:
    spans = ids_in(text)

    assert all(text[span.start : span.end] == span.text for span in spans)
    assert all(before.end <= after.start for before, after in pairwise(spans))
    assert unknown_ids(text, [text]) == ()


@given(st.uuids(), st.uuids())
def test_a_uuid_is_known_in_either_case_and_only_then(one: object, other: object) -> None:
    assert unknown_ids(str(one).upper(), [f"id={one}"]) == ()
    if one != other:
        assert len(unknown_ids(str(one), [str(other)])) == 1


@pytest.mark.parametrize(
    "piece", ["a", "不", "not ", "没有", "1", "é", "e\u0301", " ", "是不是", "n't", "\ud83d", "1,"]
)
def test_large_texts_pass(piece: str) -> None:
    """Each of these is quadratic somewhere in a careless implementation."""
    text = piece * 100_000
    occurrence(piece * 50, text)
    occurrence("x", text)
    ids_in(text)
    negated_at(text, len(text) - 1, len(text))
    stands_in(45, text)
