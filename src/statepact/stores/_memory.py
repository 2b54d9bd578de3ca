"""A store that lives and ends with its process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from statepact.errors import Behind, StoreUnavailable
from statepact.ledger import SessionKey
from statepact.stores._base import NewEntry, SessionInfo, StoredHeader


class MemoryStore:
    """Keeps everything in this process and promises nothing beyond it."""

    promise = "nothing survives the end of the process"

    def __init__(self) -> None:
        self._logs: dict[SessionKey, list[NewEntry]] = {}
        self._blocks: dict[tuple[str, bytes], bytes] = {}
        # Sessions may be used from several threads (`with session.step(...)` beside a loop).
        self._lock = threading.Lock()
        self._closed = False

    async def append(self, key: SessionKey, entries: Sequence[NewEntry], *, after: int) -> None:
        self._check_open()
        with self._lock:
            log = self._logs.get(key, [])
            if len(log) != after:
                raise Behind(f"session {key.session!r} is at revision {len(log)}, not {after}")
            for entry in entries:
                for address, data in entry.blocks:
                    self._blocks.setdefault((key.owner, address), data)
            log.extend(NewEntry(entry.header, entry.payload) for entry in entries)
            if log:
                self._logs[key] = log

    async def headers(self, key: SessionKey, *, after: int = 0) -> Sequence[StoredHeader]:
        self._check_open()
        log = self._logs.get(key, ())
        return [StoredHeader(revision, log[revision - 1].header) for revision in range(after + 1, len(log) + 1)]

    async def payloads(self, key: SessionKey, revisions: Iterable[int]) -> Mapping[int, bytes]:
        self._check_open()
        log = self._logs.get(key, ())
        return {revision: log[revision - 1].payload for revision in revisions if 1 <= revision <= len(log)}

    async def blocks(self, key: SessionKey, addresses: Iterable[bytes]) -> Mapping[bytes, bytes]:
        self._check_open()
        found = ((address, self._blocks.get((key.owner, address))) for address in addresses)
        return {address: data for address, data in found if data is not None}

    async def sessions(self, owner: str) -> Sequence[SessionInfo]:
        self._check_open()
        with self._lock:
            mine = [(key.session, len(log)) for key, log in self._logs.items() if key.owner == owner]
        return [SessionInfo(session=session, revision=revision) for session, revision in sorted(mine)]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed", hint="keep it open until every run has ended")

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
