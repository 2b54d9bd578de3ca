"""Where a campaign runs: folders in memory or on the disk, its ledger, and its seed."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults._ledger import Ledger

MEMORY = Path("/dev/shm")


def nothing() -> None:
    """Plant no bug."""


@dataclass(frozen=True)
class Place:
    """What all campaigns of one command share."""

    ledger: Ledger
    seed: int
    long: bool
    disk: Path
    """A folder on a real disk."""

    @contextmanager
    def folder(self, *, on_disk: bool = False) -> Iterator[Path]:
        """Give an empty folder for a moment: in memory, where flushes cost nothing, unless they matter."""
        parent = self.disk.resolve() if on_disk or not os.access(MEMORY, os.W_OK) else MEMORY
        prefix = f"faults-{os.getpid()}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name:
            folder = Path(name) / "state"
            folder.mkdir()
            yield folder

    def sqlite(self, folder: Path, mode: str = "power") -> str:
        return f"sqlite:////{str(folder / 'state.db').lstrip('/')}?durability={mode}"

    def seeds(self, count: int) -> str:
        return f"{self.seed}:{count}"


def sweep_up(*parents: Path) -> None:
    """Remove the folders of commands that were killed, which could not do it themselves."""
    for parent in (MEMORY, Path(tempfile.gettempdir()), *parents):
        for old in parent.glob("faults-*-*"):
            number = old.name.split("-")[1]
            if number.isdigit() and not _lives(int(number)):
                shutil.rmtree(old, ignore_errors=True)


def _lives(pid: int) -> bool:
    with contextlib.suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True
