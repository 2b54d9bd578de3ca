"""Servers that are killed: PostgreSQL and Valkey from wheels, one for each campaign."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from faults._place import Place
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


@contextmanager
def postgres(place: Place, mode: str) -> Iterator[Served]:
    """Run PostgreSQL; `mode` is `power` (synchronous_commit=on) or `process` (off)."""
    from tests._postgres import Server

    with place.folder() as folder:
        folder.parent.chmod(0o755)
        server = Server(folder, **({} if mode == "power" else {"wal_writer_delay": "10s"}))
        server.start()
        try:
            yield Served(server, f"{server.url()}&durability={mode}", folder)
        finally:
            server.stop()


@contextmanager
def valkey(place: Place, mode: str) -> Iterator[Served]:
    """Run Valkey; `mode` is how its append-only file is flushed, or `none`."""
    from tests._valkey import Server

    settings = {"appendonly": "no"} if mode == "none" else {"appendonly": "yes", "appendfsync": mode}
    with place.folder() as folder:
        server = Server(Path(folder), **settings)
        server.start()
        try:
            yield Served(server, server.url, folder)
        finally:
            server.kill()


def target(store: str, mode: str) -> Target:
    """Return a store on a server of its own, for campaigns that leave the server alone."""

    @contextmanager
    def opened(place: Place) -> Iterator[str]:
        with (postgres if store == "postgres" else valkey)(place, mode) as served:
            yield served.url

    return Target(store, mode, store, opened)
