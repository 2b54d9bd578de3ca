"""Digests: what makes an edit of the log visible.

Each entry has a digest of its own, the Merkle root of its leaves under its header, computed
without knowing the entry before it. So parallel commits never wait for each other; the order is
added by the mountain range (`_mountain.py`) that anyone can derive from the entries. Every kind
of input to SHA-256 starts with its own word, so that a leaf can never pass for a root.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

DIGEST_SIZE = 32
SALT_SIZE = 16
INPUT_DIGEST_SIZE = 16
TAG_SIZE = 16

_SALT = b"statepact salt 1\x00"
_LEAF = b"statepact leaf 1\x00"
_NODE = b"statepact node 1\x00"
_ENTRY = b"statepact entry 1\x00"
_INPUT = b"statepact input 1\x00"
_BLOCK = b"statepact block 1\x00"

# `sha256(b"")` objects are copied instead of hashing the prefix again: about 0.3 µs a digest.
_salt_start = hashlib.sha256(_SALT).copy
_leaf_start = hashlib.sha256(_LEAF).copy
_entry_start = hashlib.sha256(_ENTRY).copy


def new_salt() -> bytes:
    """Return a fresh salt. Erasing it makes the digest of a guessable value worthless."""
    return os.urandom(SALT_SIZE)


def leaf_salt(salt: bytes, index: int) -> bytes:
    """Return the salt of one leaf, made from the salt of its entry.

    To erase one value of a commit its salt must go, and the values beside it need theirs. So each
    leaf has its own, from which neither the others nor the entry's can be computed.
    """
    state = _salt_start()
    state.update(salt)
    state.update(index.to_bytes(2, "big"))
    return state.digest()[:SALT_SIZE]


def salted_digest(salt: bytes, index: int, stored: bytes) -> bytes:
    """Return the digest of one leaf under the salt of that leaf."""
    state = _leaf_start()
    state.update(salt)
    state.update(index.to_bytes(2, "big"))
    state.update(stored)
    return state.digest()


def leaf_digest(salt: bytes, index: int, stored: bytes) -> bytes:
    """Return the digest of one cell's bytes as stored, under the salt of its entry.

    `index` tells the cells of a commit apart.
    """
    return salted_digest(leaf_salt(salt, index), index, stored)


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over leaf digests; an odd node moves up unchanged, nothing is doubled."""
    level = list(leaves)
    while len(level) > 1:
        paired = [hashlib.sha256(_NODE + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0] if level else b"\x00" * DIGEST_SIZE


def leaf_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the digests beside the way from a leaf to the root, from below."""
    level, path = list(leaves), []
    while len(level) > 1:
        if index ^ 1 < len(level):
            path.append(level[index ^ 1])
        level = [merkle_root(level[i : i + 2]) for i in range(0, len(level), 2)]
        index //= 2
    return path


def root_from(leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root to which a path leads from a leaf; `None` if it has another length."""
    beside = iter(path)
    while count > 1:
        if index ^ 1 < count:
            other = next(beside, None)
            if other is None:
                return None
            leaf = merkle_root((other, leaf) if index & 1 else (leaf, other))
        index //= 2
        count = (count + 1) // 2
    return leaf if next(beside, None) is None else None


def entry_digest(header: bytes, leaves: Sequence[bytes]) -> bytes:
    """Return the digest of an entry: its header (without this digest and the salt) over its leaves.

    The salt enters through the leaves alone, so that it can be erased and the digest still checked.
    """
    return entry_digest_of(header, len(leaves), leaves[0] if len(leaves) == 1 else merkle_root(leaves))


def entry_digest_of(header: bytes, count: int, root: bytes) -> bytes:
    """Return the digest of an entry from the number of its leaves and the root over them."""
    state = _entry_start()
    state.update(count.to_bytes(2, "big"))
    state.update(root)
    state.update(header)
    return state.digest()


def input_digest(run: str, step: str, branch: str, inputs: Iterable[bytes]) -> bytes:
    """Return what decides whether a step is "the same step again".

    It covers run, step, branch and the digests of the declared inputs as stored, in the order of
    their declaration; not code, prompt or model: otherwise every deployment would turn "same step
    again" into an error for all running sessions.
    """
    state = hashlib.sha256(_INPUT)
    state.update("\x00".join((run, step, branch)).encode())
    for digest in inputs:
        state.update(b"\x00")
        state.update(digest)
    return state.digest()[:INPUT_DIGEST_SIZE]


def block_digest(owner: str, data: bytes) -> bytes:
    """Return the address of a large value.

    The owner is part of it: equal blocks of two owners have different addresses, so nobody can
    learn from an address whether somebody else stored the same text.
    """
    state = hashlib.sha256(_BLOCK)
    state.update(owner.encode())
    state.update(b"\x00")
    state.update(data)
    return state.digest()
