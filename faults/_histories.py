"""C10, many clients in two processes: is there one order that explains everything they were told?"""

import asyncio
import json
import os
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from faults._children import Child
from faults._place import Place, nothing
from faults._stores import Target
from faults._tally import Tally
from statepact.errors import Behind, StatepactError
from statepact.ledger import SessionKey, session_key
from statepact.stores import NewEntry, Store, open_store
from statepact.testing import History, Operation, contradiction

PROCESSES = 2
CLIENTS = 3
"""In each process."""
TURNS = 14
SESSIONS = 6
"""Histories that are recorded at once, each on its own session."""


def histories(place: Place, target: Target, count: int, *, bug: Callable[[], None] = nothing) -> Tally:
    """Record `count` histories of clients who append to the same session, and look for an order of each.

    The clock of the histories is the machine's, which all processes share.
    """
    tally = Tally(target.store, target.mode, "many clients at once, histories", seeds=place.seeds(count))
    for start in range(0, count, SESSIONS):
        keys = [session_key("histories", f"h{start + n}") for n in range(min(SESSIONS, count - start))]
        turns = session_key("histories", f"turns{start}")
        with target.opened(place) as url, place.folder() as notes:
            children = []
            ready, go = os.pipe()
            for process in range(PROCESSES):

                def live(process: int = process, url: str = url, notes: Path = notes, ready: int = ready) -> None:
                    bug()
                    if not process:
                        asyncio.run(_take_turns(url, turns, notes / "turns"))  # noqa: B023
                    os.read(ready, 1)  # both begin together, or one is done before the other has begun
                    chance = random.Random(f"{place.seed} {start} {process}")  # noqa: B023 - forked at once
                    asyncio.run(_record(url, keys, process, chance, notes / str(process)))  # noqa: B023

                children.append(Child(live, quiet=False))
            os.write(go, bytes(PROCESSES))
            os.close(ready)
            os.close(go)
            for child in children:
                if child.wait(60) != 0:
                    child.kill()
                    tally.trouble(f"a client's process ended with {child.code}")
            last = asyncio.run(_read_last(url, [*keys, turns]))
            for key in (*keys, turns):
                _judge(tally, key, [*_said(notes, key), *last.of(key)])
    return tally.done()


def _judge(tally: Tally, key: SessionKey, operations: list[Operation]) -> None:
    kept = [one for one in operations if one.kind == "append" and one.result == "ok"]
    # A history in which nobody was behind has had no two clients at the same place.
    tally.hits += any(one.result == "behind" for one in operations)
    tally.committed += sum(len(one.entries) for one in kept)
    tally.indeterminate += sum(one.result == "unknown" for one in operations)
    wrong = contradiction(operations)
    if wrong is not None:
        tally.remark(f"{key.session}: {wrong}")
    there = {name for one in operations[-1:] for name in one.entries}
    lost = {name for one in kept for name in one.entries} - there
    tally.lost += len(lost)
    if lost:
        tally.remark(f"{key.session}: {len(lost)} acknowledged entries are not there at the end")


async def _record(url: str, keys: list[SessionKey], process: int, chance: random.Random, out: Path) -> None:
    history = History()
    async with open_store(url) as store:
        clients = [(key, f"{process}.{number}") for key in keys for number in range(CLIENTS)]
        await asyncio.gather(
            *(_act(history.watch(store, name), key, name, random.Random(chance.random())) for key, name in clients)
        )
    _write(history, keys, out)


async def _take_turns(url: str, key: SessionKey, out: Path) -> None:
    """Let two clients read and append strictly one after the other: each must see what the other has done."""
    history, seen = History(), 0
    async with open_store(url) as one, open_store(url) as other:
        clients = [history.watch(one, "one"), history.watch(other, "other")]
        for turn in range(TURNS):
            client = clients[turn % 2]
            seen += len(await client.headers(key, after=seen))
            try:
                await client.append(key, [NewEntry(b"turn%d" % turn, b"{}")], after=seen)
            except StatepactError:
                break  # the history says why
            if turn % 4:
                seen += 1  # else it reads its own as well
    _write(history, [key], out)


def _write(history: History, keys: list[SessionKey], out: Path) -> None:
    lines = [json.dumps([key.session, asdict(one)]) for key in keys for one in history.of(key)]
    out.write_text("\n".join(lines))


async def _act(store: Store, key: SessionKey, name: str, chance: random.Random) -> None:
    seen = 0
    for turn in range(TURNS):
        if chance.random() < 0.7:
            found = await store.headers(key, after=seen if chance.random() < 0.5 else 0)
            seen = max([seen, *(stored.revision for stored in found)])
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() * 0.004)
        after = max(0, seen - (chance.random() < 0.15))
        names = [f"{name}.{turn}{letter}" for letter in "abc"[: chance.randint(1, 3)]]
        try:
            await store.append(key, [NewEntry(one.encode(), b"{}") for one in names], after=after)
        except Behind:
            continue
        seen = after + len(names)


async def _read_last(url: str, keys: list[SessionKey]) -> History:
    history = History()
    async with open_store(url) as store:
        for key in keys:
            await history.watch(store, "last").headers(key)
    return history


def _said(notes: Path, key: SessionKey) -> list[Operation]:
    found = []
    for path in sorted(notes.iterdir()):
        for line in path.read_text().splitlines():
            session, fields = json.loads(line)
            if session == key.session:
                found.append(Operation(**{**fields, "entries": tuple(fields["entries"])}))
    return found
