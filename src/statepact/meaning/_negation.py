"""Whether a clause denies what stands in it.

One expression walks the words before a span and sorts what it meets: words that only look like
negations (特别, 不仅, "not only"), clause borders, and negations. The last one that is still open
when the span begins decides. All work happens in a window of fixed size.
"""

from __future__ import annotations

import re

_WINDOW = 160
_BEYOND = 16
_AFTER_WINDOW = 64

# Words that hold a negation character and deny nothing after them. A span that begins inside one is
# denied all the same: 问题 in 没问题, "bad" in "not bad".
_HARMLESS_ZH = """
    不错 不仅 不但 不光 不只 不单(?!独) 不止 不少 不管 不论 不断 不久 不时 不同(?!意) 不如 不妨 不愧 不禁 不料 不慎
    不小心 不幸 不满 不良 不锈钢 不粘 不干胶 不好意思 不客气 不用谢 不要紧 不介意 不反对 不排除 不超过 不晚于 不早于
    不迟于 不多于 不低于 不高于 不大于 不小于 不到(?=\\s*[\\d一二三四五六七八九十百千万两半]) 不要忘 不会忘 对不起
    了不起 差不多 说不定 二话不说 怪不得 巴不得 恨不得 动不动 忍不住 免不了 少不了 离不开 不得了
    没关系 没事(?!先) 没问题 没错 没准 没想到 没意见 没多久 没忘 淹没 沉没 出没 埋没
    未来(?!得及) 未免 特别 分别 区别 级别 类别 性别 识别 鉴别 辨别 差别 个别 各别 告别 离别 送别 道别 判别
    甄别 派别 国别 别人 别的 别处 别家 别墅 别名 别致 别针 别扭 别克 别忘 别客气 别担心
    无论 无线 无绳 无人机 无限 无疑 无数 无锡 无比 无聊 无奈 无忧 无所谓 无非 无妨 无缝
    非常 非洲 是非 莫非 非凡 非得 非要 非但 南非 北非 非典 非议 非法
"""
_TRADITIONAL = str.maketrans(
    "别没无错仅单论断时满锈钢气谢紧过于关系问题准类级识鉴个区线绳数扫针锡忧谓缝",
    "別沒無錯僅單論斷時滿鏽鋼氣謝緊過於關係問題準類級識鑒個區線繩數掃針錫憂謂縫",
)


def _words(source: str) -> str:
    simplified = source.split()
    both = dict.fromkeys([*simplified, *(word.translate(_TRADITIONAL) for word in simplified)])
    return "|".join(sorted(both, key=len, reverse=True))


# `\b` is of no use here: Chinese counts as word characters, and people write 这个not good.
_B, _E = r"(?<![a-z0-9_])", r"(?![a-z0-9_])"
_NOT = r"(?:not|never|cannot|[a-z]{1,8}n['’]t|(?:do|does|did|ca|wo)nt)"

_HARMLESS_EN = rf"""
    {_B}{_NOT}\s+(?:only|just|merely|simply|solely|least|(?:too\s+|so\s+|(?:a|the)\s+)?bad|to\s+mention|exceed(?:ing)?|forget|hesitate
        |mind|worry|miss|fail\s+to|wait\s+(?:for|to)){_E}
  | {_B}(?:no|not|n['’]t)\s+(?:more|less|fewer|later|earlier|sooner|greater|higher|lower)\s+than{_E}
  | {_B}no\s+(?:doubt|problem|worries|wonder|matter){_E}
  | {_B}(?:why\s+not|whether\s+or\s+not){_E}
  | {_B}no(?=\.?\s*[\#]?\d)                                       # order no 45
  | {_B}no(?=\s+(?:i|we|you|it|thanks?|please){_E})               # "no I want the lid"
"""

_BORDER = rf"""
    [\n!?;，。；：！？…—()（）\[\]【】|•]
  | (?<!\d),|,(?!\d)|\.(?![a-z0-9])|(?<!\d):|:(?!\d)|\s--?\s
  | {_B}(?:but|however|although|though|whereas|unless|until|except|besides|otherwise|please|only|if|when|while){_E}
  | {_B}(?<!not\ )because{_E}
  | {_B}instead(?!\s+of){_E}
  | {_B}(?:other\s+than|apart\s+from){_E}
  | {_B}(?:and|so)(?=\s+(?:i|we|you|he|she|it|they|please|then|instead){_E})
  | 但|而|不过(?![来去])|可是|只是|因为|因為|所以|如果|除非|只要|只想|只有|否则|不然|即使|虽然|既然
  | 改为|改成|换成|(?<![不也])就|(?<![不为為除忘])了(?![解结])|的话|吧|吗|呢|嘛|(?<![申邀聘])[请請]
"""

_DENIAL = rf"""
    {_B}{_NOT}{_E}
  | {_B}(?:no\s+longer|no\s+one|no|hardly|without|neither|nor|none|nobody|nothing){_E}
  | {_B}(?:instead\s+of|rather\s+than|as\s+opposed\s+to|anything\s+but|unable\s+to){_E}
  | {_B}(?:fail(?:s|ed|ing)?|refus(?:e|es|ed|ing))\s+to{_E}
  | 并非|並非|[无無][需须須法权意从力]|[毫并暂尚均][无無]|[没沒]有?|不[要想是]?|未|[别別]|勿|甭|拒绝|拒絕
"""

