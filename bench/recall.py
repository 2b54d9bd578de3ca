"""`python -m bench.recall`: how often "the order I asked about yesterday" is found, asked about, or missed.

The requests stand in two files. `recall_held_out.json` was written first and not looked at while the
rules were made; `recall_tuned.json` was. Each request has the orders that it means: one, several (then
the right thing to do is to ask) or none.
"""

import argparse
import asyncio
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from statepact import Contract, Id, MemoryStore, Store, open_session
from statepact.testing import FakeClock
from statepact.workflow import AsyncSession, Recalled

HERE = Path(__file__).parent
FILES = ("held_out", "tuned", "traps_held_out", "traps")
NOW = datetime(2026, 12, 9, 10, tzinfo=UTC)  # a Wednesday

ORDERS = {
    "A": ("KX-5512890", datetime(2026, 12, 8, 9, 12, tzinfo=UTC), "The blade of KX-5512890 broke."),
    "B": ("551200890", datetime(2026, 12, 8, 18, 30, tzinfo=UTC), "订单551200890漏水了，怎么办？"),
    "C": ("KX-5513345", datetime(2026, 12, 7, 14, 0, tzinfo=UTC), "KX-5513345 came without its lid."),
    "D": ("W2378156", datetime(2026, 12, 3, 11, 0, tzinfo=UTC), "请问 W2378156 什么时候发货？"),
    "E": ("4417890", datetime(2026, 12, 2, 16, 20, tzinfo=UTC), "Can I still cancel 4417890?"),
    "F": ("A7-0093-B", datetime(2026, 11, 20, 10, 0, tzinfo=UTC), "Where is A7-0093-B?"),
    "G": ("880012345", datetime(2026, 11, 11, 9, 0, tzinfo=UTC), "880012345 的发票开错了"),
    "H": ("KX-6600017", datetime(2026, 12, 9, 8, 5, tzinfo=UTC), "I want to return KX-6600017."),
}
"""What one customer has spoken of in earlier sessions: id, when, and in which words."""


class Order(Contract, version="1.0"):
    order_id: Id[str]
    status: str


@dataclass(frozen=True)
class Case:
    """A request and the orders that it means."""

    text: str
    right: frozenset[str]

    @property
    def is_chinese(self) -> bool:
        return any("\u4e00" <= char <= "\u9fff" for char in self.text)


def cases(name: str) -> list[Case]:
    """Return the requests of a file: `held_out` or `tuned`."""
    rows = json.loads((HERE / f"recall_{name}.json").read_text(encoding="utf-8"))
    return [Case(text, frozenset(ORDERS[letter][0] for letter in right)) for text, right in rows]


async def customer(store: Store) -> None:
    """Write what the customer, and somebody else at the same times, have spoken of."""
    for letter, (order_id, at, text) in ORDERS.items():
        clock = FakeClock(round(at.timestamp() * 1000))
        async with open_session(f"chat-{letter}", owner="chen", store=store, request=text, clock=clock) as session:
            await _look_up(session, order_id)
        clock = FakeClock(round(at.timestamp() * 1000))
        async with open_session(f"chat-{letter}", owner="other", store=store, request=text, clock=clock) as session:
            await _look_up(session, f"ZZ-99{letter}890")


async def _look_up(session: AsyncSession, order_id: str) -> None:
    async with session.step("look_up") as step:
        await step.commit(Order(order_id=order_id, status="shipped"))


def verdict(case: Case, found: Recalled[Order]) -> str:
    """Say whether a recall was right: `right`, `asks`, `misses` or `wrong`.

    `asks`: a question that has the right ones among others, where none was needed, or not so wide a one.
    `misses`: it leaves out one that was meant. `wrong`: it goes on with one that was not meant.
    """
    ids = {candidate.id for candidate in found.candidates}
    if found.one is not None:
        return "right" if ids == case.right else "wrong"
    if ids == case.right and (len(ids) != 1):
        return "right"
    return "asks" if ids >= case.right else "misses"


async def results(name: str) -> list[tuple[Case, Recalled[Order], str]]:
    """Return what comes of each request of a file."""
    store = MemoryStore()
    await customer(store)
    found = []
    for number, case in enumerate(cases(name)):
        clock = FakeClock(round(NOW.timestamp() * 1000))
        async with open_session(f"now-{number}", owner="chen", store=store, request=case.text, clock=clock) as session:
            recalled = await session.recall(Order)
        found.append((case, recalled, verdict(case, recalled)))
    return found


def wilson(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def table(name: str, found: Sequence[tuple[Case, Recalled[Order], str]]) -> list[str]:
    """Return the lines of the table for one file."""
    lines = []
    for label, some in (
        ("English", [one for one in found if not one[0].is_chinese]),
        ("Chinese", [one for one in found if one[0].is_chinese]),
        ("all", list(found)),
    ):
        counted = Counter(one[2] for one in some)
        low, high = wilson(counted["right"], len(some))
        numbers = " | ".join(str(counted[word]) for word in ("right", "asks", "misses", "wrong"))
        share = f"{counted['right'] / len(some):.0%} ({low:.0%} to {high:.0%})"
        lines.append(f"| {name} | {label} | {len(some)} | {numbers} | {share} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=__doc__)
    parser.add_argument("--only", choices=FILES, help="one of the files")
    parser.add_argument("--show", action="store_true", help="name each request that was not answered right")
    options = parser.parse_args()
    print("| requests | language | n | right | asks | misses | wrong | right, 95 % interval |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    for name in [options.only] if options.only else FILES:
        found = asyncio.run(results(name))
        print("\n".join(table(name.replace("_", " "), found)))
        if options.show:
            for case, recalled, word in found:
                if word != "right":
                    print(f"  {word}: {case.text}")
                    print(f"    {sorted(case.right)} != {sorted(one.id for one in recalled.candidates)}")


if __name__ == "__main__":
    main()
