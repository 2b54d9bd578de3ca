"""Export of a session to one file, and import of such a file into any store."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from statepact.errors import CorruptState, SetupError
from statepact.ledger import DEFAULT_OWNER, SessionKey, session_key
from statepact.ledger._anchor import Anchor, anchor_of
from statepact.ledger._blocks import addresses_in, fields_in, is_value_id
from statepact.ledger._cells import Cell, Entry
from statepact.ledger._claims import Claim, merged
from statepact.ledger._erased import NO_SALT, encode_leaves
from statepact.ledger._header import Kind, pieces_of
from statepact.ledger._keyed import key_of_session, same_tag
from statepact.ledger._log import SessionLog
from statepact.ledger._verify import verify_entries
from statepact.stores._about import about
from statepact.stores._base import Store, StoredHeader
from statepact.stores._erase import leaf_without
from statepact.stores._fork import base_record, entries_to, erased_record, head_of, later_claims, note_of
from statepact.stores._leaves import addresses_of, leaves_in
from statepact.stores._log_reader import LogReader
from statepact.stores._new_log import Copied, copy_of, exists, new_log, tag_behind
from statepact.stores._open_log import OpenLog
from statepact.stores._session_file import MAX_BYTES, SessionFile, read_session, refused

LATEST = 1 << 53
"""A time in milliseconds that no honest clock shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A session that was written to a file, or made from one."""

    owner: str
    session: str
    revision: int
    """Of the newest entry in the file."""
    head: str
    """Root over all digests up to there, in hex."""
    masked: int = 0
    """Sensitive values that are not in the file, because they were stored in plain text."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "owner": self.owner, "session": self.session, "revision": self.revision, "head": self.head,
            "masked": self.masked,
        }  # fmt: skip


async def export_session(
    store: Store,
    session: str,
    path: str | os.PathLike[str],
    *,
    owner: str = DEFAULT_OWNER,
    at: int | None = None,
    clear: bool = False,
) -> Transfer:
    """Write a session to a new file, as it is or as it was at revision `at`.

    Encrypted values are in it as ciphertext, and their keys are not. Sensitive values that are stored in
    plain text are masked: of them the file has the digests only, so the log in it still verifies, and whoever
    imports it gets `Deleted`. `clear=True` writes them as they are.

    Raises `UnknownSession`, `UnknownRevision`, `Expired`, `CorruptState`, `StoreError`, and `SetupError` if
    the file exists or cannot be written.
    """
    key = session_key(owner, session)
    reader = await LogReader.at(store, key, None)
    if at is not None:
        reader.check_revision(at)
    at = reader.log.revision if at is None else at
    entries = entries_to(reader.log, at)
    copied = await copy_of(store, key, entries)
    missing = later_claims(reader.log, at)
    masked: list[Claim] = []
    if not clear:
        copied, masked = _masked(entries, copied)
    made = SessionFile(
        owner=owner,
        session=session,
        head=head_of(reader.log, at).hex(),
        copied=copied,
        entities=await about(store, key, None if at == reader.log.revision else entries),
        missing=tuple(merged([*missing, *masked]).values()),
        masked=sum(len(claim.fields) for claim in masked),
    )
    await asyncio.to_thread(_write, Path(path), made.to_bytes())
    return Transfer(owner=owner, session=session, revision=at, head=made.head, masked=made.masked)


async def import_session(
    store: Store,
    path: str | os.PathLike[str],
    *,
    owner: str = DEFAULT_OWNER,
    name: str | None = None,
    head: str | None = None,
    log_key: bytes | None = None,
    max_bytes: int = MAX_BYTES,
    when: int | None = None,
) -> Transfer:
    """Make a session from a file, under its old name or as `name`, all or nothing.

    What the file holds is verified before anything is written: digests, seals and large values, with
    `log_key` the tags, with `head` (`SIZE:HEX`, kept elsewhere) that it is the log under that head. The new
    session gets an entry that says where it comes from, with the time `when`, by default now.

    Large and encrypted values are bound to their owner, so a file is imported for the owner that it is of.

    Raises `ImportRefused` for a file that is not what it should be or is larger than `max_bytes`,
    `SessionExists`, `KeyMissing` for a log with tags without its key, `SetupError` if the file cannot be
    read, and `StoreError`.
    """
    found = await asyncio.to_thread(_read, Path(path), max_bytes)
    if found.owner != owner:
        raise refused("it is of another owner, to whom its values are bound")
    source, key = session_key(owner, found.session), session_key(owner, found.session if name is None else name)
    if await store.headers(key):
        raise exists(key)
    when = time.time_ns() // 1_000_000 if when is None else when
    said = {"session": found.session, "revision": found.revision, "head": found.head}
    record = {"import": said, **erased_record(found.missing)}
    if found.masked:
        record |= {"by": "export", "reason": "sensitive values in plain text are masked"}
    try:
        log = _checked_log(source, found, log_key)
        record |= base_record(log)
        made = new_log(store, key, found.copied, [note_of(when, record)], entities=found.entities, log_key=log_key)
    except (CorruptState, IndexError, ValueError, OverflowError, TypeError, AttributeError, RecursionError) as error:
        raise refused("what it holds is no log") from error
    except KeyError:
        raise refused("a large or sensitive value is missing") from None
    _verify(key, found, made.entries, made.first, log_key=log_key, head=anchor_of(head) if head is not None else None)
    if source != key:
        await _tell_source(store, source, key, log, found, when=when, log_key=log_key)
    await made.write(store)
    return Transfer(
        owner=owner, session=key.session, revision=found.revision, head=found.head, masked=found.masked
    )  # fmt: skip


