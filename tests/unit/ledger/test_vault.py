"""Key rings: what they take, what they show, and what they refuse to open."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from statepact import KeyRing
from statepact.errors import CorruptState, KeyMissing, SetupError
from statepact.ledger._vault import at_rest, key_of, new_value_id

KEY = b"canary-key-canary-key-canary-key"


def ring(**others: bytes) -> KeyRing:
    return KeyRing({"k1": KEY, **others}, current="k1")


def test_value_comes_back() -> None:
    """Whatever its length, also none."""
    for size in (0, 1, 31, 32, 33, 200_000):
        value_id, data = new_value_id(), b'"' + b"x" * size + b'"'
        row = ring().seal("acme", value_id, data)
        assert ring().open("acme", value_id, row) == data
        assert key_of(row) == "k1"


def test_short_values_have_rows_of_one_length() -> None:
    """`true` and `false` cannot be told apart by counting bytes."""
    rows = {len(ring().seal("acme", new_value_id(), data)) for data in (b"true", b"false", b"null", b'"yes"', b"12")}
    assert len(rows) == 1


def test_equal_values_have_different_rows() -> None:
    """Nobody sees that two customers have the same card."""
    value_id = new_value_id()
    assert ring().seal("acme", value_id, b"1")[10:] != ring().seal("acme", value_id, b"1")[10:]


def test_row_fits_no_other_owner_and_no_other_value() -> None:
    """Both are signed with it."""
    value_id = new_value_id()
    row = ring().seal("acme", value_id, b'"4111"')

    for owner, other in (("globex", value_id), ("acme", new_value_id()), ("", value_id)):
        with pytest.raises(CorruptState):
            ring().open(owner, other, row)


def test_key_that_is_not_there_is_named() -> None:
    """Another id, or another key under the same id: the reader learns which one it needs."""
    value_id = new_value_id()
    row = ring().seal("acme", value_id, b"1")

    for other in (KeyRing({"k2": KEY}), KeyRing({"k1": os.urandom(32)})):
        assert not other.fits(row)
        with pytest.raises(KeyMissing, match="'k1'"):
            other.open("acme", value_id, row)


def test_old_keys_of_the_ring_still_open() -> None:
    """Only what is new is sealed under the current key."""
    value_id, new = new_value_id(), os.urandom(32)
    row = ring().seal("acme", value_id, b"1")
    grown = KeyRing({"k1": KEY, "k2": new}, current="k2")

    assert grown.open("acme", value_id, row) == b"1"
    assert key_of(grown.seal("acme", value_id, b"1")) == "k2"


@pytest.mark.parametrize(
    ("keys", "current"),
    [
        ({}, None),
        ({"k1": KEY[:16]}, None),
        ({"k1": KEY.decode()}, None),
        ({"": KEY}, None),
        ({"k" * 101: KEY}, None),
        ({"k1": KEY, "k2": KEY}, None),
        ({"k1": KEY}, "k2"),
        ({"k1": KEY, "k2": KEY + b"1"}, "k1"),
    ],
)
def test_what_is_no_ring_is_refused_without_being_shown(keys: dict[str, bytes], current: str | None) -> None:
    """The error says what is wrong, and neither it nor the names of its frames hold a key."""
    with pytest.raises(SetupError) as caught:
        KeyRing(keys, current=current)

    assert "canary" not in str(caught.value)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    inside = [frame for frame in frames if frame.f_code.co_filename.endswith("/_vault.py")]
    assert inside
    assert not any("canary" in repr(frame.f_locals) for frame in inside)


def test_ring_shows_and_gives_away_no_key() -> None:
    """Not in its repr, not in its attributes, not in a pickle, not in a copy."""
    one = ring(k2=os.urandom(32))

    assert repr(one) == "<KeyRing current='k1' keys=['k1', 'k2']>"
    assert "canary" not in repr([getattr(one, name) for name in KeyRing.__slots__])
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(one)
    assert copy.deepcopy({"ring": one})["ring"] is copy.copy(one) is one


def test_ring_is_read_from_a_file(tmp_path: Path) -> None:
    """One key needs no `current`."""
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": {"k1": base64.b64encode(KEY).decode()}}))

    value_id = new_value_id()
    assert KeyRing.from_file(path).open("acme", value_id, ring().seal("acme", value_id, b"1")) == b"1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": {"k1": 7}}',
        '{"keys": {"k1": "canary!"}}',
        '{"keys": {"k1": "Y2FuYXJ5"}}',
    ],
)
def test_file_that_is_no_ring_is_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    """The path is named, its content is not."""
    path = tmp_path / "keys.json"
    path.write_text(text)

    with pytest.raises(SetupError) as caught:
        KeyRing.from_file(path)
    assert "canary" not in str(caught.value)
    with pytest.raises(SetupError, match="cannot be read"):
        KeyRing.from_file(tmp_path / "none.json")


def test_label_says_whether_values_are_encrypted() -> None:
    """In words for people."""
    assert "plain text" in at_rest(None)
    assert "encrypted" in at_rest(ring())


def test_without_the_extra_the_message_names_it() -> None:
    """The package itself does not need it."""
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from statepact import KeyRing, Workflow\n"
        "from statepact.errors import MissingExtra\n"
        "try: KeyRing({'k1': bytes(32)})\n"
        "except MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "statepact[crypto]" in done.stdout
