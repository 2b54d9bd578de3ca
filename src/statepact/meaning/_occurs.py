"""Whether a value stands in a text as itself.

Texts are compared in a folded form: NFKC for letters, digits and punctuation, casefolded, runs of
whitespace as one space (none beside Chinese, where spaces mean nothing), one kind of hyphen (models
like to write U+2011 into ids), invisible marks dropped. Signs such as `²`, `½` and `①` stay as they
are: NFKC would turn 10² into 102. Every folded character remembers where it came from, so spans
always refer to the original text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from statepact.meaning._negation import negated_at

_INVISIBLE = frozenset("\u00ad\u200b\u200e\u200f\u2060\ufeff\ufe0e\ufe0f") | {
    chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
_HYPHENS = {ord(c): "-" for c in "\u2010\u2011\u2212"}
# Characters that fold one by one and only in case; most of any text, so they are taken in runs.
_PLAIN = re.compile(r"[!-~\u3001\u3002\u4e00-\u9fff]+")
# Thai, Lao, Burmese, Khmer, kana, Hangul, Chinese with its punctuation.
_BORDERLESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
# Sorting combining marks is quadratic in their number, so a longer pile is folded in pieces.
_MAX_CLUSTER = 31


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A span of the original text that says the value, and whether its clause denies it."""

    start: int
    end: int
    negated: bool


@dataclass(frozen=True, slots=True)
class Folded:
    """A text prepared for comparing; fold once to look up many values in it."""

    source: str
    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def whole(self, i: int, j: int) -> bool:
        """Whether `text[i:j]` begins and ends where characters of the source do (ß folds to ss)."""
        starts = self.starts
        return (i == 0 or starts[i] != starts[i - 1]) and (j == len(starts) or starts[j] != starts[j - 1])

    def raw(self, i: int) -> str:
        """Return the source character behind a folded one; empty outside the text."""
        return self.source[self.starts[i]] if 0 <= i < len(self.starts) else ""


def borderless(char: str) -> bool:
    """Whether a character belongs to a script that writes words without borders between them."""
    return char >= "\u0e00" and _BORDERLESS.match(char) is not None


def is_word(char: str) -> bool:
    """Whether a character continues a word or number of a script that has word borders."""
    if char == "_":
        return True
    # Circled numbers are list marks: in ①45 the number is 45.
    return char.isalnum() and not borderless(char) and not "\u2460" <= char <= "\u24ff"


def _joins(char: str) -> bool:
    """Whether NFKC may merge a character into the one before it."""
    if char < "\u0300":
        return False
    return unicodedata.combining(char) != 0 or "\u1160" <= char <= "\u11ff" or char in "\uff9e\uff9f"


@lru_cache(maxsize=4096)
def _fold_cluster(cluster: str) -> str:
    if unicodedata.category(cluster[0]) in ("No", "So"):
        return cluster.casefold()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", cluster).casefold())
    # A free-standing accent would become a space with a mark, which is not what was written.
    return cluster.casefold() if " " in folded else folded.translate(_HYPHENS)


def fold(text: str) -> Folded:
    """Prepare a text for comparing. Linear; accepts any string, lone surrogates included."""
    if text.isascii() and not re.search(r"[^\S ]|  ", text):
        return Folded(text, text.lower(), range(len(text)), range(1, len(text) + 1))
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at, size = 0, len(text)
    while at < size:
        begin, char = at, text[at]
        if run := _PLAIN.match(text, at):
            # The last character may carry a mark and then belongs to a cluster.
            at = run.end() - (run.end() < size and _joins(text[run.end()]))
            if at > begin:
                pieces.append(text[begin:at].lower())
                starts.extend(range(begin, at))
                ends.extend(range(begin + 1, at + 1))
                continue
        at += 1
        if char in _INVISIBLE:
            continue
        if char.isspace():
            while at < size and text[at].isspace():
                at += 1
            if (pieces and borderless(pieces[-1][-1])) or (at < size and borderless(text[at])):
                continue
            folded = " "
        else:
            while at < size and at - begin < _MAX_CLUSTER and _joins(text[at]):
                at += 1
            folded = _fold_cluster(text[begin:at])
        pieces.append(folded)
        starts.extend([begin] * len(folded))
        ends.extend([at] * len(folded))
    return Folded(text, "".join(pieces), starts, ends)


# -- borders -------------------------------------------------------------------------------------

Edge = Literal["open", "word", "id", "number"]
_NUMBER = re.compile(r"[-+]?[\d.,:/'-]*\d[\d.,:/'-]*")
_RUN_LIMIT = 128
_NUMBER_JOINERS = ".,:/'-~\u2013\u301c"
# What may follow a number without a space and leaves it the same number. No `k`, `m` or `s`: 45k is
# another number, 45m may be one, and "the 90s" is not 90.
_UNIT = re.compile(
    r"(?:ml|l|g|kg|mg|cm|mm|km|[kmgt]i?b|eur|usd|gbp|cny|rmb|jpy|chf|ms|min|h|hrs?|pcs|px|kwh?|mah|[kmg]?hz)(?![a-z0-9_])"
    r"|t\d\d:\d\d|z(?![a-z0-9_])"
)
_CURRENCY_BEFORE = re.compile(r"(?<![a-z])(?:eur|usd|gbp|cny|rmb|jpy|chf)$")
_MULTIPLIER = re.compile(r"[万萬亿億千百十]| (?:hundred|thousand|million|billion|trillion|dozen|k|bn|mn)(?![a-z0-9_])")
_COMPOUND = re.compile(r"-[a-z]{3,}(?![a-z0-9_-])")


