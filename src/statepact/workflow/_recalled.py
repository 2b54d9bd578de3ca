"""What a recall gives: one, several or nothing, and the question that several become."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from statepact.contracts import Contract
from statepact.contracts._clean import cut

C = TypeVar("C", bound=Contract)

LONGEST_QUOTE = 50
"""Characters of the words in which something was spoken of."""

MOST_NAMED = 4
"""Candidates that a question names; nobody chooses from more."""

_MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Generic[C]):
    """Something that a request may mean."""

    id: str
    """Its id as it was committed."""
    value: C
    """What was known about it then."""
    session: str
    run: str
    at: datetime
    """When it was committed, in the time zone of the recall."""
    quote: str
    """What the run was asked, at most 50 characters around the id; empty if it was not asked in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled(Generic[C]):
    """What a request means among what earlier runs of its owner were about.

    ```python
    recalled = await ctx.recall(Order)
    if recalled.one:
        order = recalled.one.value
    else:
        return Reply(text=recalled.question)
    ```
    """

    candidates: tuple[Candidate[C], ...]
    """All that fit, the latest first."""
    is_sure: bool
    """Whether a single candidate is what the request means; otherwise it is only close to it."""
    question: str
    """What to ask the customer, in the language of the request; empty if there is one."""
    unread: int = 0
    """Values that are there, but were written under a version of the contract that cannot be read."""

    @property
    def one(self) -> Candidate[C] | None:
        """The one that is meant, `None` if there are several or none."""
        return self.candidates[0] if len(self.candidates) == 1 and self.is_sure else None

    @property
    def several(self) -> tuple[Candidate[C], ...]:
        """Those among which only the customer can choose; empty if there is one or none."""
        return () if self.one is not None else self.candidates

    @property
    def nothing(self) -> bool:
        """Whether nothing fits."""
        return not self.candidates


def question_for(candidates: Sequence[Candidate[C]], request: str) -> str:
    """Return what to ask, in the language of the request: Chinese if it has Chinese in it, else English."""
    chinese = any("\u4e00" <= char <= "\u9fff" for char in request)
    if not candidates:
        return (
            "没有找到对应的记录，请提供完整的编号。" if chinese else "I found no such record. What is its full number?"
        )
    named = [_named(candidate, chinese) for candidate in candidates[:MOST_NAMED]]
    more = len(candidates) - len(named)
    if chinese:
        rest = f"，还是另外{more}个中的一个" if more else ""
        return f"您指的是{'、'.join(named)}{rest}？" if more or len(named) == 1 else f"您指的是{'，还是'.join(named)}？"
    if more:
        named.append(f"one of {more} others")
    return f"Do you mean {', '.join(named[:-1])}{' or ' if len(named) > 1 else ''}{named[-1]}?"


def _named(candidate: Candidate[C], chinese: bool) -> str:
    at, quote = candidate.at, candidate.quote
    if chinese:
        return f"{candidate.id}（{at.month}月{at.day}日" + (f"：“{quote}”）" if quote else "）")
    return f"{candidate.id} ({at.day} {_MONTHS[at.month - 1]}" + (f': "{quote}")' if quote else ")")


def quote_of(text: str, start: int, end: int) -> str:
    """Return at most 50 characters of a text around a place of it, word for word, cut between words."""
    first = max(0, min(start - (LONGEST_QUOTE - (end - start)) // 2, len(text) - LONGEST_QUOTE))
    if first and not text[first - 1].isspace():
        space = text.find(" ", first, start)
        first = space + 1 if space >= 0 else first
    while first < start and (unicodedata.combining(text[first]) or text[first] in "\u200d\ufe0f"):
        first += 1
    quote = cut(text[first:], LONGEST_QUOTE)
    if first + len(quote) < len(text) and text[first + len(quote)].isalnum():
        space = quote.rfind(" ", max(0, end - first))
        quote = quote[:space] if space > 0 else quote
    return " ".join(quote.split())
