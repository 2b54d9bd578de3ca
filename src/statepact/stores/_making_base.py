"""Making the base of a log that is cut: the entry that stands for all that goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from statepact.errors import CorruptState
from statepact.ledger._base_record import Base, Origin, base_body
from statepact.ledger._cells import Cell
from statepact.ledger._claims import Claim
from statepact.ledger._digest import DIGEST_SIZE, entry_digest, new_salt
from statepact.ledger._erased import NO_SALT, Leaf, digests_of, encode_leaves
from statepact.ledger._header import CellSize, Header, Kind, Names, decode_header
from statepact.ledger._lineage import lineage_record
from statepact.ledger._log import SessionLog
from statepact.ledger._mountain import Mountain
from statepact.ledger._old_heads import DIGESTS, addresses_of_digests, belong_to
from statepact.ledger._retention import Cut, Keep
from statepact.ledger._unset import UNSET
from statepact.stores._open_log import OpenLog
from statepact.stores._removed import CarriedOn


class MadeBase(NamedTuple):
    """A base as it is stored."""

    header: bytes
    payload: bytes


async def digests_of_removed(log: OpenLog, size: int) -> bytes:
    """Return the digests of all entries up to a revision, also of those that had been removed before."""
    digests = b""
    if (older := log.log.base) is not None and log.log.base_entry is not None:
        addresses = addresses_of_digests(await log.record(log.log.base_entry))
        pieces = await log.store.blocks(log.key, addresses)
        digests = b"".join(pieces.get(address, b"") for address in addresses)
        if not belong_to(digests, older.size, older.peaks):
            raise CorruptState(
                f"the digests of removed entries of session {log.key.session!r} are not there any more",
                hint="run `statepact verify` on the session, and restore the store from a backup",
            )
    added = [entry.header.digest for entry in log.log.after(len(digests) // DIGEST_SIZE) if entry.revision <= size]
    return digests + b"".join(added)


def made_base(
    log: OpenLog, cut: Cut, carried: Sequence[CarriedOn], *, rule: Keep, digests: Sequence[bytes]
) -> MadeBase:
    """Return the base for a cut, with the changes of shared values that it carries on.

    `digests` are the addresses under which the digests of the removed entries lie.

    Raises `KeyMissing` for a log with tags whose key was not given.
    """
    entry = log.log.entries[cut.size - log.log.first]
    names, contracts = _names(log.log, cut.size)
    older = log.log.base
    base = Base(
        size=cut.size,
        names=tuple(names),
        peaks=_mountain(log.log, cut.size).peaks,
        tag=entry.header.tag,
        runs=(*(older.runs if older is not None else ()), *cut.runs),
        origins=tuple(_origin(one.change.cell) for one in carried),
    )
    cells = [
        CellSize(
            contracts[one.change.cell.home][one.change.cell.leaf_number], len(one.leaf.stored or b""), True,
            one.change.omitted, one.change.deleted,
        )
        for one in carried
    ]  # fmt: skip
    record = {
        "rule": rule.as_dict(),
        "erased": list(_claims(carried)),
        DIGESTS: [address.hex() for address in digests],
        **_unset(carried),
        **lineage_record([one.made_from for one in carried]),
    }
    leaves = [*(one.leaf for one in carried), Leaf(orjson.dumps(record), new_salt())]
    keyed = bool(entry.header.tag)
    body = base_body(base, cells, at=entry.header.at, keyed=keyed)
    digest = entry_digest(body, digests_of(leaves))
    tag = log.tag(base.tag, digest, cut.size) if keyed else b""
    header = Header(kind=Kind.BASE, at=entry.header.at, run="", salt=NO_SALT, keyed=keyed, digest=digest, tag=tag)
    return MadeBase(header.stored(body), encode_leaves(leaves, base=True))


def _origin(cell: Cell) -> Origin:
    return Origin(cell.revision, cell.number, cell.run, cell.step, cell.branch)


def _claims(carried: Sequence[CarriedOn]) -> Iterator[dict[str, Any]]:
    """Yield what was erased of the changes that are carried on: their erasures may have been removed."""
    for number, one in enumerate(carried):
        if one.leaf.was:
            cell = one.change.cell
            yield Claim(cell.revision, cell.number, one.erased, one.leaf.now(number)).as_dict()


def _unset(carried: Sequence[CarriedOn]) -> dict[str, dict[str, list[str]]]:
    paths = {str(number): list(one.unset) for number, one in enumerate(carried) if one.unset}
    return {UNSET: paths} if paths else {}


def _names(log: SessionLog, size: int) -> tuple[Names, dict[int, list[str]]]:
    """Return the names that the entries up to a revision have given out, and the contracts of their cells."""
    names = Names()
    contracts: dict[int, list[str]] = {}
    for entry in log.entries[: size - log.first + 1]:
        header = decode_header(entry.header.stored(entry.body), names)
        contracts[entry.revision] = [cell.contract for cell in header.cells]
    return names, contracts


def _mountain(log: SessionLog, size: int) -> Mountain:
    """Return the mountain range over the entries up to a revision."""
    mountain = Mountain.of(log.base.size, log.base.peaks) if log.base is not None else Mountain()
    for entry in log.entries[: size - log.first + 1]:
        if entry.header.kind is not Kind.BASE:
            mountain.append(entry.header.digest)
    return mountain
