"""Large values live beside the document, stored once per owner.

A document over 4 KB is taken apart: fields from 1 KB up become blocks, addressed by their digest
under the owner, so a 200 KB text that every step carries along is stored once. The small document
and the addresses form the cell's bytes, and so its digest covers the large values too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from statepact.errors import CorruptState
from statepact.ledger._digest import block_digest

DOCUMENT_LIMIT = 4096
"""Documents up to this many bytes stay whole."""

FIELD_LIMIT = 1024
"""In a larger document, fields from this many bytes up become blocks."""

# A canonical document holds no raw NUL (JSON escapes it), so the mark cannot stand inside one.
_MARK = b"\x00"


class Parts(NamedTuple):
    """A document taken apart."""

    stored: bytes
    blocks: tuple[tuple[bytes, bytes], ...] = ()


def take_apart(owner: str, document: bytes) -> Parts:
    """Return the bytes to store for a canonical document, and the blocks beside them."""
    if len(document) <= DOCUMENT_LIMIT:
        return Parts(document)
    values = orjson.loads(document)
    if orjson.dumps(values, option=orjson.OPT_SORT_KEYS) != document:
        return Parts(document)  # holds a number that orjson does not read exactly: leave it whole
    small: dict[str, object] = {}
    addresses: dict[str, str] = {}
    blocks: list[tuple[bytes, bytes]] = []
    for name, value in values.items():
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        if len(data) < FIELD_LIMIT:
            small[name] = value
            continue
        address = block_digest(owner, data)
        addresses[name] = address.hex()
        blocks.append((address, data))
    if not blocks:
        return Parts(document)
    option = orjson.OPT_SORT_KEYS
    return Parts(orjson.dumps(small, option=option) + _MARK + orjson.dumps(addresses, option=option), tuple(blocks))


def addresses_in(stored: bytes) -> dict[str, bytes]:
    """Return field name → block address of a cell's stored bytes; empty for a whole document."""
    _, mark, addresses = stored.partition(_MARK)
    if not mark:
        return {}
    try:
        return {name: bytes.fromhex(address) for name, address in orjson.loads(addresses).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptState("the block addresses of a cell cannot be read") from error


def put_together(stored: bytes, blocks: Mapping[bytes, bytes]) -> bytes:
    """Return the whole document, byte for byte; raises `CorruptState` if one of its blocks is not there."""
    addresses = addresses_in(stored)
    if not addresses:
        return stored
    try:
        fields = orjson.loads(stored.partition(_MARK)[0])
        # Fragments go into the text as they are: no large value is parsed again.
        fields.update({name: orjson.Fragment(blocks[address]) for name, address in addresses.items()})
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    except KeyError:
        missing = ", ".join(repr(name) for name, address in addresses.items() if address not in blocks)
        raise CorruptState(
            f"the large value of field {missing} is missing from the store",
            hint="restore the store from a backup; the digest of the value is still known",
        ) from None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, AttributeError) as error:
        raise CorruptState("the bytes of a cell cannot be read") from error
