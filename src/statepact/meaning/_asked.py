"""How people name something of theirs without naming it: by the end of its id, by when, by "the last one"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache

from statepact.meaning._ids import ids_in, normal_id
from statepact.meaning._occurs import fold
from statepact.meaning._when import Span, TimeWord, times_in


def _piece(group: str) -> str:
    return rf"[#\"'“‘「『]*(?P<{group}>[a-z0-9](?:[a-z0-9_-]{{0,40}}[a-z0-9])?)(?![a-z0-9_])"


_BARE = r"(?<![a-z0-9_-])[a-z0-9][a-z0-9-]{1,40}"
_SUFFIX = re.compile(
    rf"""
    \bend(?:s|ed|ing)\ (?:(?:in|with|on)\ )?(?:the\ )?(?:digits?\ |numbers?\ )?{_piece("a")}
  | \blast\ (?:(?:\w+|\d)\ )?(?:digits?|numbers?|characters?|figures?)
    (?:\ (?:is|are|were|being|of\ it|of\ which\ are))?:?\ {_piece("b")}
  | (?P<c>{_BARE})\ (?:at|in)\ the\ end\b
  | (?:尾号|尾数|末尾|结尾|(?:最后|后|末)(?:[一二两三四五六七八九\d])位(?:数字|数)?)(?:号码)?(?:是|为|:|，|,)?
    {_piece("d")}
  | (?P<e>{_BARE})(?:结尾|收尾)
    """,
    re.VERBOSE,
)
_PREFIX = re.compile(
    rf"""
    \b(?:start(?:s|ed|ing)?|begin(?:s|ning)?)\ (?:with|in|by)\ {_piece("a")}
  | (?P<b>{_BARE})(?:开头|打头)
  | (?:开头|前[一二两三四五六七八九\d]位)(?:是|为|:)?{_piece("c")}
    """,
    re.VERBOSE,
)
# Only straight before the id: "I have not received KX-1" asks about KX-1.
_NOT_THIS = re.compile(
    r"(?:\b(?:not|isn['’]t|do not mean|don['’]t mean) (?:(?:about|the|my|order|number|no\.|case|for) )*"
    r"|(?:不是|并非|不要|而非)(?:说|指|问|订单号?|单号|那个|这个)*)[#\"'“]*$"
)
_GENERAL = ("one", "case", "conversation", "chat", "request")
_NOT_A_DAY = "(?!week|month|year|night|mon|tue|wed|thu|fri|sat|sun)"
_NTH = {
    "first": 0, "second": 1, "third": 2, "fourth": 3, "1st": 0, "2nd": 1, "3rd": 2, "4th": 3,
    "一": 0, "二": 1, "三": 2, "四": 3, "1": 0, "2": 1, "3": 2, "4": 3,
}  # fmt: skip


# What may stand behind 上一个 if it is the thing itself: 最后一个商品 is part of one.
_CHINESE_GOES_ON = "[呢吗吧是的怎到什有还能可发了来我你咋,.?!;:，。？！；：]"
_TALKS = "我?[问说聊讲提咨联反]"


@lru_cache(maxsize=64)
def _recency_of(things: tuple[str, ...]) -> re.Pattern[str]:
    thing = rf"(?:{'|'.join(re.escape(thing) for thing in (*things, *_GENERAL))})\b"
    # "The last order I placed" is no question of when it was spoken of.
    thing += r"(?!(?: that| which)? (?:i|we)(?: have|['’]ve)? (?:placed|bought|made|paid|ordered|received|got)\b)"
    chinese = "|".join(("订单", "单子", "单号", *(re.escape(thing) for thing in things if not thing.isascii())))
    goes_on = rf"(?=$|{_CHINESE_GOES_ON}|{_TALKS}|{chinese})"
    return re.compile(
        r"(?P<before_last>\b(?:second|next)[ -]to[ -]last\b|\bsecond[ -]last\b|\blast but one\b"
        r"|\bbefore (?:the )?last(?: one)?\b(?! (?:week|month))"
        rf"|(?:上上(?:个|单|笔)|倒数第二[个单笔]){goes_on})"
        rf"|(?P<last>\b(?:last|latest|newest|most recent|previous) (?:{_NOT_A_DAY}\w+ )?{thing}"
        r"|\bmost recently\b|\babout last\b(?! \w)"
        r"|\bjust (?:now\b|(?:asked|mentioned|talked|spoke|wrote|said|discussed|told|messaged|reported)\b)"
        rf"|(?:上一(?:个|单|笔|份|张)|上个|最近(?:的)?[一那](?:个|单|笔)|最新的?[一那]?(?:个|单|笔)|最新的?(?={chinese})"
        rf"|最后[一那](?:个|单|笔|份)){goes_on}"
        rf"|(?:上一?次|上回|最近一次)(?=$|{_TALKS}|[那的]|[,.?!，。？！])"
        rf"|刚[才刚]?{_TALKS}|刚[才刚]的?[那这](?:个|单|笔){goes_on})"
        rf"|(?P<nth>\b(?P<nth_e>first|second|third|fourth|1st|2nd|3rd|4th) {thing}"
        rf"|第(?P<nth_c>[一二三四1-4])(?:个|单|笔|份|张){goes_on})"
    )


# Whether a time is that of the talk: what was said, and what else happens to orders.
_DONE = re.compile(
    r"(?P<talk>\b(?:asked|talked|mentioned|discussed|contacted|called|reported|messaged|emailed|chatted|complained"
    r"|inquired|enquired|wrote|written|spoke|spoken|said|told|phoned)\b"
    r"|\bdid (?:i|we|you) (?:ask|talk|mention|discuss|contact|call|report|write|speak|say|tell|decide)\b"
    r"|\b(?:our|my|the|this|that) (?:call|chat|conversation|talk|email|message)\b"
    r"|(?:[问说聊讲提谈]|咨询|联系|反馈|投诉)(?:[过了的到起]|好的)|打[过了]"
    r"|(?P<perhaps>[问说聊讲]|咨询|联系|反馈|电话|投诉))"
    r"|(?P<event>\b(?:delivered|deliver|delivery|arrived|arrives|arrive|ordered|shipped|ship|received|receive|returned"
    r"|return|cancelled|canceled|cancel|refunded|placed|paid|pay|collected|broken|broke|failed|stopped"
    r"|bought|buy|came|come|got|get|sent|send|want|need|expect|due)\b"
    r"|[收买付送寄退坏要]|下单|下的单|发货|到货|签收|拿到|换货|取消)"
)
_FRAME_BEFORE = re.compile(r"\b(?:from|of|as|ones?)(?: the)? $")
_FRAME_BEHIND = re.compile(
    r"['’]s\b|的?(?:[那这]一?(?:个|单|笔|次)|另一?外?一?(?:个|单)|订单|单子|第[一二三四])| (?:orders?|cases?)\b"
)
_ANOTHER = re.compile(
    r"\b(?:another|other ones?|this (?:one|time)|(?:the )?others)\b|另一?外?一?[个单笔]|还有一[个单笔]|这一?次"
)
_SENTENCE_ENDS = re.compile(r"[.!?;,:。！？；，：、\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request says about which one it means. Ids are in the form of `normal_id`."""

    ids: tuple[str, ...] = ()
    """What may be ids in full; whether they are is known by who has the ids."""
    words: frozenset[str] = frozenset()
    """Every word with a digit, for ids that look like nothing in particular."""
    excluded: tuple[str, ...] = ()
    """Ids that it says it does not mean."""
    suffixes: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    """When it was spoken of: in one of these."""
    newest: int | None = None
    """Counted from the newest: 0 for "the last one", 1 for "the one before the last"."""
    oldest: int | None = None
    """Counted from the oldest: 0 for "the first one"."""
    another: bool = False
    """Whether it speaks of another one besides, so that what it names may not be what it means."""


