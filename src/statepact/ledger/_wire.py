"""The text forms of values that JSON has no type for.

Each form is written and read by one pair of functions, is exact in both directions, and is the
only text of its value: equal values of one type give equal bytes, except `Decimal("1.0")` and
`Decimal("1.00")`, which are different amounts of knowledge and stay different.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic_core import TzInfo

Moment = TypeVar("Moment", datetime, time)

_DURATION = re.compile(r"P(-?\d{1,9})DT(\d{1,5})\.(\d{6})S")


class Refused(Exception):
    """Inside the codec: this value cannot be written. Containers add where it stands."""

    def __init__(self, value: object, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.found = type(value).__name__
        self.reason = reason
        self.hint = hint
        self.path: list[str | int] = []
        """From the inside out."""


class TextForm(NamedTuple):
    """How one type is written as text, and read again."""

    name: str
    write: Callable[[Any], str]
    read: Callable[[str], Any]
    pydantic_reads: bool
    """Whether Pydantic's strict JSON reading of this text is exact too."""


def _write_moment(value: datetime | time) -> str:
    """Write local time, then what the zone is: `2024-11-03T01:30:00[America/New_York][fold=1]`.

    A named zone is written without its offset: the offset follows from zone tables, which change,
    and the same moment would then have other bytes after an update of the tables.
    """
    zone = value.tzinfo
    name = ""
    if zone is None or type(zone) is timezone:
        text = value.isoformat()
        if zone is not None:
            name = zone.tzname(None)
            name = "" if name == timezone(zone.utcoffset(None)).tzname(None) else f"[name={name}]"
    elif type(zone) is TzInfo:
        # Pydantic's own fixed offset, which it makes when it reads JSON. The offset is what the
        # value means; written like `timezone`, a value has the same bytes however it came in.
        offset = zone.utcoffset(None)
        assert offset is not None
        text = value.replace(tzinfo=timezone(offset)).isoformat()
    elif type(zone) is ZoneInfo and zone.key:
        text = f"{value.replace(tzinfo=None).isoformat()}[{zone.key}]"
    else:
        raise Refused(zone, "is a time zone that cannot be written", hint="use zoneinfo.ZoneInfo or datetime.timezone")
    return f"{text}[fold=1]{name}" if value.fold else f"{text}{name}"


def _moment_reader(read: Callable[[str], Moment]) -> Callable[[str], Moment]:
    def reader(text: str) -> Moment:
        if "[" not in text:
            return read(text)
        local, _, suffixes = text.partition("[")
        value = read(local)
        suffixes, named, name = suffixes.removesuffix("]").partition("name=")
        for suffix in filter(None, suffixes.replace("]", "[").split("[")):
            if suffix == "fold=1":
                value = value.replace(fold=1)
            else:
                value = value.replace(tzinfo=ZoneInfo(suffix))
        if named:
            offset = value.utcoffset()
            if offset is None:
                raise ValueError("a zone has a name but no offset")
            value = value.replace(tzinfo=timezone(offset, name))
        return value

    return reader


def _write_duration(value: timedelta) -> str:
    return f"P{value.days}DT{value.seconds}.{value.microseconds:06}S"


def _read_duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("not a duration")
    return timedelta(days=int(match[1]), seconds=int(match[2]), microseconds=int(match[3]))


def _write_bytes(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _read_bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


TEXT_FORMS: dict[type, TextForm] = {
    Decimal: TextForm("decimal", str, Decimal, True),
    datetime: TextForm("datetime", _write_moment, _moment_reader(datetime.fromisoformat), False),
    date: TextForm("date", date.isoformat, date.fromisoformat, True),
    time: TextForm("time", _write_moment, _moment_reader(time.fromisoformat), False),
    timedelta: TextForm("timedelta", _write_duration, _read_duration, False),
    bytes: TextForm("bytes", _write_bytes, _read_bytes, False),
    UUID: TextForm("uuid", str, UUID, True),
    Fraction: TextForm("fraction", str, Fraction, True),
}
"""By exact type: a subclass has no form, because it would come back as its base."""

UNREADABLE = (ValueError, ArithmeticError, LookupError, binascii.Error, OSError, TypeError)
"""What the `read` functions raise for text that they did not write."""
