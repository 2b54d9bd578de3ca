"""Is erased what the log says, and nothing else?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from statepact.ledger._claims import Claim, merged
from statepact.ledger._erased import Leaf
from statepact.ledger._verdict import Fault


class ErasureCheck:
    """Compares what is erased with what the log says was erased."""

    def __init__(self) -> None:
        self._left: dict[tuple[int, int], tuple[Leaf, bytes]] = {}
        self._whole: set[int] = set()
        self._of_a_base: set[tuple[int, int]] = set()
        self._claims: list[tuple[int, Claim]] = []

    def is_left(self, revision: int, leaves: Sequence[Leaf]) -> None:
        """Take in an entry of which something is erased."""
        for number, leaf in enumerate(leaves):
            if leaf.was:
                self._left[revision, number] = leaf, leaf.now(number)

    def is_carried(self, places: Sequence[tuple[int, int]], leaves: Sequence[Leaf]) -> None:
        """Take in what a base carries; its values keep the places where they were committed."""
        for number, (place, leaf) in enumerate(zip(places, leaves, strict=False)):
            self._of_a_base.add(place)
            if leaf.was:
                self._left[place] = leaf, leaf.now(number)

    def is_whole(self, revision: int) -> None:
        """Take in an entry of which nothing is erased."""
        self._whole.add(revision)

    def claim(self, revision: int, claims: Iterable[Claim]) -> None:
        """Take in what an entry says was erased."""
        self._claims += [(revision, claim) for claim in claims]

    @property
    def values(self) -> int:
        """How many values are erased and on record."""
        return sum(len(claim.fields) for claim in merged(claim for _, claim in self._claims).values())

    def faults(self) -> Iterator[Fault]:
        """Yield what is erased without record, and what is on record and there."""
        claims = merged(claim for _, claim in self._claims)
        for (revision, number), (_, now) in self._left.items():
            claim = claims.get((revision, number))
            if claim is None:
                yield Fault(revision, f"value {number} of it is erased, and nothing in the log says that it should be")
            elif claim.now != now:
                yield Fault(revision, f"what is left of value {number} is not what its erasure has left")
        partly = {revision for revision, _ in self._left.keys() - self._of_a_base}
        for revision, number in claims.keys() - self._left.keys():
            if revision in self._whole or revision in partly or (revision, number) in self._of_a_base:
                yield Fault(revision, f"value {number} of it was erased, and is there again")
