"""Servers that are killed: PostgreSQL and Valkey from wheels, one for each campaign."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from faults._place import Place
from faults._shim import compiled
from faults._stores import Target


class Running(Protocol):
    """A server that can be killed and started again on what it has kept."""

    def start(self) -> None: ...

    def kill(self) -> None: ...


@dataclass(frozen=True)
class Served:
    """A server and the URL of an empty store on it."""

    server: Running
    url: str
    folder: Path
    fresh: str = ""
    """The option of a URL that names an empty store on the same server."""

    def store(self, number: int) -> str:
        """Return the URL of an empty store, another one for each number."""
        return f"{self.url}{'&' if '?' in self.url else '?'}{self.fresh}=fresh{number}"


@contextmanager
def postgres(place: Place, mode: str) -> Iterator[Served]:
    """Run PostgreSQL; `mode` is `power` (synchronous_commit=on) or `process` (off)."""
    from tests._postgres import Server

    with place.folder() as folder:
        folder.parent.chmod(0o755)
        server = Server(folder, **({} if mode == "power" else {"wal_writer_delay": "10s"}))
        server.start()
        try:
            yield Served(server, f"{server.url()}&durability={mode}", folder, "schema")
        finally:
            server.stop()


@contextmanager
def valkey(place: Place, mode: str, *, trace: Path | None = None, slow_sync: float = 0.0) -> Iterator[Served]:
    """Run Valkey; `mode` is how its append-only file is flushed, or `none`.

    Until it is started again, `trace` is told what it writes and flushes, and each flush takes `slow_sync`
    seconds longer.
    """
    from tests._valkey import Server

    settings = {"appendonly": "no"} if mode == "none" else {"appendonly": "yes", "appendfsync": mode}
    with place.folder() as folder:
        server = Server(Path(folder), **settings)
        watched = {"FAULTS_TRACE": str(trace)} if trace else {}
        watched |= {"FAULTS_SLOW_SYNC": str(round(slow_sync * 1000))} if slow_sync else {}
        with _under_the_shim(folder, watched) if watched else nullcontext():
            server.start()
        try:
            yield Served(server, server.url, folder, "prefix")
        finally:
            server.kill()


@contextmanager
def _under_the_shim(folder: Path, more: Mapping[str, str]) -> Iterator[None]:
    """Start programs with the shim between them and the files of a folder."""
    ours = {"LD_PRELOAD": str(compiled()), "FAULTS_FOLDER": str(folder), **more}
    os.environ |= ours
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def target(store: str, mode: str) -> Target:
    """Return a store on a server of its own, for campaigns that leave the server alone."""

    @contextmanager
    def opened(place: Place) -> Iterator[str]:
        with (postgres if store == "postgres" else valkey)(place, mode) as served:
            yield served.url

    return Target(store, mode, store, opened)
