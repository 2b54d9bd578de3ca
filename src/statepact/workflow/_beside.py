"""What is recorded beside the output of a step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from statepact.contracts import Contract, open_path
from statepact.ledger._blocks import Parts
from statepact.ledger._suspicious import SUSPICIOUS, suspicious_paths


class Beside(dict[str, Any]):
    """Reasons, usage and marks by name. Names and numbers, never a value of a sensitive field."""

    def note_paths(self, name: str, contract: type[Contract], paths: Iterable[str]) -> None:
        """Add paths in a value; those inside a sensitive field end at it."""
        shown = dict.fromkeys(f"{contract.contract_name}.{open_path(contract, path)}" for path in paths)
        self[name] = [*self.get(name, ()), *shown]

    def note_suspicious(
        self,
        contract: type[Contract],
        document: bytes,
        parts: Parts,
        defaults: tuple[str, ...] = (),
        *,
        empty: bool = False,
    ) -> None:
        """Add what in a value says "null" or the like in words; `defaults` are fields that nobody has set."""
        # Of a large document the small part: what has a kilobyte says more than "null".
        small = document if parts.stored is document else parts.stored.partition(b"\x00")[0]
        if found := suspicious_paths(small, omitted=defaults, empty=empty):
            self.note_paths(SUSPICIOUS, contract, found)

    def stored(self) -> bytes:
        """Return it as it is committed, without what says nothing; empty if that is all of it."""
        if not self:
            return b""
        kept = {name: value for name, value in self.items() if value not in (None, "", [], {})}
        return orjson.dumps(kept) if kept else b""
