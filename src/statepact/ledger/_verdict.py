"""What a check of a log has found, and what a check of its grade can find at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Grade = Literal["plain", "keyed", "anchored"]

_PLAIN = (
    "changed or cut bytes, missing or foreign large values, gaps, and any change of order or number under a seal",
    "a removal or an exchange of whole entries after the newest seal, and whoever computes the digests anew",
)
_KEYED = (
    "every edit, insertion, exchange and removal inside the log, by anybody who does not have the key",
    "a removal of the newest entries, for which it takes a head that was kept elsewhere, and whoever has the key",
)
_ANCHORED = (
    "every change of the {size} entries under the anchor, a removal of the newest of them too, whoever made it",
    "in the entries after the anchor: ",
)


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong with an entry."""

    revision: int
    what: str

    def __str__(self) -> str:
        return f"revision {self.revision}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a check of a log has found."""

    checked: int
    """Entries whose digest agrees with their stored bytes."""
    size: int
    """Entries that are there, and those that a base stands for."""
    sealed: int
    """How many of the oldest entries a seal confirms, in this order and number."""
    head: str
    """Root over all digests, in hex."""
    faults: tuple[Fault, ...] = ()
    grade: Grade = "plain"
    """What was checked: digests alone, tags with a key, or a head that was kept elsewhere as well."""
    keyed: bool = False
    """Whether tags were checked."""
    keyed_from: int = 1
    """Revision of the first entry with a tag; it vouches for those before it as they were then."""
    anchored: int = 0
    """How many entries the head that was kept elsewhere covers."""
    plain_values: int = 0
    """Sensitive values that are stored in plain text, because no key was given when they were written."""
    sealed_values: int = 0
    """Sensitive values that are encrypted."""
    unopened_values: int = 0
    """Those of them of which only the form was checked, because no key was given."""
    erased: int = 0
    """Values that were erased, on purpose and on record."""
    removed: int = 0
    """Entries that a retention rule has removed, on record."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    @property
    def anchor(self) -> str:
        """The head with its size, as `anchor=` takes it. Keep it where the store's disk is not."""
        return f"{self.size}:{self.head}"

    @property
    def finds(self) -> str:
        """What a check of this grade finds."""
        if self.grade == "anchored":
            found = _ANCHORED[0].format(size=self.anchored)
            return f"{found}; in those after it, {_KEYED[0]}" if self.keyed else found
        return _KEYED[0] if self.keyed else _PLAIN[0]

    @property
    def misses(self) -> str:
        """What it cannot find."""
        missed = (_KEYED if self.keyed else _PLAIN)[1]
        return _ANCHORED[1] + missed if self.grade == "anchored" else missed

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain JSON values."""
        return {
            "ok": self.ok,
            "grade": self.grade,
            "checked": self.checked,
            "size": self.size,
            "sealed": self.sealed,
            "head": self.head,
            "anchor": self.anchor,
            "keyed": self.keyed,
            "keyed_from": self.keyed_from,
            "anchored": self.anchored,
            "plain_values": self.plain_values,
            "sealed_values": self.sealed_values,
            "unopened_values": self.unopened_values,
            "erased": self.erased,
            "removed": self.removed,
            "faults": [{"revision": fault.revision, "what": fault.what} for fault in self.faults],
            "finds": self.finds,
            "misses": self.misses,
        }

    def __str__(self) -> str:
        there = self.size - self.removed + bool(self.removed)  # the base is there in their place
        lines = [f"{self.checked} of {there} entries are what was committed · {self.sealed} under a seal"]
        if self.erased:
            lines.append(f"  {self.erased} values were erased, and the log says so")
        if self.removed:
            lines.append(f"  {self.removed} entries were removed by a retention rule, and the log says so")
        if self.keyed and self.keyed_from > 1:
            lines.append(f"  tags begin at revision {self.keyed_from}: what is before it stands as it was then")
        lines += [f"  {fault}" for fault in self.faults]
        if self.sealed_values:
            how = "not opened: no key was given" if self.unopened_values else "each opened with its key"
            lines.append(f"{_values_text(self.sealed_values)} encrypted · {how}")
        if self.plain_values:
            lines.append(f"{_values_text(self.plain_values)} stored in plain text: no key was given at the time")
        lines += [f"head {self.anchor}", f"grade {self.grade}: finds {self.finds};", f"  misses {self.misses}"]
        return "\n".join(lines)


def _values_text(count: int) -> str:
    return f"{count} sensitive value{'' if count == 1 else 's'}"