def asked_in(text: str, now: int, zone: tzinfo, *, things: tuple[str, ...] = ("order",)) -> Asked:
    """Return what a text says about which one it means; linear in the text.

    `now` is in milliseconds since 1970, `zone` decides when a day begins. `things` are the words for what
    is looked for: "my last order" says which order is meant, but not which ticket. A time counts if it is
    the time of the talk, not of a delivery or a purchase.
    """
    folded = fold(text).text
    # "ends in March" names no id.
    ends = [found for found in _pieces(_SUFFIX, folded) if any(char.isdigit() for char in found[2])]
    begins = list(_pieces(_PREFIX, folded))
    taken = [(start, end) for start, end, _ in (*ends, *begins)]
    ids: dict[str, None] = {}
    excluded: dict[str, None] = {}
    spans = ids_in(folded)
    for span in spans:
        if not any(start < span.end and span.start < end for start, end in taken):
            where = excluded if _NOT_THIS.search(folded[max(0, span.start - 60) : span.start]) else ids
            where[normal_id(span.text)] = None
    # What has been understood is blanked out: the 3 in 后3位 is no day.
    plain = _without(folded, [*taken, *((span.start, span.end) for span in spans)])
    newest, oldest = _recency(plain, things)
    return Asked(
        ids=tuple(ids),
        words=frozenset(_words(_without(folded, taken))) - excluded.keys(),
        excluded=tuple(excluded),
        suffixes=tuple(dict.fromkeys(piece for _, _, piece in ends)),
        prefixes=tuple(dict.fromkeys(piece for _, _, piece in begins)),
        spans=tuple(_spans(plain, now, zone)),
        newest=newest,
        oldest=oldest,
        another=not excluded and _ANOTHER.search(plain) is not None,
    )


