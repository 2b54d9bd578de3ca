"""C5, a broken network: a proxy of our own between client and server that cuts, stalls, resets and drips."""

import asyncio
import mmap
import random
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from faults import _servers
from faults._checker import check
from faults._children import Child
from faults._place import Place, nothing
from faults._tally import Tally
from faults._worker import Job, run_worker

KINDS = ("cut", "reset", "half-close", "stall", "drip")
STALLS = 1.5
"""Seconds; the clients' deadline is shorter."""
DEADLINE = 1.0
FAULTS = 25
"""Lines that break before a store is looked at."""


class Faults:
    """How many faults have struck: memory that the proxy's process shares with ours."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    def struck(self) -> None:
        self._memory[:8] = struct.pack("q", self.count + 1)

    @property
    def count(self) -> int:
        found: int = struct.unpack("q", self._memory[:8])[0]
        return found


class Proxy:
    """Passes bytes on between a port and a server, until its dice say otherwise."""

    def __init__(self, upstream: Path | int, chance: random.Random, faults: Faults) -> None:
        self._upstream = upstream
        self._chance = chance
        self._faults = faults
        self._lines: set[asyncio.Task[None] | None] = set()
        """So that nobody collects a task that waits for a line of which nobody else knows."""

    async def serve(self, listener: socket.socket) -> None:
        async with await asyncio.start_server(self._connection, sock=listener) as server:
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.add(asyncio.current_task())
        try:
            if isinstance(self._upstream, Path):
                far_reader, far_writer = await asyncio.open_unix_connection(str(self._upstream))
            else:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.close()
            return
        kind = self._chance.choice(KINDS)
        after = int(self._chance.expovariate(1 / 25_000)) + 200
        asks = self._chance.random() < 0.5  # in the direction of the questions, or of the answers
        ways = ((reader, far_writer, asks), (far_reader, writer, not asks))
        await asyncio.gather(
            *(self._pass_on(one, other, writer, far_writer, kind if mine else "", after) for one, other, mine in ways),
            return_exceptions=True,
        )
        for line in (writer, far_writer):
            line.close()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        near: asyncio.StreamWriter,
        far: asyncio.StreamWriter,
        kind: str,
        after: int,
    ) -> None:
        passed = 0
        while data := await reader.read(4096):
            if kind and passed + len(data) > after:
                self._faults.struck()
                kept = data[: max(0, after - passed)]
                writer.write(kept)
                rest = data[len(kept) :]
                if kind == "drip":
                    for at in range(min(len(rest), 300)):
                        writer.write(rest[at : at + 1])
                        await writer.drain()
                        await asyncio.sleep(0.001)
                    writer.write(rest[300:])
                    kind, passed = "cut", 0  # a line that lived on for ever would end the faults
                    continue
                if kind == "half-close":
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                if kind == "stall":
                    await asyncio.sleep(STALLS)
                if kind == "reset":
                    for line in (near, far):
                        found = line.get_extra_info("socket")
                        if found is not None and found.family != socket.AF_UNIX:
                            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                near.transport.abort()
                far.transport.abort()
                return
            passed += len(data)
            writer.write(data)
            await writer.drain()


def broken_network(place: Place, store: str, mode: str, rounds: int, *, bug: Callable[[], None] = nothing) -> Tally:
    """Let a worker commit for three seconds over a line that breaks again and again; then look at the store."""
    tally = Tally(store, mode, "network: cut, reset, half-close, stall, drip", seeds=place.seeds(rounds))
    serve = _servers.postgres if store == "postgres" else _servers.valkey
    for number in range(rounds):
        with serve(place, mode) as served, socket.socket() as listener:
            place.ledger.clear()
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            faults = Faults()
            if store == "postgres":
                upstream: Path | int = Path(served.folder) / ".s.PGSQL.5432"
                url = f"postgresql://postgres@127.0.0.1:{port}/postgres?timeout={DEADLINE}&durability={mode}"
            else:
                upstream = int(served.url.rpartition(":")[2].partition("/")[0])
                url = f"redis://127.0.0.1:{port}/0?timeout={DEADLINE}"
            proxy = Proxy(upstream, random.Random(place.seed + number), faults)
            between = Child(lambda proxy=proxy, listener=listener: asyncio.run(proxy.serve(listener)))
            job = Job(url, place.ledger.path, patience=5)

            def live(job: Job = job) -> None:
                bug()
                run_worker(job)

            child = Child(live)
            give_up = time.monotonic() + 12
            while (faults.count < FAULTS or place.ledger.acked() < 30) and time.monotonic() < give_up:
                time.sleep(0.01)
            child.kill()
            between.kill()
            books = place.ledger.read()
            found = check(served.url, books)
            tally.add(found, hit=False)
            tally.hits += faults.count
            tally.count(found)
    return tally.done()