_TOKEN = re.compile(
    rf"""
    (?P<ask>([\u4e00-\u9fff])[不没沒]\2)                             # 要不要, 是不是, 有没有: a question
  | (?P<double>不得不|(?:不是|不能|不会|不可能|并非|并不是)(?:没有?|不(?!仅|但|光|只|止|错|同|良|满|少))
        |不可不|没有不(?!同|良|满|锈|少)|[无無]不|不[无無](?!线|绳|限))
  | (?P<harmless>{_words(_HARMLESS_ZH)}|{_HARMLESS_EN})
  | (?P<border>{_BORDER})
  | (?P<near>{_B}(?:non|no)-|[无無](?![需须須法权意从力])(?<![毫并暂尚均].)|(?<![并並])非(?![^，。,.\s]{{1,8}}不[可行]))
  | (?P<denial>{_DENIAL})
  | (?P<echo>(?<![主重必需])[要想是])
    """,
    re.VERBOSE | re.IGNORECASE,
)

_AFTER = re.compile(
    rf"""
    -(?:free|less){_E}
  | \s*[:：=]\s*(?:no|none|false|否|无|不需要|不要|不用)(?=\s*(?:$|[,.;，。；\n]))
  | \s+(?:(?:is|are|was|were)\s+)?(?:not|no\s+longer)\s+(?:needed|required|wanted|necessary){_E}
  | \s+(?:is|are|was|were)n['’]t\s+(?:needed|required|wanted|necessary){_E}
  | \s*(?:就|也|都|我|先)?\s*(?:不要|不用|不需要|不必)了?(?=吧|\s*(?:$|[，。！？；,.!?;\n]))
    """,
    re.VERBOSE | re.IGNORECASE,
)

_PUNCTUATION = re.compile(r"[\n!?;，。；：！？…—()（）\[\]【】|•]|[.,]\s")
_UNITS = re.compile(r"([\u3400-\u9fff])|[^\W_](?:[^\W\u3400-\u9fff]|['’.-](?=\w))*")


def _reaches(between: str) -> bool:
    """A negation reaches over six words or eight Chinese characters, or a mix in proportion."""
    cost = 0
    for unit in _UNITS.finditer(between):
        cost += 3 if unit[1] else 4
    return cost <= 24


def _answers(word: str, verb: str) -> bool:
    """Whether a verb takes a denied one up: 不要退款要换货, 不是刀片是盖子, 不要退款想换货."""
    return word == verb or {word, verb} == {"要", "想"}


def negated_at(text: str, start: int, end: int) -> bool:
    """Say whether the clause around `text[start:end]` denies it. Constant work, whatever the text.

    A clause ends at punctuation, at but/however/unless/…, 但/而/就/了/…; 、 does not end one, since
    不要退款、换货 denies both. Questions (要不要) and double negations (不得不, "not without") do not
    deny. After the span only "… is not needed", 不用了, ": no" and "-free" are looked at.

    Known to be wrong, and kept in a test each. Denied though it is not, so that less is proven:

    - the object of a denied feeling, wait or question: "I'm not happy with KX-5512", "I haven't heard
      about my refund", "I don't know where the blade is", "don't you want a refund?";
    - a condition without its mark: 不喜欢可以退款 (with 就 it is seen).

    Affirmed though it is denied, so that something is proven that should not be:

    - lists: in "no refund, voucher or repair" the comma frees everything after the first item;
    - denial by meaning ("declined a refund", "rather X than a refund", 取消退款) or by a predicate behind
      the span ("the refund was not issued", 退款没有到账); only refuse to / fail to / unable to / 拒绝 count;
    - a negation more than six words or eight characters away; two negations in dialect.
    """
    start, end = max(0, start), min(len(text), end)
    low = max(0, start - _WINDOW)
    # Punctuation always ends a clause; starting behind it spares the long expression most of the window.
    low += max((mark.end() for mark in _PUNCTUATION.finditer(text[low:start])), default=0)
    region = text[low : end + _BEYOND] if end - start < _WINDOW else text[low : start + _BEYOND]
    at = start - low
    if _AFTER.match(text[end : end + _AFTER_WINDOW]):
        return True
    scope: int | None = None
    verb = ""
    for token in _TOKEN.finditer(region):
        if token.start() >= at:
            break
        kind, word = token.lastgroup, token[0].lower()
        if kind == "harmless" and token.end() > at:
            return True
        if kind == "double" or (kind == "border" and token.end() <= at):
            scope = None
        elif kind == "near" and token.end() == at:
            return True
        elif kind == "denial":
            # "Not without a receipt" asks for the receipt.
            cancels = word == "without" and scope is not None and _reaches(region[scope : token.start()])
            scope = None if cancels else token.end()
            verb = word[1:] if word[0] == "不" else ""
        elif kind == "echo" and scope is not None and token.start() > scope and _answers(word, verb):
            scope = None
    return scope is not None and _reaches(region[min(scope, at) : at])
