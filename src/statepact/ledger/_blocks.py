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
    document: bytes = b""
    """The whole document again; empty if `stored` is it."""


def take_apart(owner: str, document: bytes) -> Parts:
    """Return the bytes to store for a canonical document, and the blocks beside them."""
    if len(document) <= DOCUMENT_LIMIT:
        return Parts(document)
    fields = {name: orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for name, value in orjson.loads(document).items()}
    if _object(fields) != document or list(fields) != sorted(fields):
        return Parts(document)  # holds what would not be put together the same, such as a very large number
    blocks = {name: (block_digest(owner, data), data) for name, data in fields.items() if len(data) >= FIELD_LIMIT}
    if not blocks:
        return Parts(document)
    small = _object({name: data for name, data in fields.items() if name not in blocks})
    addresses = orjson.dumps({name: address.hex() for name, (address, _) in blocks.items()})
    return Parts(small + _MARK + addresses, tuple(blocks.values()), document)


def _object(fields: Mapping[str, bytes]) -> bytes:
    """Return the JSON object of fields that are JSON already and in order."""
    return b"{" + b",".join([orjson.dumps(name) + b":" + data for name, data in fields.items()]) + b"}"


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
