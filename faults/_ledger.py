"""The outside ledger: a process of its own that is told what was tried, acknowledged and refused.

It does not die with what is tested. A worker tells it about a commit before and after, by a write to
a Unix socket: once that has returned, the kernel has the line, and no kill of the worker takes it back.
"""

import contextlib
import json
import os
import selectors
import socket
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from faults._children import Child

MAYBE = ("StoreTimeout", "StoreUnavailable", "TimeoutError", "ConnectionError", "CancelledError")
"""Errors after which nobody knows whether the commit was kept. After every other one it was not."""


@dataclass
class Record:
    """What the ledger knows of one commit. Numbers count all lines, so they order what was said."""

    tried: int
    """Line of the first attempt."""
    open: int = 0
    """Attempts of which nobody has said how they ended."""
    acked: int = 0
    """Line of the first acknowledgement, 0 for none."""
    refused: int = 0
    maybe: int = 0
    error: str = ""


@dataclass
class Books:
    """Everything that was said."""

    records: dict[str, Record] = field(default_factory=dict)
    lines: int = 0
    flying_now: int = 0
    """How many attempts of the living have no end yet."""
    strange: list[str] = field(default_factory=list)
    """Errors that no user should ever see."""

    def say(self, word: str, name: str, error: str = "") -> None:
        self.lines += 1
        record = self.records.setdefault(name, Record(self.lines))
        if word == "i":
            record.open += 1
            self.flying_now += 1
            return
        self.flying_now = max(self.flying_now - 1, 0)
        record.open = max(record.open - 1, 0)
        if word == "a":
            record.acked = record.acked or self.lines
        elif word == "f":
            record.error = error
            if error in MAYBE:
                record.maybe += 1
            else:
                record.refused += 1
        elif word == "x":
            record.error = error
            record.maybe += 1
            self.strange.append(f"{name}: {error}")

    @property
    def committed(self) -> set[str]:
        return {name for name, record in self.records.items() if record.acked}

    @property
    def refused(self) -> set[str]:
        """Those that nobody may ever read: every attempt was refused for certain."""
        return {name for name, r in self.records.items() if not r.acked and not r.open and not r.maybe}

    @property
    def indeterminate(self) -> set[str]:
        return {name for name, r in self.records.items() if not r.acked and (r.open or r.maybe)}


class Ledger:
    """The ledger's process, seen from the one who runs the campaign."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=f"faults-{os.getpid()}-ledger-")
        self.path = str(Path(self._folder.name) / "socket")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        self._child = Child(_serve, listener)
        listener.close()

    def read(self) -> Books:
        """Return everything that was said up to now, by the dead as well."""
        lines = self._ask("?")
        raw = json.loads(lines)
        return Books({n: Record(**r) for n, r in raw.pop("records").items()}, **raw)

    def clear(self) -> None:
        """Open a new book."""
        self._ask("0")

    def acked(self) -> int:
        """Return how many commits were acknowledged so far."""
        return int(self._ask("#"))

    def _ask(self, word: str) -> str:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(self.path)
            line.sendall(f"{word}\n".encode())
            line.shutdown(socket.SHUT_WR)
            with line.makefile() as answer:
                return answer.read()

    def close(self) -> None:
        self._child.kill()
        self._folder.cleanup()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Witness:
    """The ledger, seen from a worker."""

    def __init__(self, path: str) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(path)

    def intent(self, name: str) -> None:
        self._say(f"i\t{name}\n")

    def ack(self, name: str) -> None:
        self._say(f"a\t{name}\n")

    def fail(self, name: str, error: BaseException, *, strange: bool = False) -> None:
        text = type(error).__name__ if not strange else f"{type(error).__name__}: {error}"
        self._say(f"{'x' if strange else 'f'}\t{name}\t{' '.join(text.split())[:160]}\n")

    def _say(self, line: str) -> None:
        self._line.sendall(line.encode())

    def close(self) -> None:
        self._line.close()


def _serve(listener: socket.socket) -> None:
    desk = _Desk(listener)
    parent = os.getppid()
    while os.getppid() == parent:
        desk.turn()


class _Desk:
    """Takes in everything that has been said, then answers: so the dead are heard before a question is."""

    def __init__(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._chooser = selectors.DefaultSelector()
        self._chooser.register(listener, selectors.EVENT_READ)
        self._rests: dict[socket.socket, bytes] = {}
        self._books = Books()

    def turn(self) -> None:
        self._chooser.select(1.0)
        with contextlib.suppress(BlockingIOError):
            while True:
                line = self._listener.accept()[0]
                line.setblocking(False)
                self._rests[line] = b""
                self._chooser.register(line, selectors.EVENT_READ)
        for line, question in [(line, self._hear(line)) for line in list(self._rests)]:
            if question is not None:
                self._chooser.unregister(line)
                del self._rests[line]
                line.setblocking(True)
                with contextlib.suppress(OSError):
                    line.sendall(self._answer(question))
                line.close()

    def _hear(self, line: socket.socket) -> str | None:
        """Return the question of a line, empty if it has ended without one, `None` if it goes on."""
        ended, question = False, None
        with contextlib.suppress(BlockingIOError):
            while not ended:
                try:
                    data = line.recv(1 << 20)
                except ConnectionError:
                    data = b""
                ended = not data
                *whole, self._rests[line] = (self._rests[line] + data).split(b"\n")
                for one in whole:
                    word, *rest = one.decode().split("\t")
                    if rest:
                        self._books.say(word, *rest)
                    else:
                        question = word
        return question if question is not None else "" if ended else None

    def _answer(self, question: str) -> bytes:
        if question == "#":
            return str(len(self._books.committed)).encode()
        if question == "0":
            self._books = Books()
            return b"{}"
        if question == "?":
            records = {name: vars(record) for name, record in self._books.records.items()}
            return json.dumps({**vars(self._books), "records": records}).encode()
        return b""