def _pieces(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    for match in pattern.finditer(text):
        yield *match.span(), next(piece for piece in match.groups() if piece)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in sorted(spans):
        parts += [text[at:start], "_" * (end - max(at, start))]
        at = max(at, end)
    return "".join([*parts, text[at:]])


def _words(text: str) -> Iterator[str]:
    for match in re.finditer(r"[a-z0-9]+(?:[-_][a-z0-9]+)*", text):
        if any(char.isdigit() for char in match[0]):
            yield match[0]


def _recency(text: str, things: tuple[str, ...]) -> tuple[int | None, int | None]:
    """Return the place counted from the newest, and from the oldest."""
    found = {match.lastgroup: match for match in reversed(list(_recency_of(things).finditer(text)))}
    if "before_last" in found:
        return 1, None
    if nth := found.get("nth"):
        return None, _NTH[nth["nth_e"] or nth["nth_c"]]
    return (0, None) if "last" in found else (None, None)


def _spans(text: str, now: int, zone: tzinfo) -> Iterator[Span]:
    """Yield when it was spoken of. "On Monday, or was it Tuesday?": what goes with a time of talk counts, too."""
    found = [(time, _goes_with(text, time)) for time in times_in(text, now, zone)]
    if any(what == "talk" for _, what in found):
        yield from (span for time, what in found if what in ("talk", "") for span in time.spans)


def _goes_with(text: str, time: TimeWord) -> str:
    """Return whether a time is that of a `talk` or another `event`; empty if the text does not say."""
    if _FRAME_BEFORE.search(text[max(0, time.start - 12) : time.start]) or _FRAME_BEHIND.match(text, time.end):
        return "talk"
    before = _SENTENCE_ENDS.split(text[max(0, time.start - 80) : time.start])[-1]
    behind = _SENTENCE_ENDS.split(text[time.end : time.end + 80])[0]
    earlier, later = list(_DONE.finditer(before))[-1:], list(_DONE.finditer(behind))[:1]
    # English says it before the time, mostly, Chinese behind.
    chinese = "\u4e00" <= text[time.end - 1] <= "\u9fff"
    nearest = next(iter((later or earlier) if chinese else (earlier or later)), None)
    if nearest is None:
        return ""
    if nearest["perhaps"] and not time.is_past:
        return "event"  # 周一给我打电话: it may be to come
    return nearest.lastgroup or ""
