"""Large values live beside the document, stored once per owner.

A document over 4 KB is taken apart: fields from 1 KB up become blocks, addressed by their digest
under the owner, so a 200 KB text that every step carries along is stored once. The small document
and the addresses form the cell's bytes, and so its digest covers the large values too.

Sensitive values leave the document in the same way, whatever their size, if there is a key ring: their
address is an id made by chance and shorter than a digest (`_vault.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from statepact.contracts._marks import MASK
from statepact.errors import CorruptState, KeyMissing
from statepact.ledger._digest import block_digest
from statepact.ledger._vault import VALUE_ID_SIZE, KeyRing, key_of, new_value_id

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

    def __repr__(self) -> str:
        return f"<Parts {len(self.stored)} bytes, {len(self.blocks)} blocks>"


def take_apart(
    owner: str,
    document: bytes,
    *,
    members: Mapping[str, bytes] | None = None,
    sensitive: Sequence[str] = (),
    keys: KeyRing | None = None,
) -> Parts:
    """Return the bytes to store for a canonical document, and the blocks beside them.

    `members` are its fields as they stand in it, in order; without them a large document is parsed. With
    `keys`, the values of the fields named in `sensitive` become rows that only they open.
    """
    if keys is not None and sensitive:
        fields = members or _members(document)
        if any(name in fields for name in sensitive):
            return _sealed(owner, fields, sensitive, keys)
    if len(document) <= DOCUMENT_LIMIT:
        return Parts(document)
    if members is None:
        members = _as_orjson_writes(document)
        if members is None or list(members) != sorted(members):
            return Parts(document)  # would not be put together the same
    blocks = {name: (block_digest(owner, data), data) for name, data in members.items() if len(data) >= FIELD_LIMIT}
    if not blocks:
        return Parts(document)
    return _parts(members, blocks, document)


def _sealed(owner: str, fields: Mapping[str, bytes], sensitive: Sequence[str], keys: KeyRing) -> Parts:
    apart: dict[str, tuple[bytes, bytes]] = {}
    for name in sensitive:
        if name in fields:
            value_id = new_value_id()
            apart[name] = value_id, keys.seal(owner, value_id, fields[name])
    if sum(len(data) for name, data in fields.items() if name not in apart) > DOCUMENT_LIMIT:
        for name, data in fields.items():
            if name not in apart and len(data) >= FIELD_LIMIT:
                apart[name] = block_digest(owner, data), data
    return _parts(fields, apart, joined(dict(sorted(fields.items()))))


def _parts(fields: Mapping[str, bytes], apart: Mapping[str, tuple[bytes, bytes]], document: bytes) -> Parts:
    small = joined({name: data for name, data in fields.items() if name not in apart})
    addresses = orjson.dumps({name: address.hex() for name, (address, _) in apart.items()})
    return Parts(small + _MARK + addresses, tuple(apart.values()), document)


def _members(document: bytes) -> dict[str, bytes]:
    """Return the fields of a JSON object without spaces, each exactly as it stands there."""
    if (members := _as_orjson_writes(document)) is not None:
        return members
    text = document.decode()
    fields: dict[str, bytes] = {}
    at = 1
    while text[at] != "}":
        name, at = _SCANNER.raw_decode(text, at)
        _, end = _SCANNER.raw_decode(text, at + 1)
        fields[name] = text[at + 1 : end].encode()
        at = end + (text[end] == ",")
    return fields


def _as_orjson_writes(document: bytes) -> dict[str, bytes] | None:
    """Return the fields, `None` if orjson would write one differently, such as an integer of over 64 bits."""
    values = orjson.loads(document)
    fields = {name: orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for name, value in values.items()}
    return fields if joined(fields) == document else None


_SCANNER = json.JSONDecoder(parse_int=len, parse_float=len)


def joined(fields: Mapping[str, bytes]) -> bytes:
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


def fields_in(stored: bytes) -> frozenset[str]:
    """Return the names of the fields that a cell's stored bytes hold, the large and sensitive ones too."""
    return frozenset((*_members(stored.partition(_MARK)[0]), *addresses_in(stored)))


def without(stored: bytes, names: Collection[str]) -> bytes:
    """Return a cell's stored bytes without some fields; every other field stands there as it did."""
    small, _, _ = stored.partition(_MARK)
    left = joined({name: data for name, data in _members(small).items() if name not in names})
    apart = {name: address.hex() for name, address in addresses_in(stored).items() if name not in names}
    return left + _MARK + orjson.dumps(apart) if apart else left


class Whole(NamedTuple):
    """A document put together again."""

    document: bytes
    locked: Mapping[str, str] = {}
    """Sensitive fields that could not be opened, with the id of the key they need; they read `•••`."""

    def __repr__(self) -> str:
        return f"<Whole {len(self.document)} bytes, {len(self.locked)} locked>"


def put_together(
    stored: bytes, blocks: Mapping[bytes, bytes], *, owner: str = "", keys: KeyRing | None = None
) -> Whole:
    """Return the whole document, byte for byte.

    Raises `CorruptState` if one of its blocks is not there, or a sealed value is not what was stored.
    """
    addresses = addresses_in(stored)
    if not addresses:
        return Whole(stored)
    locked: dict[str, str] = {}
    try:
        small = stored.partition(_MARK)[0]
        fields: dict[str, Any] = orjson.loads(small)
        if any(map(is_value_id, addresses.values())) and orjson.dumps(fields, option=orjson.OPT_SORT_KEYS) != small:
            fields = {name: orjson.Fragment(data) for name, data in _members(small).items()}
        # Fragments go into the text as they are: no large value is parsed again.
        for name, address in addresses.items():
            data = blocks[address]
            if is_value_id(address):
                data = _opened(name, data, address, owner, keys, locked)
            fields[name] = orjson.Fragment(data)
        return Whole(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), locked)
    except KeyError:
        missing = ", ".join(repr(name) for name, address in addresses.items() if address not in blocks)
        raise CorruptState(
            f"the large or sensitive value of field {missing} is missing from the store",
            hint="restore the store from a backup; the log still says what was committed",
        ) from None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, AttributeError, IndexError) as error:
        raise CorruptState("the bytes of a cell cannot be read") from error


def _opened(name: str, row: bytes, value_id: bytes, owner: str, keys: KeyRing | None, locked: dict[str, str]) -> bytes:
    try:
        if keys is not None:
            return keys.open(owner, value_id, row)
    except KeyMissing:
        pass
    locked[name] = key_of(row)
    return _MASKED


_MASKED = orjson.dumps(MASK)


def is_value_id(address: bytes) -> bool:
    """Whether an address is that of a sealed value, and not of a large one."""
    return len(address) == VALUE_ID_SIZE
