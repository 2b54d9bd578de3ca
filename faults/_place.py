"""Where a campaign runs: folders in memory or on the disk, its ledger, and its seed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults._ledger import Ledger


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
        memory = Path("/dev/shm")
        parent = self.disk.resolve() if on_disk or not os.access(memory, os.W_OK) else memory
        with tempfile.TemporaryDirectory(prefix="faults-", dir=parent, ignore_cleanup_errors=True) as name:
            folder = Path(name) / "state"
            folder.mkdir()
            yield folder

    def sqlite(self, folder: Path, mode: str = "power") -> str:
        return f"sqlite:////{str(folder / 'state.db').lstrip('/')}?durability={mode}"

    def seeds(self, count: int) -> str:
        return f"{self.seed}:{count}"