# -- export --------------------------------------------------------------------------------------------


def _masked(entries: Sequence[Entry], copied: Copied) -> tuple[Copied, list[Claim]]:
    """Return a copy without the sensitive values that stand in it in plain text, and what is missing then."""
    payloads = dict(copied.payloads)
    headers = {one.revision: one for one in copied.headers}
    claims: list[Claim] = []
    needed: set[bytes] = set()
    for entry in entries:
        leaves = leaves_in(entry, payloads[entry.revision])
        found: list[Claim] = []
        for cell in entry.cells:
            number = cell.leaf_number
            leaf = leaves[number]
            fields = _in_clear(cell, leaf.stored or b"{}")
            if fields:
                leaves[number], gone = leaf_without(leaf, number, fields, whole=False)
                found.append(Claim(cell.revision, cell.number, gone, leaves[number].now(number)))
        if found:
            payloads[entry.revision] = encode_leaves(leaves, base=entry.header.kind is Kind.BASE)
            header = replace(entry.header, salt=NO_SALT).stored(entry.body)
            headers[entry.revision] = StoredHeader(entry.revision, header)
            claims += found
        needed |= addresses_of(entry, leaves)
    blocks = {address: data for address, data in copied.blocks.items() if address in needed}
    return Copied([headers[entry.revision] for entry in entries], payloads, blocks), claims


def _in_clear(cell: Cell, stored: bytes) -> frozenset[str]:
    sensitive = frozenset(one.name for one in cell.contract.fields if one.sensitive)
    if not sensitive:
        return sensitive
    apart = addresses_in(stored)
    return (sensitive & fields_in(stored)) - {name for name, address in apart.items() if is_value_id(address)}


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        if path.exists():
            raise SetupError(f"{path} exists", hint="name a file that does not exist yet")
        # Only for who writes it: it is a copy of somebody's state.
        part.touch(mode=0o600, exist_ok=False)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)  # unlike a rename, this never replaces a file
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
                raise
            part.rename(path)  # a file system without links
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}", hint="name a new file in a folder") from None
    finally:
        part.unlink(missing_ok=True)


# -- import --------------------------------------------------------------------------------------------


def _read(path: Path, max_bytes: int) -> SessionFile:
    try:
        with path.open("rb") as file:
            return read_session(file, size=os.fstat(file.fileno()).st_size, max_bytes=max_bytes)
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}", hint="name a file of an export") from None


def _checked_log(source: SessionKey, found: SessionFile, log_key: bytes | None) -> SessionLog:
    """Return the log in a file; raises for one that is not under the head that it says, or without its tags."""
    log = SessionLog(source)
    tag_key = key_of_session(log_key, source) if log_key is not None else None
    for stored in found.copied.headers:
        tag = pieces_of(stored.header).tag
        if tag_key is not None and tag and not same_tag(tag, tag_behind(log, stored, tag_key)):
            raise refused("a tag in it is not that of somebody who has the log key")
        entry = log.read(stored.revision, stored.header)
        if entry.header.at >= LATEST:
            raise refused("an entry of it is of a time that no clock shows")
    if head_of(log, found.revision).hex() != found.head:
        raise refused("its entries are not those of its head")
    return log


def _verify(
    key: SessionKey,
    found: SessionFile,
    entries: Sequence[Any],
    first: int,
    *,
    log_key: bytes | None,
    head: Anchor | None,
) -> None:
    """Raise `ImportRefused` unless the session, as it will be stored, verifies."""
    verdict = verify_entries(
        ((first + number, one.header, one.payload) for number, one in enumerate(entries)),
        owner=key.owner,
        blocks=found.copied.blocks,
        key=key_of_session(log_key, key) if log_key is not None else None,
        anchor=head,
    )
    if verdict.faults:
        raise refused(str(verdict.faults[0]))


async def _tell_source(
    store: Store,
    source: SessionKey,
    key: SessionKey,
    log: SessionLog,
    found: SessionFile,
    *,
    when: int,
    log_key: bytes | None,
) -> None:
    """If the session that a file was made from is here, let it know of its copy, as of a fork."""
    ours = LogReader(store, source)
    await ours.read_on()
    if ours.log.revision < found.revision or not ours.log.keeps(found.revision):
        return
    if ours.log.entry(found.revision).header.digest != log.entry(found.revision).header.digest:
        return
    gone: Mapping[tuple[int, int], Claim] = merged([*found.missing, *_claims_of(ours.log, found.revision)])
    for place, claim in ours.log.claims.items():
        if place[0] <= found.revision and (place not in gone or not claim.fields <= gone[place].fields):
            raise refused(f"something of it has been erased in session {source.session!r} since it was made")
    opened = await OpenLog.open(store, source, log_key=log_key)
    await opened.append(note_of(when, {"forked": {"session": key.session, "revision": found.revision}}))


def _claims_of(log: SessionLog, revision: int) -> list[Claim]:
    """Return what was erased by the entries up to a revision."""
    return [claim for place, claim in log.claims.items() if log.erased_at.get(place, 0) <= revision]
