"""Tags: what only somebody who knows the log's key can write beside an entry.

A tag covers the tag before it, the digest of its entry and its revision. So entries with tags form a
chain, and an edit, an insertion, an exchange and a removal inside it are all found by whoever has the
key. The first tag of a log covers the head over everything before it, if there is anything: a log that
is given a key later is vouched for as it was then.
"""

from __future__ import annotations

import hashlib
import hmac

from statepact.errors import SetupError
from statepact.ledger._digest import TAG_SIZE
from statepact.ledger._key import SessionKey

SHORTEST_KEY = 16
"""Fewest bytes of a key; `openssl rand -hex 32` makes a good one."""

_SESSION = b"statepact log key 1\x00"


def checked_key(key: bytes) -> bytes:
    """Return a log key without the white space around it, as a file has it; raises `SetupError` for a short one."""
    if not isinstance(key, bytes):
        raise SetupError(f"the log key is a {type(key).__name__}", hint="pass bytes")
    key = key.strip()
    if len(key) < SHORTEST_KEY:
        raise SetupError(
            f"the log key has {len(key)} bytes, {SHORTEST_KEY} are the fewest",
            hint="make one with `openssl rand -hex 32`, and keep it where the store's disk is not",
        )
    return key


def key_of_session(key: bytes, session: SessionKey) -> bytes:
    """Return the key of one session's tags: entries of another session or owner do not fit in."""
    owner = session.owner.encode()
    name = len(owner).to_bytes(4, "big") + owner + session.session.encode()
    return hmac.digest(checked_key(key), _SESSION + name, hashlib.sha256)


def tag_of(session_key: bytes, previous: bytes, digest: bytes, revision: int) -> bytes:
    """Return the tag of an entry.

    `previous` is the tag of the entry before it, or for the first entry with a tag the head over all
    before it. The two have different lengths, so one cannot pass for the other.
    """
    return hmac.digest(session_key, previous + digest + revision.to_bytes(8, "big"), hashlib.sha256)[:TAG_SIZE]


def same_tag(one: bytes, other: bytes) -> bool:
    """Compare two tags in constant time."""
    return hmac.compare_digest(one, other)
