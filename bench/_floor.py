"""The floor: the least work that stores one JSON step and reads the previous one, on plain `sqlite3`."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from bench._timing import Laps

_READ = "select data from step where session=? and number=?"
_WRITE = "insert into step(session, number, data) values(?, ?, ?)"


class Floor:
    """Same journal mode and `synchronous` as ours, an ordinary rowid table, one index of two integers."""

    def __init__(self, path: Path, *, full: bool = False) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("pragma journal_mode=wal")
        self.db.execute(f"pragma synchronous={'full' if full else 'normal'}")
        self.db.execute("create table if not exists session(id integer primary key, name text unique)")
        self.db.execute("create table if not exists step(id integer primary key, session int, number int, data blob)")
        self.db.execute("create unique index if not exists step_place on step(session, number)")
        self._names = 0

    def session(self) -> int:
        self._names += 1
        row = self.db.execute("insert into session(name) values(?) returning id", (f"s{self._names}",)).fetchall()
        return int(row[0][0])

    def chain(self, chains: Sequence[Sequence[dict[str, Any]]]) -> float:
        """Return the seconds of one chain: each step reads the one before and writes its own."""
        execute, laps = self.db.execute, Laps()
        for steps in chains:
            with laps:
                session = self.session()
                for number, step in enumerate(steps):
                    if number:
                        orjson.loads(execute(_READ, (session, number - 1)).fetchone()[0])
                    execute(_WRITE, (session, number, orjson.dumps(step)))
        return laps.typical

    def fan_out(self, chains: Sequence[Sequence[dict[str, Any]]]) -> float:
        """Return the seconds of one fan-out: a first step, those between that read it, a last that reads those."""
        execute, laps = self.db.execute, Laps()
        for steps in chains:
            with laps:
                session = self.session()
                for number, step in enumerate(steps):
                    if number == len(steps) - 1:
                        for between in range(1, number):
                            orjson.loads(execute(_READ, (session, between)).fetchone()[0])
                    elif number:
                        orjson.loads(execute(_READ, (session, 0)).fetchone()[0])
                    execute(_WRITE, (session, number, orjson.dumps(step)))
        return laps.typical

    def appends(self, payloads: Sequence[bytes]) -> float:
        """Return the seconds of one insert, each with a commit of its own."""
        session = self.session()
        with Laps() as laps:
            for number, payload in enumerate(payloads):
                self.db.execute(_WRITE, (session, number, payload))
        return laps.typical / len(payloads)

    def close(self) -> None:
        self.db.close()
