"""What a commit is about, for the index by which sessions are found again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from statepact.contracts import Contract
from statepact.contracts._entities import ids_of, may_have_ids, sensitive_texts
from statepact.stores._base import Entity

FindEntities = Callable[[Contract], Iterable[tuple[str, str]]]
"""A user's own rule: from a committed value to pairs of kind and id."""

MOST_ENTITIES = 32
"""Entities of one commit. Each is a row that lives as long as the session."""

LONGEST_ENTITY = 128
"""Characters of an id, and of a kind; what is longer is no key that somebody would say."""


def entities_of(value: Contract, find: FindEntities | None) -> Iterator[Entity]:
    """Yield what a value is about: its marked ids, then what the user's rule finds.

    Nothing that stands in a sensitive field is yielded, wherever else it stands.
    """
    if find is None and not may_have_ids(type(value)):
        return
    from statepact.meaning import normal_id  # loads expressions that only few workflows need

    found = [*ids_of(value), *(find(value) if find is not None else ())]
    hidden = {normal_id(text) for text in sensitive_texts(value)} if found else set()
    for kind, text in found:
        key = normal_id(str(text))
        if key and key not in hidden and len(key) <= LONGEST_ENTITY and len(kind) <= LONGEST_ENTITY:
            yield Entity(kind, key)
