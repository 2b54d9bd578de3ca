"""Retention: the oldest runs of a session go, and a base stands for them in the log."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import orjson

from statepact.contracts import Contract
from statepact.errors import Behind, LeaseLost, SessionHeld, StoreError, UnknownSession
from statepact.ledger import DEFAULT_OWNER, SessionKey, session_key
from statepact.ledger._base_record import retained_record
from statepact.ledger._digest import block_digest
from statepact.ledger._header import Kind, pieces_of
from statepact.ledger._old_heads import pieces_of_digests
from statepact.ledger._retention import Cut, Keep, carried_of, cut_of
from statepact.stores._base import Hold, Rewrite, Store
from statepact.stores._draft import Draft
from statepact.stores._erase import MOST_TRIES, Scrubs
from statepact.stores._making_base import digests_of_removed, made_base
from statepact.stores._open_log import OpenLog
from statepact.stores._putting_together import put_together
from statepact.stores._removed import looked_through
from statepact.stores._retention_report import Retention, Stay

__all__ = ["Keep", "Retention", "Stay", "retain"]

HELD_FOR = 60.0
"""Seconds for which a session is claimed while its log is cut."""

Rule = Keep | Callable[[str], Keep | None]


async def retain(
    store: Store,
    keep: Rule,
    *,
    owner: str = DEFAULT_OWNER,
    session: str | None = None,
    shared: Sequence[type[Contract]] = (),
    log_key: bytes | None = None,
    dry_run: bool = False,
    at: int | None = None,
) -> Retention:
    """Remove the oldest runs of a session, or of all sessions of an owner, and return what went and what stays.

    `keep` says what stays: `Keep(days=90, runs=20)`; or it is a function that returns this for the name of
    a session, `None` for one that is left alone. Nothing goes of a run that has not ended, of a session that
    somebody holds, and of what stands behind such a run: a log is cut at one place. What goes is gone, its
    salts, large values and entities too; shared values of the session stay as they are, and so does every
    digest, so that heads which were kept elsewhere before the cut can still be compared. Readers of a
    removed run get `Expired`. What a kept run took from earlier ones (`earlier`, `recall`) does not hold them.

    `shared` are contracts of shared values whose merges are to be put together: the log does not know merge
    rules, so without the contract each change that was merged into a value is kept by itself. Leave out those
    with sensitive fields.

    `dry_run` changes nothing and asks nobody for the session. `at` is the time by which days count, in
    milliseconds since 1970. `log_key` is that of logs with tags. Each session is cut in one step or not at all.

    Raises `UnknownSession`, `SetupError`, `KeyMissing`, `CorruptState` for a damaged log, and `StoreError`.
    """
    names = [session] if session is not None else [info.session for info in await store.sessions(owner)]
    now = at if at is not None else time.time_ns() // 1_000_000
    total = Retention(dry_run=dry_run)
    for name in names:
        rule = keep if isinstance(keep, Keep) else keep(name)
        if rule is not None:
            job = _Job(store, session_key(owner, name), rule, now=now, log_key=log_key, shared=shared)
            total += await job.run(dry_run=dry_run)
    if total.sessions and not dry_run and isinstance(store, Scrubs):
        total = replace(total, scrubbed=await store.scrub())
    return total


class _Job:
    """The retention in one session."""

    def __init__(
        self,
        store: Store,
        key: SessionKey,
        keep: Keep,
        *,
        now: int,
        log_key: bytes | None,
        shared: Sequence[type[Contract]],
    ) -> None:
        self._shared = shared
        self._store = store
        self._key = key
        self._keep = keep
        self._now = now
        self._log_key = log_key

    async def run(self, *, dry_run: bool) -> Retention:
        for left in range(MOST_TRIES - 1, -1, -1):
            log = await OpenLog.open(self._store, self._key, log_key=self._log_key)
            if not log.log.entries:
                raise UnknownSession(f"owner {self._key.owner!r} has no session {self._key.session!r}")
            cut = cut_of(log.log, self._keep, self._now)
            if not cut.size or dry_run:
                return await self._once(log, cut, dry_run=True)
            try:
                async with self._alone():
                    log = await OpenLog.open(self._store, self._key, log_key=self._log_key)
                    return await self._once(log, cut_of(log.log, self._keep, self._now), dry_run=False)
            except SessionHeld as held:
                stays = dict(cut.stays) | dict.fromkeys(cut.runs[:1], f"the session is held by run {held.run!r}")
                return self._report(replace(cut, size=0, stays=stays))
            except (Behind, LeaseLost):
                if not left:
                    raise
        raise AssertionError

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the session, so that nobody begins to continue a run that is being removed."""
        from statepact.workflow._turn import holder_name

        hold = Hold(run="retention", holder=holder_name(), seconds=HELD_FOR)
        await self._store.hold(self._key, hold)
        self._hold = replace(hold, claim=False)
        try:
            yield
        finally:
            with suppress(StoreError, LeaseLost):  # it ends by itself when its time is up
                await self._store.hold(self._key, replace(self._hold, seconds=0.0))

    async def _once(self, log: OpenLog, cut: Cut, *, dry_run: bool) -> Retention:
        if not cut.size:
            return self._report(cut)
        carried = carried_of(log.log, cut.size)
        for contract in self._shared:
            carried = await put_together(log, carried, contract)
        seen = await looked_through(self._store, self._key, log.log, cut.size, carried)
        report = self._report(cut, seen.report())
        if dry_run:
            return report
        pieces = pieces_of_digests(await digests_of_removed(log, cut.size))
        digests = {block_digest(self._key.owner, piece): piece for piece in pieces}
        base = made_base(log, cut, seen.carried, rule=self._keep, digests=list(digests))
        change = Rewrite(
            replace={cut.size: (base.header, base.payload)},
            first=cut.size,
            blocks={**dict.fromkeys(seen.blocks | seen.old_digests), **seen.written, **digests},
            forget=seen.entities,
        )
        record = {
            **retained_record(cut.size, pieces_of(base.header).digest),
            "runs": cut.whole_runs,
            "rule": self._keep.as_dict(),
        }
        await self._store.hold(self._key, self._hold)  # looking through a long log takes its time
        await log.rewrite(change, Draft(
            kind=Kind.NOTE, at=self._now, run="", step="", extra=orjson.dumps(record), keep=None,
        ))  # fmt: skip
        return report

    def _report(self, cut: Cut, report: Retention | None = None) -> Retention:
        stays = tuple(Stay(self._key.session, run, why) for run, why in cut.stays.items())
        if report is None:
            return Retention(stays=stays)
        return replace(report, sessions=(self._key.session,), runs=cut.whole_runs, stays=stays)
