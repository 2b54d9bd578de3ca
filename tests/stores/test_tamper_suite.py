"""Other people's tamper suite (`agmi`, in the package agent-memory-integrity) against the SQLite store."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agmi.adapters.base import MemoryAdapter, Record
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT

from statepact import SqliteStore
from statepact.ledger import SessionKey
from statepact.ledger._digest import DIGEST_SIZE, entry_digest, leaf_digest
from statepact.ledger._header import pieces_of
from statepact.stores._open_log import OpenLog
from statepact.stores._verify import verify
from statepact.testing._sentences import said

KEY = b"a key that is kept elsewhere"
OURS, THEIRS = SessionKey("acme", "s-1"), SessionKey("umbrella", "s-1")


@pytest.fixture(autouse=True)
def _temporary_files_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the snapshots that the tool makes, and does not remove, out of the machine's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


class SqliteUnderAttack(MemoryAdapter):
    """A session in an SQLite file; a record is an entry, its row the slot, its header the metadata.

    `knowing` attackers have read our code: they compute the digests anew and close gaps.
    """

    name = "statepact-sqlite"
    supports_replay = supports_metadata = supports_snapshot = True

    def __init__(self, *, knowing: bool, keyed: bool, anchored: bool) -> None:
        self.knowing = knowing
        self.key = KEY if keyed else None
        self.anchored = anchored
        self.anchor: str | None = None

    def setup(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "state.db"

    def teardown(self) -> None:
        self.folder.cleanup()

    # -- the tool's own way ------------------------------------------------------------------------

    def seed(self, n: int) -> None:
        self._write(OURS, [f"seed {number}" for number in range(n)])

    def seed_other(self, n: int) -> None:
        self._write(THEIRS, [f"other {number}" for number in range(n)])

    def append_genuine(self) -> None:
        self._write(OURS, ["late"])

    def _write(self, key: SessionKey, texts: Sequence[str]) -> None:
        async def write() -> None:
            async with SqliteStore(self.file, durability="process") as store:
                log = await OpenLog.open(store, key, log_key=self.key)
                for text in texts:
                    await log.append(said("say", text, branch=text, owner=key.owner))
                if key == OURS and self.anchored:
                    self.anchor = (await verify(store, key)).anchor  # taken to a place of its own

        asyncio.run(write())

    def reload(self) -> None:
        pass

    def verify(self) -> bool:
        async def check() -> Any:
            async with SqliteStore(self.file, read_only=True) as store:
                return await verify(store, OURS, log_key=self.key, anchor=self.anchor)

        verdict = asyncio.run(check())
        self.verify_detail = "; ".join(map(str, verdict.faults))
        return bool(verdict.ok)

    # -- the attacker's way ------------------------------------------------------------------------

    def _raw(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.file)) as db:
            rows = db.execute(statement, values).fetchall()
            db.commit()
            return rows

    def _read(self, key: SessionKey) -> list[Record]:
        rows = self._raw(
            "select e.id, h.bytes, e.payload, o.name from entry e join header h on h.id = e.id"
            " join session s on s.id = e.session join owner o on o.id = s.owner where o.name=? order by e.revision",
            key.owner,
        )
        names = ("row", "header", "payload", "owner")
        return [Record(seq, dict(zip(names, row, strict=True))) for seq, row in enumerate(rows)]

    def read_all_raw(self) -> list[Record]:
        return self._read(OURS)

    def read_other_raw(self) -> list[Record]:
        return self._read(THEIRS)

    def write_raw(self, record: Record) -> None:
        records = self.read_all_raw()
        header, payload = record.fields["header"], record.fields["payload"]
        if self.knowing:
            header = with_its_digest(header, payload)
        if record.seq < len(records):
            row = records[record.seq].fields["row"]
        else:
            ((session, revision),) = self._raw(
                "select session, max(revision) + 1 from entry where session = (select session from entry where id = ?)",
                records[-1].fields["row"],
            )
            self._raw("insert into entry(session, revision, payload) values(?, ?, '')", session, revision)
            ((row,),) = self._raw("select max(id) from entry")
            self._raw("insert into header(id, bytes) values(?, '')", row)
        self._raw("update header set bytes=? where id=?", header, row)
        self._raw("update entry set payload=? where id=?", payload, row)

    def delete_raw(self, seq: int) -> None:
        row = self.read_all_raw()[seq].fields["row"]
        ((session, revision),) = self._raw("select session, revision from entry where id=?", row)
        self._raw("delete from header where id=?", row)
        self._raw("delete from entry where id=?", row)
        if self.knowing:
            for (later,) in self._raw(
                "select id from entry where session=? and revision>? order by revision", session, revision
            ):
                self._raw("update entry set revision=revision-1 where id=?", later)

    def mutate_payload(self, record: Record) -> Record:
        record.fields["payload"] = record.fields["payload"].replace(b"seed", b"evil")
        return record

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        self.write_raw(Record(victim_seq, dict(donor.fields)))

    def read_meta(self, seq: int) -> dict[str, Any]:
        return {"header": self.read_all_raw()[seq].fields["header"].hex()}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        record = self.read_all_raw()[seq]
        header = bytearray.fromhex(meta["header"])
        header[DIGEST_SIZE + 16 + 17] ^= 1  # the time of the commit
        record.fields["header"] = bytes(header)
        self.write_raw(record)

    def snapshot_store(self) -> object:
        return self._copy_store(self.file)

    def restore_store(self, token: object) -> None:
        self._restore_store(token, self.file)

    # -- what the suite's guard looks at -----------------------------------------------------------

    def identity_of(self, record: Record) -> str:
        return str(record.fields["row"])

    def payload_of(self, record: Record) -> str:
        return str(record.fields["payload"].hex())

    def owner_of(self, record: Record) -> str:
        return str(record.fields["owner"])


def with_its_digest(header: bytes, payload: bytes) -> bytes:
    pieces = pieces_of(header)
    return entry_digest(pieces.body, [leaf_digest(pieces.salt, 0, payload)]) + header[DIGEST_SIZE:]


def results(**grade: bool) -> dict[str, str]:
    """Run all nine attacks; return the status of each."""
    attacks = [attack() for attack in AT_REST_ATTACKS_WITH_SNAPSHOT]
    done = {attack.name: attack.run(SqliteUnderAttack(**grade)) for attack in attacks}
    assert {name: result.guard or result.error for name, result in done.items()} == dict.fromkeys(done)
    return {name: result.status for name, result in done.items()}


@pytest.mark.parametrize("knowing", [False, True])
def test_nine_of_nine_are_found_with_key_and_anchor(knowing: bool) -> None:
    """Also if the attacker knows how digests are made and closes the gaps."""
    found = results(knowing=knowing, keyed=True, anchored=True)

    assert len(found) == 9
    assert set(found.values()) == {"safe"}, found


def test_with_a_key_alone_only_removal_at_the_end_is_missed() -> None:
    """What `Verdict.misses` says of the grade, measured."""
    found = results(knowing=True, keyed=True, anchored=False)

    assert {name for name, status in found.items() if status != "safe"} == {"truncate", "snapshot_rollback"}


def test_with_an_anchor_alone_only_what_comes_after_it_is_missed() -> None:
    """The suite's forgery adds an entry behind the anchor."""
    found = results(knowing=True, keyed=False, anchored=True)

    assert {name for name, status in found.items() if status != "safe"} <= {"forge"}