def _edge(run: str, char: str) -> Edge:
    if not any(c.isdigit() for c in run):
        return "word" if is_word(char) else "open"
    if _NUMBER.fullmatch(run):
        return "number"
    return "id" if is_word(char) else "open"


def _edges(needle: str) -> tuple[Edge, Edge]:
    """Say what stands at both ends of a value: `order 45` begins with a word, ends with a number."""

    def run(chars: str) -> int:
        size = 0
        while size < len(chars) and (is_word(chars[size]) or chars[size] in "-.,:/'"):
            size += 1
        return size

    head, tail = needle[:_RUN_LIMIT], needle[-_RUN_LIMIT:]
    size = run(tail[::-1])
    return _edge(head[: run(head)], head[0]), _edge(tail[len(tail) - size :], tail[-1])


def _starts_clean(folded: Folded, i: int, edge: Edge, first: str) -> bool:
    if i == 0 or edge == "open":
        return True
    text = folded.text
    last, before = text[i - 1], text[i - 2] if i > 1 else ""
    if is_word(last):
        return edge == "number" and first != "-" and bool(_CURRENCY_BEFORE.search(text, max(0, i - 4), i))
    if edge == "word" or folded.raw(i - 1) == "，":
        return True
    if edge == "id":
        return not (last == "-" and before != "" and is_word(before)) and not (last == "." and before.isdigit())
    if last == "-":
        return False  # a negative number, a range, or the end of an id
    if last == "." and (not before or before == " "):
        return False  # .45
    joined = last in _NUMBER_JOINERS or (last == " " and folded.raw(i - 1) in "\u00a0\u202f\u2009")
    return not (joined and before.isdigit())


def _ends_clean(folded: Folded, j: int, edge: Edge) -> bool:
    text = folded.text
    if j == len(text) or edge == "open":
        return True
    following, after = text[j], text[j + 1 : j + 2]
    if edge == "number":
        if is_word(following):
            return bool(_UNIT.match(text, j))
        if _MULTIPLIER.match(text, j):
            return False
        if following == "-" and after and is_word(after):
            return bool(_COMPOUND.match(text, j))  # a 30-day window
        joined = following in _NUMBER_JOINERS or (following == " " and folded.raw(j) in "\u00a0\u202f\u2009")
        return folded.raw(j) == "，" or not (joined and after.isdigit())
    if is_word(following):
        return False
    if edge == "id":
        return not (following == "-" and after and is_word(after)) and not (following == "." and after.isdigit())
    return not re.match(r"['’]t(?!\w)", text[j : j + 3])  # "can" does not stand in "can't"


# -- looking up ----------------------------------------------------------------------------------


def spans_of(value: str, folded: Folded) -> Iterator[tuple[int, int]]:
    """Yield the spans of the original text in which the value stands as itself, in order.

    Work is bounded by a multiple of both lengths: on a text made to match almost everywhere
    (`aaaa…`), the search ends early and reports less, never something wrong.
    """
    needle = fold(value).text.strip()
    if not needle:
        return
    i = folded.text.find(needle)
    if i < 0:
        return
    left, right = _edges(needle)
    budget = 64 * (len(folded.text) + len(needle))
    while i >= 0 and budget > 0:
        j = i + len(needle)
        if folded.whole(i, j) and _starts_clean(folded, i, left, needle[0]) and _ends_clean(folded, j, right):
            yield folded.starts[i], folded.ends[j - 1]
        budget -= len(needle) + 16
        i = folded.text.find(needle, i + 1)


def best_of(spans: Iterable[tuple[int, int]], folded: Folded) -> Occurrence | None:
    """Return the first span outside a negation, else the first one, else `None`."""
    denied: Occurrence | None = None
    for start, end in spans:
        if not negated_at(folded.source, start, end):
            return Occurrence(start, end, negated=False)
        denied = denied or Occurrence(start, end, negated=True)
    return denied


def occurrence(value: str, text: str | Folded) -> Occurrence | None:
    """Return where a value stands in a text as itself, or `None`.

    The first occurrence outside a negation wins; if all are denied, the first one is returned with
    `negated=True`. Only the exact value counts: `refund` does not stand in `refunds`, `KX-1` not in
    `KX-12` or `KX-1-B`, `45` not in `450`, `4.5`, `-45`, `45万` or `45k`. Punctuation, currency signs
    and common units may touch it (`45€`, `230ml`). Chinese has no word borders, so `退款` stands in
    `退款单`.

    Known to be wrong: a value of one Latin letter (`A`) stands wherever the article does; thousands
    split by a plain space let `500` stand in `1 500`.
    """
    folded = fold(text) if isinstance(text, str) else text
    return best_of(spans_of(value, folded), folded)
