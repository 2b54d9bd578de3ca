"""C4 for PostgreSQL: its disk, a small one in memory, is full for a while.

A file system of its own has to be mounted for that, so this needs root; without, the campaign says so.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from faults._checker import check
from faults._children import Child
from faults._place import Place
from faults._tally import Tally
from faults._worker import Job, run_worker

ROOM = "192m"
PIECE = bytes(1 << 16)


@contextmanager
def _small_disk(folder: Path) -> Iterator[str]:
    """Mount a small disk on a folder; say why that is not possible, empty if it is."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        yield "needs root, to mount a small disk"
        return
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM},mode=755", "faults", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"a small disk cannot be mounted here: {done.stderr.strip()}"
        return
    try:
        yield ""
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def full_disk(place: Place, rounds: int) -> Tally:
    """Fill the disk of a PostgreSQL server under load until commits fail, make room, and look at what it has kept."""
    from tests._postgres import Server

    tally = Tally("postgres", "power", "no room left on the server's disk for a while", seeds=place.seeds(rounds))
    for _ in range(rounds):
        with place.folder() as folder, _small_disk(folder) as why_not:
            if why_not:
                tally.void = why_not
                break
            folder.parent.chmod(0o755)
            server = Server(folder)
            server.start()
            try:
                _one_shortage(place, f"{server.url()}&durability=power&timeout=2", folder / "ballast", tally)
            finally:
                server.stop()
    return tally.done()


def _one_shortage(place: Place, url: str, ballast: Path, tally: Tally) -> None:
    place.ledger.clear()
    child = Child(partial(run_worker, Job(url, place.ledger.path)))
    _until(lambda: place.ledger.acked() > 30, 15)
    _fill(ballast)
    full = _until(lambda: any(one.error for one in place.ledger.read().records.values()), 30, partial(_fill, ballast))
    time.sleep(0.5)
    ballast.unlink()
    before = place.ledger.acked()
    goes_on = _until(lambda: place.ledger.acked() > before + 5, 30)
    child.kill()
    found = check(url, place.ledger.read())
    if not goes_on:
        found.remark("nothing could be committed after room had returned")
    tally.add(found, hit=full)
    tally.count(found)


def _fill(ballast: Path) -> None:
    """Take what room is left."""
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while file.write(PIECE):
            pass


def _until(condition: Callable[[], bool], seconds: float, meanwhile: Callable[[], None] = lambda: None) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if condition():
            return True
        meanwhile()
        time.sleep(0.05)
    return False
