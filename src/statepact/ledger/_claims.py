"""What an erasure commits: which values are gone. Places and digests, never values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from statepact.errors import CorruptState


@dataclass(frozen=True, slots=True)
class Claim:
    """One leaf of which something was erased."""

    revision: int
    leaf: int
    """Number of the cell in its commit; the number behind the last cell is the record beside them."""
    fields: frozenset[str] = frozenset()
    """The fields that are gone. For the record beside the cells, what was removed is not named."""
    now: bytes = b""
    """Digest of what is left of it; empty if nothing is."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        plain: dict[str, Any] = {"revision": self.revision, "leaf": self.leaf, "fields": sorted(self.fields)}
        return {**plain, "now": self.now.hex()} if self.now else plain


def claims_in(record: Mapping[str, Any]) -> list[Claim]:
    """Return the claims of an entry's record; raises `CorruptState` if they cannot be read."""
    try:
        return [
            Claim(int(one["revision"]), int(one["leaf"]), frozenset(map(str, one["fields"])), _digest(one))
            for one in record.get("erased", ())
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptState("what an erasure says was erased cannot be read") from error


def _digest(claim: Mapping[str, Any]) -> bytes:
    return bytes.fromhex(claim.get("now", ""))


def merged(claims: Iterable[Claim]) -> dict[tuple[int, int], Claim]:
    """Return the newest claim of each leaf with all fields that are gone by then, from claims in order."""
    found: dict[tuple[int, int], Claim] = {}
    for claim in claims:
        place = claim.revision, claim.leaf
        before = found.get(place)
        fields = claim.fields | before.fields if before else claim.fields
        found[place] = Claim(claim.revision, claim.leaf, fields, claim.now)
    return found
