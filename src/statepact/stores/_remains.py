"""Where an erased value still stands although nothing says that it came from there.

A log knows what each step was given, not what people typed twice. So after an erasure every text that is
left is searched for the values that went; what is found is reported by place, and never erased unasked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import from_json

from statepact.ledger import SessionKey
from statepact.ledger._blocks import addresses_in, is_value_id
from statepact.ledger._erased import Leaf
from statepact.ledger._log import SessionLog
from statepact.stores._base import Store

SHORTEST = 5
"""Characters of the shortest value that is looked for: shorter ones stand everywhere."""

LONGEST = 2_000
"""Characters of the longest: a long text is looked for by its beginning."""

MOST_PLACES = 100


async def texts_of(
    store: Store, key: SessionKey, log: SessionLog, old: Mapping[int, list[Leaf]], new: Mapping[int, list[Leaf]]
) -> set[str]:
    """Return the erased values as texts, as far as they can be read here; sealed ones cannot."""
    texts: set[str] = set()
    for entry in log.entries:
        for cell in entry.cells if entry.revision in old else ():
            before = await fields_of(store, key, old[entry.revision][cell.number])
            after = await fields_of(store, key, new[entry.revision][cell.number])
            for name, value in before.items():
                if name not in after:
                    texts.update(texts_in(value))
    return texts


async def remains_of(
    store: Store, key: SessionKey, log: SessionLog, left: Mapping[int, list[Leaf]], texts: Iterable[str]
) -> tuple[str, ...]:
    """Return the places where one of the texts stands in what is left."""
    wanted = [text[:LONGEST] for text in texts if len(text) >= SHORTEST]
    found: dict[str, None] = {}
    if not wanted:
        return ()
    for entry in log.entries:
        for number, leaf in enumerate(left.get(entry.revision, ())):
            inside = "\n".join(t for value in (await fields_of(store, key, leaf)).values() for t in texts_in(value))
            if any(text in inside for text in wanted):
                what = entry.cells[number].contract.name if number < len(entry.cells) else "record"
                found[f"revision {entry.revision}: {what}"] = None
    for name in (*log.names, key.session):
        if any(text in name for text in wanted):
            found["a name of a session, run, step or branch"] = None
    return tuple(found)[:MOST_PLACES]


async def fields_of(store: Store, key: SessionKey, leaf: Leaf) -> dict[str, Any]:
    """Return the values of a cell by field, `None` for one that is sealed."""
    if not leaf.stored:
        return {}
    fields: dict[str, Any] = dict(from_json(leaf.stored.partition(b"\x00")[0]))
    apart = addresses_in(leaf.stored)
    blocks = await store.blocks(key, [a for a in apart.values() if not is_value_id(a)]) if apart else {}
    for name, address in apart.items():
        fields[name] = from_json(blocks[address]) if address in blocks else None
    return fields


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts and numbers in a JSON value, as texts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
