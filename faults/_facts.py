"""What is committed, so that a checker who has only the name of a fact knows its value.

A fact is named after its cell: `owner/session/run/step/branch`. Its value follows from the name, so
an exchanged, shifted or torn value is as visible as a missing one.
"""

import hashlib
import zlib
from typing import Any, NamedTuple

from statepact import Contract

SMALL = 430
LARGE = 9_500
"""Bytes of randomness; texts are in hex and so twice as long: 1 KB and 20 KB with everything."""


class Plan(Contract, version="1.0"):
    """What the first step of each run commits and the others read."""

    id: str
    text: str


class Fact(Contract, version="1.0"):
    """What all other steps commit."""

    id: str
    order: str
    text: str
    large: str


class Cell(NamedTuple):
    """The name of a fact, taken apart."""

    owner: str
    session: str
    run: str
    step: str
    branch: str = ""

    def __str__(self) -> str:
        return "/".join(self)


def value_of(name: str) -> dict[str, Any]:
    """Return the fields of the fact of a name."""
    kind = zlib.crc32(name.encode())
    text = f"预算有限 {_text(name, SMALL)}"
    if name.split("/")[3] == "plan":
        return {"id": name, "text": text}
    large = ""
    if kind % 7 == 0:
        # Half of them are the same again and again, as a constant block in an agent's prompt is.
        large = _text(name if kind % 2 else f"constant {kind % 3}", LARGE)
    return {"id": name, "order": order_of(name), "text": text, "large": large}


def contract_of(name: str) -> type[Contract]:
    return Plan if name.split("/")[3] == "plan" else Fact


def order_of(name: str) -> str:
    """Return the order that a fact is about, empty for none."""
    kind = zlib.crc32(name.encode())
    return f"KX-{kind % 40}" if kind % 3 == 0 else ""


def _text(seed: str, size: int) -> str:
    return hashlib.shake_128(seed.encode()).hexdigest(size)
