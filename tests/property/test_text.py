"""Whatever a model writes is read or refused, and an object is found wherever it stands."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statepact.contracts._contract import Contract
from statepact.contracts._text import read_text
from statepact.errors import ContractViolation, UnreadableText


class Answer(Contract):
    text: str
    count: int = 0
    price: Decimal | None = None
    more: dict[str, list[str]] = {}


braces = ['{"text":"a"}', '{"text":', '{"', "{", "}", "{}", "{a}", "[", "]", '{"text":"a","count":"7"}']
marks = ['"', "\\", ":", ",", "```json\n", "```", "~~~", "NaN", "1e999", "\n", " ", "\x00", "\ud83d", "包装", "\ufeff"]
pieces = st.sampled_from([*braces, *marks, '{"text":"a","text":"b"}'])
scraps = st.lists(pieces | st.text(max_size=5), max_size=12).map("".join)
good_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
prose = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='\x00{}[]`~"\ufeff'), max_size=30)
in_braces = prose | st.sampled_from(["use {braces} so", "{}", '{"word"} is a set', "f{i} and {j}"])
answers = st.builds(
    Answer,
    text=good_text,
    count=st.integers(),
    price=st.none() | st.decimals(allow_nan=False, allow_infinity=False),
    more=st.dictionaries(good_text, st.lists(good_text | st.just("```\n{x"), max_size=2), max_size=2),
)


@given(scraps, st.sampled_from(["stop", "length", "refusal", "other"]), st.sampled_from(["only", "first"]))
def test_any_text_is_read_or_refused(text: str, stop_reason: Any, choose: Any) -> None:
    try:
        read = read_text(Answer, text, stop_reason=stop_reason, choose=choose)
    except ContractViolation as error:
        str(error).encode()
    else:
        assert isinstance(read.value, Answer)


@given(
    answers,
    in_braces,
    in_braces,
    st.sampled_from(["", "```json\n", "```\n", "~~~\n", "``` "]),
    st.booleans(),
    st.booleans(),
)
def test_an_object_is_found_in_prose_and_fences(
    answer: Answer, before: str, after: str, fence: str, escaped: bool, indented: bool
) -> None:
    written = json.dumps(answer.model_dump(mode="json"), ensure_ascii=escaped, indent=2 if indented else None)
    closing = fence.strip().removesuffix("json")
    text = f"{before}\n{fence}{written}\n{closing}\n{after}"

    read = read_text(Answer, text)

    assert read.value == answer
    assert str(read.value.price) == str(answer.price)
    assert ("unwrapped_fence" in read.marks) == bool(fence)
    assert ("prose_around" in read.marks) == bool((before + after).strip())


@given(answers, st.data())
def test_a_part_of_an_object_is_never_taken_for_the_whole(answer: Answer, data: st.DataObject) -> None:
    written = json.dumps(answer.model_dump(mode="json"), ensure_ascii=False)
    length = data.draw(st.integers(1, len(written) - 1))

    with pytest.raises(UnreadableText) as caught:
        read_text(Answer, written[:length], stop_reason="length")

    assert caught.value.reason == "incomplete"


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,20})\.[0-9]{1,30}", fullmatch=True))
def test_a_decimal_has_the_digits_that_were_written(digits: str) -> None:
    read = read_text(Answer, f'{{"text":"","price":{digits}}}')

    assert read.value.price is not None
    assert read.value.price.as_tuple() == Decimal(digits).as_tuple()
