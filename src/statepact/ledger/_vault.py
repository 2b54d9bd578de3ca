"""Sensitive values at rest: sealed one by one under a key that the caller holds.

With a key ring, the value of each `Sensitive` field leaves its document when it is committed and lies
beside it as a row of its own, under an id made by chance. The document, and so every digest of the log,
knows only that id. So keys can be changed without touching the log, and no digest helps anybody who
guesses values. A row says which key it needs; owner and id are part of what the key signs, so it fits no
other place. Its length says little: values are filled up to a multiple of 32 bytes.

    row = version (1) · length of key id (1) · key id · mark of the key (4) · nonce (12) · ciphertext
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from statepact.errors import CorruptState, KeyMissing, MissingExtra, SetupError

KEY_SIZE = 32
VALUE_ID_SIZE = 16
PLAIN = "sensitive values are stored in plain text: no key was given"
SEALED = "sensitive values are encrypted at rest (AES-256-GCM)"

_VERSION = 1
_NONCE_SIZE = 12
_MARK_SIZE = 4
_FILL = 32
_CONTEXT = b"statepact value 1\x00"
_MARK = b"statepact key mark 1\x00"
_LONGEST_ID = 100


class KeyRing:
    """The keys of sensitive values: `KeyRing({"2026-11": key}, current="2026-11")`.

    A key is 32 random bytes (`os.urandom(32)`) and its id any short text, which is stored beside each
    value and shown in errors. `current` is the one that new values are sealed with; with one key in
    the ring it need not be named. Keep older ones in the ring until `rotate` has replaced them.

    Raises `MissingExtra` without the extra `crypto`, `SetupError` for what is no key.
    """

    __slots__ = ("_ciphers", "_current", "_marks")

    def __init__(self, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        self._current = ""
        self._ciphers: dict[str, Any] = {}
        current = current if current is not None or len(keys) != 1 else next(iter(keys))
        problem = _problem(keys, current)
        if problem or current is None:
            del keys  # a traceback that shows local names must not show these
            raise SetupError(problem, hint="KeyRing({'2026-11': os.urandom(32)}, current='2026-11')")
        seal = _aes_gcm()
        self._ciphers = {name: seal(key) for name, key in keys.items()}
        self._marks = {name: sha256(_MARK + key).digest()[:_MARK_SIZE] for name, key in keys.items()}
        self._current = current

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> KeyRing:
        """Read a ring from a JSON file: `{"current": "2026-11", "keys": {"2026-11": "<32 bytes in base64>"}}`.

        Raises `SetupError` if there is no such file or it holds something else; its content is not shown.
        """
        keys, current, problem = _read(Path(path))
        if problem:
            del keys
            raise SetupError(
                f"{path} {problem}", hint='write {"current": "2026-11", "keys": {"2026-11": "<base64 of 32 bytes>"}}'
            )
        return cls(keys, current=current)

    @property
    def current(self) -> str:
        """Id of the key that new values are sealed with."""
        return self._current

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all keys."""
        return tuple(self._ciphers)

    def seal(self, owner: str, value_id: bytes, data: bytes) -> bytes:
        """Return the row of a value (JSON), sealed under the current key."""
        name = self._current
        head = _head(name, self._marks[name])
        nonce = os.urandom(_NONCE_SIZE)
        # JSON may end in spaces, and no value of ours does.
        filled = data + b" " * (-len(data) % _FILL)
        sealed: bytes = self._ciphers[name].encrypt(nonce, filled, _place(owner, value_id, head))
        return head + nonce + sealed

    def open(self, owner: str, value_id: bytes, row: bytes) -> bytes:
        """Return the value of a row.

        Raises `KeyMissing` if its key is not in the ring, `CorruptState` if it is not what was stored.
        """
        name, mark, at = _parsed(row)
        if self._marks.get(name) != mark:
            raise KeyMissing(
                f"a sensitive value is stored under key {name!r}, which was not given, or is another key here",
                hint="give the key ring that it was written with",
            )
        nonce, sealed = row[at : at + _NONCE_SIZE], row[at + _NONCE_SIZE :]
        opened = _decrypted(self._ciphers[name], nonce, sealed, _place(owner, value_id, row[:at]))
        if opened is None:
            raise _damaged(f" under key {name!r}")
        return opened.rstrip(b" ")

    def fits(self, row: bytes) -> bool:
        """Whether the ring holds the key of a row. Raises `CorruptState` for bytes that are no row."""
        name, mark, _ = _parsed(row)
        return self._marks.get(name) == mark

    def __repr__(self) -> str:
        return f"<KeyRing current={self._current!r} keys={list(self._ciphers)!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KeyRing is not pickled: its keys would be written in plain text")

    def __copy__(self) -> KeyRing:
        return self

    def __deepcopy__(self, memo: object) -> KeyRing:
        return self


