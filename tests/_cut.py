"""A log whose oldest entries a retention rule has removed, made by hand."""

from __future__ import annotations

from statepact import Store
from statepact.ledger import SessionKey, SessionLog
from statepact.ledger._base_record import Base, base_body
from statepact.ledger._digest import entry_digest
from statepact.ledger._erased import NO_SALT
from statepact.ledger._keyed import key_of_session, tag_of
from statepact.stores._base import Rewrite


async def cut(store: Store, key: SessionKey, size: int, *, log_key: bytes | None = None) -> None:
    """Put a base in the place of the first entries of a session."""
    log = SessionLog(key)
    headers = await store.headers(key)
    for stored in headers:
        if stored.revision > size:
            break
        entry = log.read(stored.revision, stored.header)
    base = Base(size, tuple(log.names), log.mountain().peaks, entry.header.tag)
    body = base_body(base, at=entry.header.at, keyed=log_key is not None)
    digest = entry_digest(body, [])
    tag = tag_of(key_of_session(log_key, key), base.tag, digest, size) if log_key is not None else b""
    change = Rewrite(replace={size: (digest + NO_SALT + body + tag, b"")}, first=size)
    await store.rewrite(key, change, after=headers[-1].revision)
