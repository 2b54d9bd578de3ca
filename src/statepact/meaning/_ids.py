"""Identifiers of records in texts, and those that an output changed or made up.

Models shorten identifiers and mistype single characters, and the call that uses them then finds
nothing. Nothing here corrects an identifier: the nearest known one is shown, a person or a step
decides.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from statepact.meaning._occurs import Folded, fold, is_word

UnknownKind = Literal["changed", "truncated", "ambiguous", "unknown"]

_MAX_LENGTH = 128
_MAX_CANDIDATES = 16
# Looking for the nearest id is the only part whose work grows with outputs times known ids.
_MAX_LOOKS = 50_000
_MAX_DISTANCES = 2_000

_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_UNITS = (
    "[munk]?[lgm]|cm|km|mg|kg|lbs?|oz|inch|ft|[kmgtp]i?b|[kmg]bps|p|k|w|kw|kwh|v|mv|ma|mah|[kmg]?hz|fps|dpi|px|rpm"
    "|ms|[smhd]|secs?|mins?|hrs?|days?|x|st|nd|rd|th|am|pm|pcs|eur|usd|gbp|cny|rmb|jpy|chf"
)
_CURRENCY = "[$€£¥₹元块圆]|eur|usd|gbp|cny|rmb|jpy|chf|yuan|euros?|dollars?"
_COUNTED = (
    "tokens?|users?|people|customers?|items?|rows?|bytes?|words?|characters?|times|points|miles|steps?|seconds?"
    "|minutes?|hours?|days?|years?"
)
_DIGITS = r"\d{1,40}"
_END = r"(?![a-z0-9_]|-[a-z0-9])"

# Read before tokens and skipped as a whole. Every repetition is bounded, so that no text makes the scan
# start over and over on the same characters.
_NOISE = rf"""
    [a-z0-9._+-]{{1,64}}@[a-z0-9.-]{{1,255}}                                      # addresses
  | \+\d[\d ()-]{{5,20}}                                                          # phone numbers
  | \d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:t\d\d[\d:.]*(?:z|[+-]\d\d:?\d\d)?)?{_END}
  | \d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}{_END} | \d{{4}}-\d{{2}}{_END}
  | (?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:t\d{{4,6}}z?)?{_END}   # 20261130
  | \d{{1,2}}-{_MONTH}-\d{{2,4}}{_END} | (?:q[1-4]|h[12]|fy)-?(?:20)?\d\d{_END}
  | (?:{_CURRENCY})\ ?\d[\d.,']{{0,40}} | {_DIGITS}(?:[.,']{_DIGITS}){{0,8}}\ ?(?:{_CURRENCY}|[%‰万亿萬億])(?![a-z0-9])
  | \d{{1,3}}(?:[,']\d{{3}}){{1,12}}(?:[.,]{_DIGITS})?{_END} | {_DIGITS},\d{{1,2}}{_END}
  | v?{_DIGITS}(?:\.{_DIGITS}){{1,8}}(?:[-+]?[a-z][a-z0-9.]{{0,32}})?{_END}             # 59.90, 7.4.19-rc1, 1.5l
  | {_DIGITS}(?:{_UNITS}|x{_DIGITS}){_END} | {_DIGITS}\ ?(?:{_COUNTED}){_END}
  | {_DIGITS}[个個件人次条條台份字米克毫年月日天页頁岁歲]
  | \d{{1,4}}(?:-\d{{1,4}}){{1,2}}{_END}                                          # ranges, 555-123-4567
"""
_TOKEN = r"\#?[a-z0-9]+(?:[-_][a-z0-9]+)*"
# Plain words come first only because they are most of a text.
_WORD = rf"(?!{_CURRENCY})[a-z]+(?![a-z0-9_@.+-])"
_SCAN = re.compile(rf"(?P<word>{_WORD})|(?P<noise>{_NOISE})|(?P<token>{_TOKEN})", re.VERBOSE)
_BARE_TOKEN = re.compile(_TOKEN, re.VERBOSE)
# A name with a small number is a product or a step (Windows11), unless in capitals (PROJ-42); 30-day is
# a length of time.
_NAMED_NUMBER = re.compile(r"[a-z]{4,}[-_]?\d{1,2}")
_STANDARD = re.compile(
    r"(?:utf|sha|gpt|usb|ipv|top|mp|covid)[-_]?\d{1,3}[a-z]?(?:[-_][a-z]+)*|iso[-_]?\d{3,5}(?:-\d{1,4})?|h26[45]"
)
_COUNTED_WORD = re.compile(r"\d{1,4}(?:-[a-z]{2,})+")
_WORD_PARTS = re.compile(r"^(?:[a-z]{3,}[-_])+|(?:[-_][a-z]{3,})+$")


@dataclass(frozen=True, slots=True)
class IdSpan:
    """An identifier as it stands in a text, `#` included."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownId:
    """An identifier of an output that stands in no known text."""

    id: str
    start: int
    end: int
    kind: UnknownKind
    nearest: str | None = None
    """The one known id it probably was; never to be put in its place unasked."""

    distance: int | None = None
    """Edits (insert, delete, replace, swap neighbours) to `nearest`, for `changed` only."""

    candidates: tuple[str, ...] = ()
    """Every known id that fits equally well, in the order of the known texts, at most 16."""


def normal_id(text: str) -> str:
    """Return the form in which identifiers are compared: one case, no `#`, plain digits and hyphens."""
    return fold(text).text.strip().lstrip("#")


def _is_id(token: str, original: str) -> bool:
    """Whether a token names a record: four characters or more, and not only a word with a number."""
    body = token.lstrip("#")
    digits = sum(c.isdigit() for c in body)
    size = sum(c.isalnum() for c in body)
    if size < 4 or not digits or len(body) > _MAX_LENGTH:
        return False
    if body.isdigit():
        return digits >= 5 or token.startswith("#")
    if _STANDARD.fullmatch(body) or (not original.isupper() and _NAMED_NUMBER.fullmatch(body)):
        return False
    return not (original.islower() and (digits < 2 or _COUNTED_WORD.fullmatch(body)))


def ids_in(text: str | Folded) -> tuple[IdSpan, ...]:
    """Return what looks like identifiers of records, in order; linear in the text.

    An identifier has a digit and at least four letters or digits, joined by `-` or `_`: KX-5512,
    #W2378156, A7-0093-B, UUIDs, five digits or more. Dates, times, amounts, versions, addresses, units,
    ranges and names with a small number (Windows 11, covid-19) are none. Grouped or `+` phone numbers
    are none either; eleven plain digits are one, because an order number looks the same and a
    mistyped digit does the same harm.

    Known to be wrong: a plain count of five digits or more with an unknown noun is taken for an id
    (`12800 parcels`), so is a postcode; an id with dots (`10.1038.5512`) is taken for a version.
    """
    folded = fold(text) if isinstance(text, str) else text
    found: list[IdSpan] = []
    for match in _SCAN.finditer(folded.text):
        i, j = match.span()
        if match.lastgroup != "token" or not folded.whole(i, j):
            continue
        if (i > 0 and is_word(folded.text[i - 1])) or (j < len(folded.text) and is_word(folded.text[j])):
            continue
        start, end = folded.starts[i], folded.ends[j - 1]
        if _is_id(match[0], folded.source[start:end]):
            found.append(IdSpan(folded.source[start:end], start, end))
    return tuple(found)


class _Known:
    """The identifiers that may stand in an output, with indexes for prefixes and suffixes."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.tokens: set[str] = set()
        self.ids: dict[str, str] = {}
        for text in texts:
            folded = fold(text)
            # Every token counts as known, not only what looks like an id: `KX-1` may be a field's value.
            for token in _BARE_TOKEN.findall(folded.text):
                self.tokens.add(token.lstrip("#"))
            for span in ids_in(folded):
                self.ids.setdefault(normal_id(span.text), span.text)
        self._order = {key: n for n, key in enumerate(self.ids)}
        self._forward = sorted(self.ids)
        self._backward = sorted(key[::-1] for key in self.ids)
        self._looks, self._distances = _MAX_LOOKS, _MAX_DISTANCES

    def longer(self, key: str) -> tuple[str, ...]:
        """Return known ids that begin or end with this one."""
        found = {*_starting(self._forward, key), *(back[::-1] for back in _starting(self._backward, key[::-1]))}
        return tuple(sorted(found, key=self._order.__getitem__)[:_MAX_CANDIDATES])

    def close(self, key: str) -> tuple[int, tuple[str, ...]]:
        """Return the least distance up to 2 (1 for four or five characters), and the ids at it."""
        best, found = (2 if len(key) > 5 else 1), list[str]()
        third = max(1, len(key) // 3)
        head, middle, tail = key[:third], key[third:-third], key[-third:]
        for known in self.ids:
            self._looks -= 1
            if self._looks < 0 or self._distances < 0:
                break
            if abs(len(known) - len(key)) > best or known == key:
                continue
            # Two edits leave one of three parts as it was.
            if not (known.startswith(head) or known.endswith(tail) or middle in known):
                continue
            self._distances -= 1
            distance = _distance(key, known, best)
            if distance < best:
                found.clear()
            if distance <= best:
                best = distance
                found.append(known)
        return best, tuple(found[:_MAX_CANDIDATES])


def _starting(ordered: Sequence[str], prefix: str) -> Sequence[str]:
    first = bisect_left(ordered, prefix)
    return [key for key in ordered[first : first + _MAX_CANDIDATES] if key.startswith(prefix)]


def _distance(a: str, b: str, most: int) -> int:
    """Edit distance with swaps of neighbours; anything over `most` comes back as `most + 1`."""
    far = most + 1
    before_last: list[int] = []
    last = list(range(len(b) + 1))
    for i, char in enumerate(a, 1):
        low, high = max(1, i - most), min(len(b), i + most)
        row = [far] * (len(b) + 1)
        row[0] = i
        for j in range(low, high + 1):
            row[j] = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (char != b[j - 1]))
            if i > 1 and j > 1 and char == b[j - 2] and a[i - 2] == b[j - 1]:
                row[j] = min(row[j], before_last[j - 2] + 1)
        before_last, last = last, row
    return min(last[-1], far)


def unknown_ids(output_text: str, known_texts: Iterable[str]) -> tuple[UnknownId, ...]:
    """Return the identifiers of an output that stand in none of the known texts, each once, in order.

    Case, `#`, full-width characters and kinds of hyphens make no difference; anything else does.
    `truncated` is the beginning or end of exactly one known id, `ambiguous` of several, `changed` is
    one or two edits away from a known id, `unknown` is none of these. Every id of the output is
    checked; past 50,000 comparisons, or 2,000 close ones, no nearest id is looked for any more.
    """
    known = _Known(known_texts)
    found: dict[str, UnknownId] = {}
    for span in ids_in(output_text):
        key = normal_id(span.text)
        # KX-5512-related says KX-5512. Prefixes in capitals belong to the id.
        if key not in found and not known.tokens & {key, normal_id(_WORD_PARTS.sub("", span.text))}:
            found[key] = _classify(key, span, known)
    return tuple(found.values())


def _classify(key: str, span: IdSpan, known: _Known) -> UnknownId:
    distance: int | None = None
    kind: UnknownKind = "unknown"
    hits = known.longer(key)
    if hits:
        kind = "truncated" if len(hits) == 1 else "ambiguous"
    else:
        best, hits = known.close(key)
        if hits:
            kind, distance = "changed", best
    names = tuple(known.ids[hit] for hit in hits)
    return UnknownId(
        id=span.text,
        start=span.start,
        end=span.end,
        kind=kind,
        nearest=names[0] if names and kind != "ambiguous" else None,
        distance=distance,
        candidates=names,
    )
