"""When people say something was: time words of English and Chinese as spans of time.

Words for a day or week mean the calendar's, in the time zone that is passed in. A date without a year
is the last one that has passed. What people use loosely ("a week ago") gives a wider span, so that who
narrows by it asks rather than guesses. Several time words in one text give several spans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in milliseconds since 1970; `end` no longer belongs to it."""

    start: int
    end: int

    def __contains__(self, at: int) -> bool:
        return self.start <= at < self.end


_CHINESE = {c: n for n, c in enumerate("零一二三四五六七八九十")} | {"两": 2, "〇": 0}
_ENGLISH = {
    "a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10,
}  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_PARTS = {
    "morning": (0, 12), "noon": (11, 14), "afternoon": (12, 18), "evening": (17, 24), "night": (17, 29),
    "早上": (0, 12), "早晨": (0, 12), "清晨": (0, 12), "上午": (0, 12), "早": (0, 12), "中午": (11, 14),
    "下午": (12, 18), "傍晚": (16, 20), "晚上": (17, 29), "夜里": (17, 29), "晚": (17, 29),
}  # fmt: skip
"""Hours of the day; after 24 they belong to the night that follows."""

_N = r"\d{1,2}|[零一二两三四五六七八九十]{1,3}"
_WEEKDAY = "|".join(_DAYS)
_SHORT = "mon|tues?|wed|thu(?:rs?)?|fri|sat|sun"
_MONTH = (
    "january|february|march|april|may|june|july|august|september|october|november|december|"
    "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_ENGLISH_PART = "morning|noon|afternoon|evening|night"
_CHINESE_PART = "早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里"
_COUNT = "|".join([r"\d{1,2}", *sorted(_ENGLISH, key=len, reverse=True)])

# In the order in which they are tried at each place of the text; the first that fits counts.
_SCAN = re.compile(
    rf"""
    (?P<future>
        \b(?:next|by|until|till|before|after|every|each)\ (?:the\ |next\ )?
        (?:{_WEEKDAY}|{_SHORT}|week(?:end)?|month|\d{{1,2}}(?:st|nd|rd|th)?|{_MONTH})\b
        |(?:下下?|每)个?(?:周末|(?:周|星期|礼拜)[一二三四五六日天]?|月))
  | (?P<iso>(?<!\d)(?P<iso_y>20\d\d)(?:-|/|\.|年)(?P<iso_m>\d{{1,2}})(?:-|/|\.|月)(?P<iso_d>\d{{1,2}})(?!\d))
  | (?P<english>
        \b(?:(?P<e_before>the\ day\ before\ yesterday)|(?P<e_yesterday>yesterday)
        |(?P<e_today>today|this(?=\ (?:{_ENGLISH_PART})))|(?P<e_last>last(?=\ night)))
        (?:\ (?P<e_part>{_ENGLISH_PART}))?\b)
  | (?P<tonight>\btonight\b)
  | (?P<chinese>
        (?P<c_day>大前天|前天|前日|昨天|昨日|今天|今日|当天)的?(?P<c_part>{_CHINESE_PART})?
        |(?P<c_short>[昨今前])(?P<c_night>早|晚))
  | (?P<ago>\b(?P<a_n>{_COUNT})\ (?P<a_unit>hour|day|week|month)s?\ (?:ago|back|earlier)\b)
  | (?P<cago>(?P<ca_n>{_N})个?(?P<ca_unit>小时|钟头|天|日|周|星期|礼拜|月)(?:之前|以前|前))
  | (?P<week>\b(?:(?P<w_two>the\ week\ before\ last)|(?P<w_which>last|this|past)\ (?P<w_unit>week(?:end)?|month))\b)
  | (?P<cweek>
        (?P<cw_which>上上|上|这|本)个?
        (?:(?P<cw_end>周末)|(?:周|星期|礼拜)(?P<cw_day>[一二三四五六日天])?|(?P<cw_month>月)))
  | (?P<weekday>
        \b(?:(?P<wd_which>last|this|past)\ )?(?P<wd_day>{_WEEKDAY})\b
        |\b(?:on|last|this|past)\ (?P<wd_short>{_SHORT})\b)
  | (?P<cweekday>(?:周|星期|礼拜)(?P<cwd_day>[一二三四五六日天]))
  | (?P<weekend>\b(?:at|on|over)\ the\ weekend\b|周末)
  | (?P<dmy>\b(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\ (?:of\ )?(?P<m1>{_MONTH})\b(?:,?\ (?P<y1>20\d\d)\b)?)
  | (?P<mdy>\b(?P<m2>{_MONTH})\.?\ (?:the\ )?(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\ (?P<y2>20\d\d)\b)?)
  | (?P<cmd>(?P<m3>{_N})月(?P<d3>{_N})[日号]?)
  | (?P<month>\b(?:in|during|from|of|since|last)\ (?P<m4>{_MONTH})\b)
  | (?P<cmonth>(?<![个\d])(?P<m5>{_N})月份?)
  | (?P<day>\bon\ the\ (?P<d4>\d{{1,2}})(?:st|nd|rd|th)\b(?!\ (?:order|one|of)))
  | (?P<cday>(?<![\d单型编票账工])(?P<d5>{_N})号(?![码线楼院店]))
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class TimeWord:
    """Where a text names a time, and which; words used loosely name more than one stretch."""

    start: int
    end: int
    spans: tuple[Span, ...]
    is_past: bool
    """Whether it can only be past: "on Monday" may be to come."""


def times_in(text: str, now: int, zone: tzinfo) -> tuple[TimeWord, ...]:
    """Return the past times that a text names, in its order; linear in the text.

    `text` must be folded. `now` is in milliseconds since 1970, `zone` decides when a day begins.
    """
    calendar = _Calendar(datetime.fromtimestamp(now / 1000, zone), zone)
    found: list[TimeWord] = []
    for match in _SCAN.finditer(text):
        try:
            spans = tuple(_RULES[match.lastgroup or ""](calendar, match))
        except (ValueError, OverflowError):
            continue  # no such day: 31 February
        if spans:
            past = match.lastgroup in _PAST and not _NOW.match(match[0])
            found.append(TimeWord(*match.span(), spans, past))
    return tuple(found)


class _Calendar:
    """Spans as seen from one moment."""

    def __init__(self, now: datetime, zone: tzinfo) -> None:
        self.now = now
        self.today = now.date()
        self.zone = zone

    def days(self, first: date, count: int = 1, hours: tuple[int, int] | None = None) -> Span:
        """A number of days from one on, or some hours of the first."""
        if hours is None:
            return self.between(self._at(first), self._at(first + timedelta(days=count)))
        begin = self._at(first)
        return self.between(begin + timedelta(hours=hours[0]), begin + timedelta(hours=hours[1]))

    def between(self, start: datetime, end: datetime) -> Span:
        return Span(round(start.timestamp() * 1000), round(end.timestamp() * 1000))

    def _at(self, day: date) -> datetime:
        return datetime.combine(day, time(), self.zone)

    def ago(self, days: int) -> date:
        return self.today - timedelta(days=days)

    def monday(self, weeks: int) -> date:
        """The Monday of this week, or of one before it."""
        return self.ago(self.today.weekday() + 7 * weeks)

    def month(self, year: int, month: int) -> Span:
        first = date(year, month, 1)
        following = date(year + month // 12, month % 12 + 1, 1)
        return self.days(first, (following - first).days)

    def months_ago(self, count: int) -> Span:
        number = self.today.year * 12 + self.today.month - 1 - count
        return self.month(number // 12, number % 12 + 1)

    def date(self, month: int, day: int, year: int | None) -> Span:
        if year is None:
            year = self.today.year - ((month, day) > (self.today.month, self.today.day))
        return self.days(date(year, month, day))

    def weekday(self, number: int) -> Iterator[Span]:
        """The last one that has passed; said on that very day, it may also be a week ago."""
        back = (self.today.weekday() - number) % 7
        yield self.days(self.ago(back))
        if not back:
            yield self.days(self.ago(7))


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    if text in _ENGLISH:
        return _ENGLISH[text]
    tens, ten, ones = text.partition("十")
    if not ten:
        return _CHINESE.get(text, 0)
    return (_CHINESE[tens] if tens else 1) * 10 + (_CHINESE[ones] if ones else 0)


def _month_number(name: str) -> int:
    return _MONTHS.index(name[:3]) + 1 if name[:3] in _MONTHS else _number(name)


def _weekday_number(name: str) -> int:
    return next(number for number, day in enumerate(_DAYS) if day.startswith(name[:3]))


def _chinese_weekday(sign: str) -> int:
    return "一二三四五六日".index("日" if sign == "天" else sign)


def _english(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    back = 2 if match["e_before"] else 1 if match["e_yesterday"] or match["e_last"] else 0
    part = match["e_part"]
    yield calendar.days(calendar.ago(back), hours=_PARTS[part] if part else None)


def _tonight(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    yield calendar.days(calendar.today, hours=_PARTS["evening"])


def _chinese(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    word, part = match["c_day"] or match["c_short"], match["c_part"] or match["c_night"]
    back = 3 if word.startswith("大") else {"前": 2, "昨": 1}.get(word[0], 0)
    yield calendar.days(calendar.ago(back), hours=_PARTS[part] if part else None)


def _ago(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    yield from _back(calendar, _number(match["a_n"]), match["a_unit"])


def _chinese_ago(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    units = {"小": "hour", "钟": "hour", "天": "day", "日": "day", "月": "month"}
    yield from _back(calendar, _number(match["ca_n"]), units.get(match["ca_unit"][0], "week"))


def _back(calendar: _Calendar, count: int, unit: str) -> Iterator[Span]:
    if unit == "hour":
        yield calendar.between(calendar.now - timedelta(hours=count + 1), calendar.now - timedelta(hours=count - 0.5))
    elif unit == "day":
        yield calendar.days(calendar.ago(count))
    elif unit == "week":
        yield calendar.days(calendar.ago(7 * count + 1), 3)
    else:
        yield calendar.days(calendar.ago(30 * count + 7), 15)


def _week(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    back = 2 if match["w_two"] else 0 if match["w_which"] == "this" else 1
    if match["w_unit"] == "month":
        yield calendar.months_ago(back)
    elif match["w_unit"] == "weekend":
        yield from _weekend(calendar, match)
    else:
        yield calendar.days(calendar.monday(back), 7)


def _chinese_week(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    back = {"上上": 2, "上": 1}.get(match["cw_which"], 0)
    if match["cw_month"]:
        yield calendar.months_ago(back)
    elif match["cw_day"]:
        yield calendar.days(calendar.monday(back) + timedelta(days=_chinese_weekday(match["cw_day"])))
    elif match["cw_end"]:
        yield calendar.days(calendar.monday(back) + timedelta(days=5), 2)
    else:
        yield calendar.days(calendar.monday(back), 7)


def _weekend(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    saturday = calendar.ago((calendar.today.weekday() - 5) % 7)
    yield calendar.days(saturday, 2)


def _weekday(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    number = _weekday_number(match["wd_day"] or match["wd_short"])
    yield from calendar.weekday(number)
    if match["wd_which"] == "last":
        # Some mean the last one that was, others the one of last week.
        yield calendar.days(calendar.monday(1) + timedelta(days=number))


def _chinese_weekday_alone(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    yield from calendar.weekday(_chinese_weekday(match["cwd_day"]))


def _date(month: str, day: str, year: str = "") -> Callable[[_Calendar, re.Match[str]], Iterator[Span]]:
    def rule(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
        in_year = int(match[year]) if year and match[year] else None
        yield calendar.date(_month_number(match[month]), _number(match[day]), in_year)

    return rule


def _month(group: str) -> Callable[[_Calendar, re.Match[str]], Iterator[Span]]:
    def rule(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
        number = _month_number(match[group])
        yield calendar.month(calendar.today.year - (number > calendar.today.month), number)

    return rule


def _day(group: str) -> Callable[[_Calendar, re.Match[str]], Iterator[Span]]:
    def rule(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
        day = _number(match[group])
        month = calendar.today.month - (day > calendar.today.day)
        yield calendar.days(date(calendar.today.year - (not month), month or 12, day))

    return rule


def _future(calendar: _Calendar, match: re.Match[str]) -> Iterator[Span]:
    yield from ()  # nothing was spoken of then


_PAST = {"iso", "english", "chinese", "ago", "cago", "week", "cweek"}
_NOW = re.compile("today|this|[今当这本]")

_RULES: dict[str, Callable[[_Calendar, re.Match[str]], Iterator[Span]]] = {
    "future": _future,
    "iso": _date("iso_m", "iso_d", "iso_y"),
    "english": _english,
    "tonight": _tonight,
    "chinese": _chinese,
    "ago": _ago,
    "cago": _chinese_ago,
    "week": _week,
    "cweek": _chinese_week,
    "weekday": _weekday,
    "cweekday": _chinese_weekday_alone,
    "weekend": _weekend,
    "dmy": _date("m1", "d1", "y1"),
    "mdy": _date("m2", "d2", "y2"),
    "cmd": _date("m3", "d3"),
    "month": _month("m4"),
    "cmonth": _month("m5"),
    "day": _day("d4"),
    "cday": _day("d5"),
}
