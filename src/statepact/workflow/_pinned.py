"""The pinned facts of a run as lines of the baton: each rendered once, however many steps follow.

A long run may hold a thousand of them, and each step is shown what fits. So what depends on their
number happens when one is committed, not when a step begins: a step costs the lines it is shown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from statepact.ledger import Cell
from statepact.ledger._header import Reached, Read
from statepact.ledger._pinned import may_be_cut
from statepact.models._base import estimate_tokens
from statepact.stores._draft import NO_PINNED, Pinned
from statepact.stores._open_log import OpenLog
from statepact.workflow._render import PINNED_BUDGET, Item, holds, mark_sent, neutral, show

RENDERED_AT_ONCE = 32
"""Pinned facts that are read from the store together when the newest do not fill the budget."""


class PinnedFacts:
    """The pinned facts of one run, for all its steps."""

    def __init__(self, log: OpenLog, run: str) -> None:
        self._log = log
        self._run = run
        self._items: list[tuple[Item, ...]] = []
        """What each cell with pinned facts gives to the baton, in the order of the log."""
        self._names: set[str] = set()
        """The contracts of these cells."""
        self._lines: dict[frozenset[str], _Lines] = {}
        self._erasure = 0
        """The newest erasure that is taken into account."""

    async def shown(self, revision: int, declared: Collection[str], request: str) -> Shown:
        """Return what a step is shown of the facts of its snapshot, without those of contracts it declares."""
        if self._erasure != self._log.log.last_erasure:
            # What was rendered before may hold what has been erased since.
            self._erasure = self._log.log.last_erasure
            self._items.clear()
            self._names.clear()
            self._lines.clear()
        self._read_on()
        if not self._items:
            return Shown(revision, (), (), ())
        left_out = frozenset([name for name in declared if name in self._names])
        lines = self._lines.get(left_out)
        if lines is None:
            lines = self._lines[left_out] = _Lines(left_out)
        lines.read_on(self._items)
        limits = lines.limits[: bisect_right(lines.limits, revision, key=_revision_of)]
        await self._render(limits)
        until = bisect_right(lines.others, revision, key=_revision_of)
        first = await self._first_that_fits(lines.others, until)
        asked = [
            replace(item, text=neutral(request), document=item.document)
            for item in lines.asked[: bisect_right(lines.asked, revision, key=_revision_of)]
        ]
        await self._log.fetch(item.cell for item in asked)
        for item in asked:
            item.document = item.cell.document or b""
        return Shown(revision, (*limits, *lines.others[first:until]), lines.others[:first], asked)

    def _read_on(self) -> None:
        for cell in self._log.log.pinned(self._run, self._log.log.revision, start=len(self._items)):
            self._items.append(tuple(_items_of(cell)))
            self._names.add(cell.contract.name)

    async def _first_that_fits(self, others: Sequence[Item], until: int) -> int:
        """Return the number of the oldest that is shown: the newest come first until there is no room."""
        left = PINNED_BUDGET
        for number in range(until - 1, -1, -1):
            if others[number].tokens < 0:
                await self._render(others[max(0, number + 1 - RENDERED_AT_ONCE) : number + 1])
            left -= others[number].tokens
            if left < 0:
                return number + 1
        return 0

    async def _render(self, items: Sequence[Item]) -> None:
        new = [item for item in items if item.tokens < 0]
        if not new:
            return
        await self._log.fetch([item.cell for item in new])
        for item in new:
            item.document = item.cell.document or b""
            show(item)
            item.tokens = estimate_tokens(item.text)


class _Lines:
    """The items of the cells that a step does not declare, sorted by how they are shown."""

    __slots__ = ("asked", "left_out", "limits", "others", "seen")

    def __init__(self, left_out: frozenset[str]) -> None:
        self.left_out = left_out
        self.seen = 0
        self.asked: list[Item] = []
        """Shown anyway, as the request."""
        self.limits: list[Item] = []
        self.others: list[Item] = []

    def read_on(self, items: Sequence[tuple[Item, ...]]) -> None:
        for number in range(self.seen, len(items)):
            for item in items[number]:
                if item.cell.contract.name not in self.left_out:
                    lines = self.limits if item.limit else self.others if may_be_cut(item.cell) else self.asked
                    lines.append(item)
        self.seen = len(items)


def _items_of(cell: Cell) -> Iterator[Item]:
    contract = cell.contract
    left = [field for field in contract.pinned if field.name not in cell.erased]
    limits = tuple(field.name for field in left if field.limit)
    others = tuple(field.name for field in left if not field.limit)
    if not left:
        return  # all of them were erased
    if not may_be_cut(cell):
        yield Item(cell, (*limits, *others))
        return
    if limits:
        yield Item(cell, limits, limit=True)
    if others:
        yield Item(cell, others)


def _revision_of(item: Item) -> int:
    return item.cell.revision


class Shown:
    """What one step is shown of the pinned facts, and what of it was seen in what its model was sent."""

    def __init__(self, revision: int, items: Sequence[Item], cut: Sequence[Item], asked: Sequence[Item]) -> None:
        self._revision = revision
        self._items = items
        self._cut = cut
        self._asked = asked
        self._whole = False
        self._single: Sequence[Item] = ()
        """Copies of the items, once they have to be looked for one by one."""
        self.text = "\n".join([item.line() for item in items])
        """The lines as they stand in the prompt; empty for none."""

    @property
    def cut(self) -> int:
        """How many lines had no room."""
        return len(self._cut)

    @property
    def total(self) -> int:
        """How many lines there are, with those that had no room."""
        return len(self._items) + len(self._cut)

    def sent(self, text: str) -> None:
        """Note which facts stand in the text that a model was really sent."""
        mark_sent(self._asked, text)
        if self._whole or holds(text, self.text):
            self._whole = True
            return
        self._single = self._single or [replace(item) for item in self._items]
        mark_sent(self._single, text)

    def reads(self, *, known: bool) -> tuple[Pinned, Sequence[Read]]:
        """Return how the facts reached the step: the rule for most of them, and a read for each exception.

        `known` is false if nobody said what was sent.
        """
        if not (self._items or self._cut or self._asked):
            return NO_PINNED, ()
        if not known:
            return Pinned(self._revision, Reached.UNKNOWN), ()
        seen = [(item.cell, item.seen) for item in self._asked]
        if self._whole:
            odd = [(cell, mask) for cell, mask in seen if mask != cell.contract.pinned_mask]
            return Pinned(self._revision, Reached.SENT, self.cut), _reads(odd)
        return self._by_rule_or_one_by_one([*seen, *((item.cell, item.seen) for item in self._single or self._items)])

    def _by_rule_or_one_by_one(self, seen: Sequence[tuple[Cell, int]]) -> tuple[Pinned, Sequence[Read]]:
        """Choose the rule that leaves fewer exceptions: all that had room were sent, or none was."""
        # Limits and other facts of one cell are two lines of the baton and one read.
        masks: dict[Cell, int] = {}
        for cell, mask in seen:
            masks[cell] = masks.get(cell, 0) | mask
        full = {cell: cell.contract.pinned_mask for cell in masks}
        for item in self._cut:
            full[item.cell] = item.cell.contract.limit_mask
            masks.setdefault(item.cell, 0)
        odd = [(cell, mask) for cell, mask in masks.items() if mask != full[cell]]
        some = [(cell, mask) for cell, mask in masks.items() if mask]
        if len(some) < len(odd):
            return Pinned(self._revision, Reached.PARTLY), _reads(some)
        named = {cell for cell, _ in odd}
        cut = sum(item.cell not in named for item in self._cut)
        return Pinned(self._revision, Reached.SENT, cut), _reads(odd)


def _reads(found: Sequence[tuple[Cell, int]]) -> Sequence[Read]:
    return [Read(cell.revision, cell.number, Reached.PARTLY, mask, declared=False) for cell, mask in found]
