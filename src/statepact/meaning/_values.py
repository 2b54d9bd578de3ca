"""The texts under which a value may rightly stand in an answer.

The forms are those that a careful reader would call the same value: 45000 as `45,000` or `4.5万`,
30 November in either language. A form that could be another value is left out (`45.000`, 05/06/2026):
what is ambiguous proves nothing.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from uuid import UUID

from statepact.meaning._occurs import Folded, Occurrence, best_of, fold, spans_of

_MAX_DEPTH = 8
_MAX_FORMS = 1000
_MAX_DIGITS = 40
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def value_texts(value: object) -> tuple[str, ...]:
    """Return the text forms of a scalar value, the plainest first, without duplicates.

    A list or tuple has the forms of its parts. Nothing is returned for what text cannot prove: bools,
    `None`, NaN, bytes, mappings, models. At most 1,000 forms.
    """
    forms: dict[str, None] = {}
    for form in _forms(value, _MAX_DEPTH):
        if form.strip():
            forms[form] = None
        if len(forms) == _MAX_FORMS:
            break
    return tuple(forms)


def stands_in(value: object, text: str | Folded) -> Occurrence | None:
    """Return where a value stands in a text in any of its forms, or `None`.

    An occurrence outside a negation wins over an earlier one inside. Of a list or tuple every part
    must stand: the answer is the first part that is denied, else the first part. A date without its
    year counts unless another year stands beside it.
    """
    return _find(value, fold(text) if isinstance(text, str) else text, _MAX_DEPTH)


def _find(value: object, folded: Folded, depth: int) -> Occurrence | None:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, list | tuple):
        if depth == 0 or len(value) > _MAX_FORMS:
            return None
        parts: list[Occurrence] = []
        for part in value:
            found = _find(part, folded, depth - 1)
            if found is None:
                return None
            parts.append(found)
        return next((part for part in parts if part.negated), parts[0] if parts else None)
    spans = (span for form in value_texts(value) for span in spans_of(form, folded))
    if isinstance(value, dt.date):
        year = value.year
        spans = (span for span in spans if _fits_year(folded.source, *span, year))
    return best_of(spans, folded)


_YEAR_BEFORE = re.compile(r"(\d{4})\s*年\s*$|(?<!\d)(\d{4})[\s,/.-]+$")
_YEAR_AFTER = re.compile(r"(?:st|nd|rd|th)?(?:\.?,?\s+|\.?,|\s+of\s+)(\d{4})(?![\d:])")


def _fits_year(text: str, start: int, end: int, year: int) -> bool:
    """Whether no other year stands beside a date: `November 30, 2025` does not prove one of 2026."""
    if f"{year:04}" in text[start:end]:
        return True
    before = _YEAR_BEFORE.search(text[max(0, start - 8) : start])
    after = _YEAR_AFTER.match(text[end : end + 12])
    years = [found for match in (before, after) if match for found in match.groups() if found]
    return all(int(found) == year for found in years)


# -- forms ---------------------------------------------------------------------------------------


def _forms(value: object, depth: int) -> Iterator[str]:
    match value:
        case Enum():
            yield from _forms(value.value, depth)
        case bool():
            return
        case str():
            # People leave the # of an order number out.
            yield from (value, value.lstrip("#"))
        case int() | float() | Decimal():
            yield from _number_forms(value)
        case dt.date() | dt.time():
            yield from _calendar_forms(value)
        case UUID():
            yield str(value)
        case list() | tuple() if depth:
            for part in value:
                yield from _forms(part, depth - 1)


def _number_forms(value: int | float | Decimal) -> Iterator[str]:
    # Printing an int of thousands of digits raises, and Decimal("1E+999999") would print a million.
    if isinstance(value, int) and value.bit_length() > 4 * _MAX_DIGITS:
        return
    number = Decimal(float.__repr__(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite() or abs(number.adjusted()) > _MAX_DIGITS or len(number.as_tuple().digits) > _MAX_DIGITS:
        return
    plain = f"{number:f}"
    whole, _, fraction = plain.partition(".")
    sign = "-" if whole.startswith("-") else ""
    whole, short = whole.lstrip("-"), fraction.rstrip("0")
    fractions = dict.fromkeys([fraction, short, short.ljust(2, "0"), *([] if short else ["", "0"])])
    grouped = f"{int(whole):,}"
    for digits in fractions:
        yield sign + whole + (f".{digits}" if digits else "")
        if grouped == whole:
            # 1,234 may be a thousand and more; 59,90 can only be a decimal comma.
            if digits and len(digits) != 3:
                yield f"{sign}{whole},{digits}"
            continue
        yield sign + grouped + (f".{digits}" if digits else "")
        if digits:
            yield f"{sign}{grouped.replace(',', '.')},{digits}"
            yield f"{sign}{whole},{digits}"
        for gap in ("'", " "):
            yield sign + grouped.replace(",", gap) + (f".{digits}" if digits else "")
        yield sign + grouped.replace(",", " ") + (f",{digits}" if digits else "")
    for unit, power in (("万", 4), ("亿", 8)):
        if len(whole) > power:
            yield f"{sign}{whole[:-power]}.{whole[-power:]}{short}".rstrip("0").rstrip(".") + unit


def _calendar_forms(value: dt.date | dt.time) -> Iterator[str]:
    if isinstance(value, dt.datetime):
        yield from _moment_forms(value)
    elif isinstance(value, dt.date):
        yield from _date_forms(value)
    else:
        yield from _time_forms(value)


def _date_forms(day: dt.date) -> Iterator[str]:
    y, m, d = f"{day.year:04}", day.month, day.day
    yield f"{y}-{m:02}-{d:02}"
    for month, date in dict.fromkeys([(f"{m:02}", f"{d:02}"), (f"{m}", f"{d}")]):
        yield f"{y}/{month}/{date}"
        yield f"{y}.{month}.{date}"
        yield f"{date}.{month}.{y}"
        for ending in "日号":
            yield f"{y}年{month}月{date}{ending}"
            yield f"{month}月{date}{ending}"
        if d > 12:  # otherwise 05/06 is May or June
            yield f"{month}/{date}/{y}"
            yield f"{date}/{month}/{y}"
    ordinal = f"{d}{'th' if 10 < d < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(d % 10, 'th')}"
    name = _MONTHS[m - 1]
    for month in dict.fromkeys([name, name[:3], f"{name[:3]}."]):
        for date in (str(d), f"{d:02}", ordinal):
            yield from (f"{month} {date}, {y}", f"{month} {date} {y}", f"{date} {month} {y}")
            yield from (f"{month} {date}", f"{date} {month}")
        yield f"{ordinal} of {month}"


def _time_forms(time: dt.time) -> Iterator[str]:
    h, minute = time.hour, time.minute
    seconds = f":{time.second:02}" if time.second or time.microsecond else ""
    if time.microsecond:
        seconds += f".{time.microsecond:06}"
    yield f"{h:02}:{minute:02}{seconds}"
    if not seconds:
        yield f"{h:02}:{minute:02}:00"
        yield f"{h}点{minute:02}分" if minute else f"{h}点"
    yield f"{h}:{minute:02}{seconds}"
    for half in ("AM", "PM")[h // 12], ("a.m.", "p.m.")[h // 12]:
        for gap in ("", " "):
            yield f"{h % 12 or 12}:{minute:02}{seconds}{gap}{half}"


def _moment_forms(moment: dt.datetime) -> Iterator[str]:
    # Without zone too: answers name the local time of the moment as it was stored.
    yield moment.isoformat()
    yield moment.isoformat(sep=" ")
    times = [time for time in _time_forms(moment.time()) if "m." not in time]
    for time in times:
        yield f"{moment.date().isoformat()}T{time}"
    for day in _date_forms(moment.date()):
        # 30.11.2026 and 11月30日 take a space or nothing, which is the same beside Chinese.
        gaps = (" ", " at ", ", ") if any(c.isascii() and c.isalpha() for c in day) else (" ",)
        yield from (f"{day}{gap}{time}" for time in times for gap in gaps)
