"""What a client keeps of each commit beside the store: enough to find out later what the store has lost."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from faults._facts import Cell
from faults._worker import RAW
from statepact.ledger import Receipt, SessionKey
from statepact.ledger._header import Names, decode_header
from statepact.stores import Hold, NewEntry, Store, missing, open_store


class Receipts:
    """Receipts in a file, one line each, written before anybody is told that a commit is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, receipt: Receipt, name: str) -> None:
        with self._path.open("a") as file:
            file.write(line_of(receipt, name) + "\n")

    def read(self) -> dict[Receipt, str]:
        if not self._path.exists():
            return {}
        return dict(map(receipt_in, self._path.read_text().splitlines()))

    def names(self) -> set[str]:
        """Return the facts of which there is a receipt."""
        return set(self.read().values())

    async def missing(self, url: str) -> set[str]:
        """Return the facts that the product says are lost."""
        return await named_as_lost(url, self.read())


def line_of(receipt: Receipt, name: str) -> str:
    """Return a receipt, and the fact that it is for, as a line of text."""
    return json.dumps([*receipt.key, receipt.revision, receipt.digest.hex(), name])


def receipt_in(line: str) -> tuple[Receipt, str]:
    """Return what `line_of` was given."""
    owner, session, revision, digest, name = json.loads(line)
    return Receipt(SessionKey(owner, session), revision, bytes.fromhex(digest)), name


async def named_as_lost(url: str, receipts: Mapping[Receipt, str]) -> set[str]:
    """Return the facts that the product says are lost, of those whose receipts it is given."""
    async with open_store(url) as store:
        return {receipts[one] for one in await missing(store, receipts)}


class Keeper(Protocol):
    """Keeps receipts somewhere that does not share the store's fate."""

    def keep(self, receipt: Receipt, name: str) -> None: ...


class Remembering:
    """A store whose appends leave receipts, as a client would keep them."""

    def __init__(self, store: Store, receipts: Keeper) -> None:
        self._store = store
        self._receipts = receipts
        self._names: dict[SessionKey, tuple[int, Names]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(
        self, key: SessionKey, entries: Sequence[NewEntry], *, after: int, hold: Hold | None = None
    ) -> None:
        await self._store.append(key, entries, after=after, hold=hold)
        if key.owner == RAW:
            return  # bare entries, which have no digest
        read, names = self._names.get(key, (0, Names()))
        if read != after:
            names = Names()
            for stored in await self._store.headers(key):
                if stored.revision <= after:
                    decode_header(stored.header, names)
        for number, entry in enumerate(entries, after + 1):
            header = decode_header(entry.header, names)
            name = str(Cell(key.owner, key.session, header.run, header.step, header.branch))
            self._receipts.keep(Receipt(key, number, header.digest), name)
        self._names[key] = after + len(entries), names
