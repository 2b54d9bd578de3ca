"""What a cut of a log takes with it, found by one look at everything that is stored of the session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from statepact.errors import CorruptState
from statepact.ledger import SessionKey
from statepact.ledger._blocks import addresses_in, fields_in, is_value_id, without
from statepact.ledger._cells import Entry
from statepact.ledger._digest import entry_digest, new_salt
from statepact.ledger._erased import Leaf, digests_of
from statepact.ledger._header import Kind
from statepact.ledger._lineage import Facts, Lineage
from statepact.ledger._log import SessionLog
from statepact.ledger._old_heads import addresses_of_digests
from statepact.ledger._retention import Carried, counted
from statepact.ledger._unset import unset_paths
from statepact.stores._base import Entity, EntityUse, Store
from statepact.stores._leaves import PORTION, addresses_of, leaves_in, record_of
from statepact.stores._remains import fields_of, texts_in
from statepact.stores._retention_report import Retention

MOST_ENTITIES = 1_000_000

LATE = 60_000
"""Milliseconds by which an index may be behind with the newest use of an entity."""

BLOCKS_AT_ONCE = 100


class CarriedOn(NamedTuple):
    """A change that a base carries on, with what is stored of it there."""

    change: Carried
    leaf: Leaf
    unset: tuple[str, ...]
    """Nested fields that its writer did not set."""
    erased: frozenset[str]
    """Fields that count and are erased."""
    made_from: Facts
    """Facts that its writer may have been given."""


@dataclass(slots=True)
class Removed:
    """What goes with the entries up to a revision, and what of it is carried on."""

    carried: list[CarriedOn] = field(default_factory=list)
    blocks: set[bytes] = field(default_factory=set)
    written: dict[bytes, bytes] = field(default_factory=dict)
    """Large values of changes that were put together."""
    old_digests: set[bytes] = field(default_factory=set)
    """Where an older base had its digests."""
    entities: list[Entity] = field(default_factory=list)
    entries: int = 0
    values: int = 0
    bytes: int = 0

    def report(self) -> Retention:
        """Return the numbers."""
        return Retention(
            entries=self.entries, values=self.values, large_values=len(self.blocks), entities=len(self.entities),
            bytes=self.bytes, carried=len(self.carried),
        )  # fmt: skip


async def looked_through(
    store: Store, key: SessionKey, log: SessionLog, size: int, carried: Sequence[Carried]
) -> Removed:
    """Return what goes if a log is cut behind `size` entries.

    Raises `CorruptState` if something is not what was committed: what is damaged is not to be removed
    without a word.
    """
    looking = _Looking(store, key, log, size, carried)
    for start in range(0, len(log.entries), PORTION):
        await looking.portion(log.entries[start : start + PORTION])
    return await looking.end()


class _Looking:
    def __init__(self, store: Store, key: SessionKey, log: SessionLog, size: int, carried: Iterable[Carried]) -> None:
        self._store = store
        self._key = key
        self._log = log
        self._size = size
        self._carried = {one.cell: one for one in carried}
        self._found = Removed(entries=counted(log, size))
        self._lineage = Lineage(log)
        self._gone: set[bytes] = set()
        self._old_digests: set[bytes] = set()
        self._kept: set[bytes] = set()
        self._uses: dict[EntityUse, str] | None = None
        """The entities of the session, and how they read without their punctuation."""
        self._said_before: set[EntityUse] = set()
        self._said_since: set[EntityUse] = set()

    async def portion(self, entries: Sequence[Entry]) -> None:
        payloads = await self._store.payloads(self._key, [entry.revision for entry in entries])
        before: list[Leaf] = []
        since: list[Leaf] = []
        for entry in entries:
            leaves = leaves_in(entry, payloads.get(entry.revision))
            if entry_digest(entry.body, digests_of(leaves)) != entry.header.digest:
                raise CorruptState(
                    f"revision {entry.revision} of session {self._key.session!r} is not what was committed",
                    hint="run `statepact verify` on the session, and restore the store from a backup",
                )
            if entry.revision > self._size:
                self._kept |= addresses_of(entry, leaves)
                since += leaves[: len(entry.cells)]
                continue
            self._gone |= addresses_of(entry, leaves)
            if entry.header.kind is Kind.BASE:
                self._old_digests |= set(addresses_of_digests(record_of(entry, leaves)))
            self._found.bytes += len(entry.header.stored(entry.body)) + len(payloads.get(entry.revision) or b"")
            self._lineage.add(entry, record_of(entry, leaves))
            going_on = self._carries(entry, leaves)
            since += [one.leaf for one in going_on]
            numbers = {one.change.cell.leaf_number for one in going_on}
            going = [leaf for number, leaf in enumerate(leaves[: len(entry.cells)]) if number not in numbers]
            before += going
            self._found.values += sum(len(_fields(leaf)) for leaf in going)
            for one in going_on:
                self._found.values += len(one.change.dropped & _fields(leaves[one.change.cell.leaf_number]))
        self._said_before |= await self._said_in(before)
        self._said_since |= await self._said_in(since)

    def _carries(self, entry: Entry, leaves: list[Leaf]) -> list[CarriedOn]:
        """Take in what of an entry is carried on."""
        found = []
        for change in (self._carried[cell] for cell in entry.cells if cell in self._carried):
            cell, leaf = change.cell, leaves[change.cell.leaf_number]
            erased = cell.erased - change.dropped
            unset = unset_paths(record_of(entry, leaves), cell.leaf_number)
            made_from = frozenset().union(*(self._lineage.of(one) for one in (cell, *change.of)))
            if change.written is not None:
                self._found.written.update(change.written.blocks)
                going_on = Leaf(change.written.stored, new_salt())
            else:
                going_on = _carried_on(leaf, change.dropped)
            found.append(CarriedOn(change, going_on, unset, erased, made_from))
        self._kept |= {a for one in found if one.leaf.stored for a in addresses_in(one.leaf.stored).values()}
        self._found.carried += found
        return found

    async def _said_in(self, leaves: Sequence[Leaf]) -> set[EntityUse]:
        """Return the entities that stand in values."""
        if self._uses is None:
            uses = await self._store.entities(self._key.owner, most=MOST_ENTITIES)
            self._uses = {use: plain(use.value) for use in uses if use.session == self._key.session}
        if not self._uses:
            return set()
        said = [
            text
            for leaf in leaves
            for value in (await fields_of(self._store, self._key, leaf)).values()
            for text in texts_in(value)
        ]
        text = plain("\n".join(said))
        return {use for use, value in self._uses.items() if value in text}

    async def end(self) -> Removed:
        found = self._found
        found.blocks = self._gone - self._kept - self._old_digests
        found.old_digests = self._old_digests
        blocks = sorted(found.blocks)
        for start in range(0, len(blocks), BLOCKS_AT_ONCE):
            rows = await self._store.blocks(self._key, blocks[start : start + BLOCKS_AT_ONCE])
            found.bytes += sum(map(len, rows.values()))
        found.entities = [Entity(use.kind, use.value) for use in self._uses or () if not self._is_still_used(use)]
        return found

    def _is_still_used(self, use: EntityUse) -> bool:
        """Whether a kept entry is about an entity.

        The log does not say which entry named it. So what stands in a kept value is, and what stands only in
        a removed one is not; for what stands in neither, an id that is computed or sealed, the time of its
        last use decides.
        """
        if use in self._said_since:
            return True
        commits = [entry.header.at for entry in self._log.after(self._size) if entry.header.kind is Kind.COMMIT]
        lately = bool(commits) and use.at >= min(commits)
        if use in self._said_before:
            return lately and any(map(is_value_id, self._kept))
        return bool(commits) and use.at >= min(commits) - LATE


def plain(text: str) -> str:
    """Return a text as an index of entities may have it: without its punctuation."""
    return "".join(filter(str.isalnum, text.casefold()))


def _fields(leaf: Leaf) -> frozenset[str]:
    return fields_in(leaf.stored) if leaf.stored else frozenset()


def _carried_on(leaf: Leaf, dropped: frozenset[str]) -> Leaf:
    """Return a leaf as a base has it: without what does not count, under a salt of its own.

    One of which something was erased says so for good: the entry that says it may stay in the log.
    """
    if leaf.stored is None:
        return leaf
    stored = without(leaf.stored, dropped) if dropped & _fields(leaf) else leaf.stored
    return Leaf(stored, new_salt(), leaf.was)
