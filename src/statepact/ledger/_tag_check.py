"""Does the chain of tags hold?"""

from __future__ import annotations

from statepact.ledger._base_record import Base
from statepact.ledger._header import Header
from statepact.ledger._keyed import same_tag, tag_of


class TagCheck:
    """Checks the chain of tags. Each is computed from the stored tag before it, so that only the entry
    that was touched is named; those that agree are as somebody with the key has put them."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._previous: bytes | None = None
        """`None` if it is not known, because the entry before is damaged."""
        self.first = 0
        """Revision of the first entry with a tag."""

    def wrong(self, revision: int, header: Header | None, head: bytes, base: Base | None, in_place: bool) -> str | None:
        """Return what is wrong with the tag of the next entry; `head` is that over all before it."""
        if not self.first:
            if header is None or not header.keyed:
                return None
            self.first = revision
            previous: bytes | None = head
            if base is not None and revision == base.size:
                previous = base.tag or head
        else:
            previous = self._previous if in_place else None
        self._previous = header.tag if header is not None and header.tag else None
        if header is None:
            return None  # that is a fault already
        if not header.keyed:
            return "it has no tag: somebody without the key has written it"
        right = previous is None or same_tag(tag_of(self._key, previous, header.digest, revision), header.tag)
        if base is not None and revision == base.size:
            self._previous = base.tag or header.tag
        return None if right else "its tag is not that of somebody who has the key"
