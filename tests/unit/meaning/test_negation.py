"""What a clause denies. The span in question stands in «»."""

from __future__ import annotations

import pytest

from statepact.meaning import negated_at

DENIED_EN = """
I want the lid, not the «blade»
I don't want a «refund», I want a replacement
I don’t want a «refund»
I dont want a «refund»
not the «blade» but the lid
Do not send me a «voucher»
There is no «refund» for this order
We never got the «parcel»
I cannot open the «lid»
I can't use the «voucher»
It came without a «receipt»
a replacement instead of a «refund»
a replacement rather than a «refund»
the «refund» is no longer needed
I no longer want the «refund»
neither the «lid» nor the blade
neither the lid nor the «blade»
no refund and no «voucher»
no refund or «voucher»
nobody received the «refund»
we are unable to «refund» it
the machine failed to «start»
This is not "«urgent»"
a «sugar»-free drink
a no-«refund» policy
a non-«smoking» room
The «refund» isn't needed
«express»: no
Please do not «phone»
PLEASE DO NOT «PHONE»
We don't have KX-5512, and no «KX-5513»
There is no «KX-5512» in our system
It wasn't a very good «grinder»
the lid is not «bad»
You must not «exceed» the budget
not only the lid is missing, but there is no «blade»
这个not «good»
"""

AFFIRMED_EN = """
I want the «lid», not the blade
I want the «lid» not the blade
I don't want a refund, I want a «replacement»
I don't want a refund but a «replacement»
I don't want a refund. Send a «replacement»
I don't want a refund and I want a «replacement»
I do not want a refund only a «replacement»
not the blade but the «lid»
not only the «blade» but also the lid
not only the blade but also the «lid»
it is not just the «blade»
not a bad «grinder»
That's not bad, the «lid» fits
no doubt the «blade» broke
no problem, the «refund» is on its way
No, I want a «replacement»
No I want a «replacement»
don't forget the «receipt»
Don't hesitate to ask for a «refund»
I don't mind a «replacement»
no more than «300» EUR
not later than «Friday»
must not exceed «300» EUR
order no «45»
Order No. «45»
not without a «receipt»
I do not want the lid without the «blade»
nothing but the «lid»
no item except the «lid»
we cannot ship until «Monday»
It didn't work so I want a «refund»
the note mentions the «refund»
in the north the «parcel» arrived
whether or not the «blade» is sharp
a no-show «fee»
The price is 1,299.00, not more, and the «lid» is free
it did not fit; the «lid» did
I do not want (the «lid» is fine) the blade
I do not remember one two three four five six seven «eight»
"""

DENIED_ZH = """
不要«退款»，要换货
不用«再次»寄送
没有收到«退款»
没收到«退款»
我不想要«退款»
不是«刀片»坏了
并非«刀片»的问题
要换货，而不是«退款»
要换货而不是«退款»
请不要给我打«电话»
别«退款»
请勿«打电话»
尚未«发货»
未«付款»订单
无需«退款»
无法«退款»
无«退款»记录
暂无«物流»信息
非«质量问题»
不要退款、«换货»
不要退款也不要«换货»
不同意«退款»
特别不喜欢这个«刀片»
是不是不要«退款»
不要“«退款»”
«退款»不用了，谢谢
«退款»就不要了
«加急»：否
客户拒绝«退款»
没«问题»
这个价格不«贵»
我不知道怎么收不到«退款»
無需«退款»
沒有收到«退款»
別«退款»
"""

AFFIRMED_ZH = """
不要退款，要«换货»
不要退款要«换货»
不想退款想«换货»
不是刀片是«盖子»
不是刀片而是«盖子»
不是刀片，但«盖子»坏了
不用了直接«退款»
不用退款请«换货»
不仅«刀片»坏了
不但«刀片»坏了，盖子也裂了
不错的«刀片»
这个不错，«换货»吧
非常想要«退款»
未来要«退款»
特别要求«退款»
分别«退款»和换货
别人收到了«退款»
没关系，«退款»就行
没问题«退款»可以
没想到«刀片»坏了
别忘了«退款»
我不得不«退款»
不是不«退款»
不能没有«盖子»
非«退款»不可
要不要«退款»
是不是«刀片»坏了
有没有«退款»
退不«退款»
不超过«300»元
不晚于«周五»
差不多«300»元
对不起，«退款»会到
无线«耳机»
不锈钢«刀片»
无论«退款»还是换货
不介意«换货»
不退款就«投诉»
不如«换货»
不到«300»元
没有退款是因为«刀片»坏了
除非«退款»
不論«退款»還是換貨
無線«耳機»
沒關係«退款»可以
特別要求«退款»
"""

# Answers that are wrong today, listed so that a change of rule shows up here.
WRONGLY_DENIED = """
I don't want to wait for the «refund»
don't you want a «refund»?
I don't know where the «blade» is
没有人比我更想«退款»
我不知道«刀片»在哪
I'm not happy with «KX-5512»
I haven't heard back about my «refund»
不喜欢可以«退款»
"""

WRONGLY_AFFIRMED = """
no refund, «voucher» or repair
They declined a «refund»
the «refund» was not issued
I don't think that you will ever want to give me a «refund»
I would rather have a replacement than a «refund»
ain't nobody without «refund»
取消«退款»
«退款»没有到账
没有在上个月约定好的时间之内收到«退款»
"""


def _marked(*tables: str) -> list[str]:
    return [line for table in tables for line in table.strip().splitlines()]


def _answer(marked: str) -> bool:
    start, end = marked.index("«"), marked.index("»") - 1
    return negated_at(marked.replace("«", "").replace("»", ""), start, end)


@pytest.mark.parametrize("marked", _marked(DENIED_EN, DENIED_ZH))
def test_a_clause_denies(marked: str) -> None:
    assert _answer(marked)


@pytest.mark.parametrize("marked", _marked(AFFIRMED_EN, AFFIRMED_ZH))
def test_a_clause_does_not_deny(marked: str) -> None:
    assert not _answer(marked)


@pytest.mark.parametrize("marked", _marked(WRONGLY_DENIED))
def test_known_to_be_wrong_and_taken_for_denied(marked: str) -> None:
    assert _answer(marked)


@pytest.mark.parametrize("marked", _marked(WRONGLY_AFFIRMED))
def test_known_to_be_wrong_and_taken_for_affirmed(marked: str) -> None:
    assert not _answer(marked)


def test_a_span_outside_the_text_is_never_denied() -> None:
    """Offsets are clamped, so a stale span is no error."""
    assert not negated_at("", 5, 9)
    assert not negated_at("a refund", -3, 100)