def at_rest(keys: KeyRing | None) -> str:
    """Return, in a few words for people, what happens to sensitive values that are committed."""
    return PLAIN if keys is None else SEALED


def new_value_id() -> bytes:
    """Return the id of a value: chance, so that it says nothing about the value."""
    return os.urandom(VALUE_ID_SIZE)


def key_of(row: bytes) -> str:
    """Return the id of the key that a row needs. Raises `CorruptState` for bytes that are no row."""
    return _parsed(row)[0]


def _parsed(row: bytes) -> tuple[str, bytes, int]:
    """Return key id, mark of the key, and where the nonce begins."""
    at = 2 + row[1] + _MARK_SIZE if len(row) > 2 else 0
    if not at or row[0] != _VERSION or len(row) < at + _NONCE_SIZE + 16:
        raise _damaged("")
    try:
        return row[2 : at - _MARK_SIZE].decode(), row[at - _MARK_SIZE : at], at
    except UnicodeDecodeError:
        raise _damaged("") from None


def _head(name: str, mark: bytes) -> bytes:
    text = name.encode()
    return bytes((_VERSION, len(text))) + text + mark


def _place(owner: str, value_id: bytes, head: bytes) -> bytes:
    return b"".join((_CONTEXT, value_id, head, owner.encode()))


def _damaged(where: str) -> CorruptState:
    return CorruptState(
        f"a sensitive value{where} is not what was stored: changed, cut, or put in another one's place",
        hint="run `statepact verify` with the keys, and restore the store from a backup",
    )


def _decrypted(cipher: Any, nonce: bytes, sealed: bytes, place: bytes) -> bytes | None:
    from cryptography.exceptions import InvalidTag

    try:
        data: bytes = cipher.decrypt(nonce, sealed, place)
    except InvalidTag:
        return None
    return data


def _problem(keys: Mapping[str, bytes], current: str | None) -> str:
    if not keys:
        return "a key ring needs a key"
    for name, key in keys.items():
        if not isinstance(name, str) or not 1 <= len(name.encode(errors="replace")) <= _LONGEST_ID:
            return f"the id of a key is text of 1 to {_LONGEST_ID} bytes"
        if not isinstance(key, bytes) or len(key) != KEY_SIZE:
            return f"key {name!r} is not {KEY_SIZE} bytes"
    if current is None:
        return "a ring of several keys must say which is the current one"
    return "" if current in keys else f"the current key {current!r} is not in the ring"


def _read(path: Path) -> tuple[dict[str, bytes], str | None, str]:
    """Return keys, current and what is wrong, if anything."""
    import json
    from base64 import b64decode

    try:
        found = json.loads(path.read_bytes())
        keys = {name: b64decode(text, validate=True) for name, text in found["keys"].items()}
        return keys, found.get("current"), ""
    except OSError:
        return {}, None, "cannot be read"
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}, None, "is no key file"


def _aes_gcm() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtra("KeyRing", extra="crypto") from None
    return AESGCM
