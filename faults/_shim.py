"""The C shim under SQLite: compiled when it is needed, loaded by starting Python anew under it."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = HERE.parent / "build" / "faults-shim.so"

ON_WRITE, ON_SYNC = 1, 2
KILL_BEFORE, KILL_AFTER = -1, -2


class NoCompiler(RuntimeError):
    """The shim cannot be compiled here."""


def compiled() -> Path:
    """Return the shim, compiling it if it is missing or old. Raises `NoCompiler`."""
    source = HERE / "shim.c"
    if LIBRARY.exists() and LIBRARY.stat().st_mtime >= source.stat().st_mtime:
        return LIBRARY
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise NoCompiler("no C compiler here, which power loss and full disks need: apt-get install gcc libc6-dev")
    LIBRARY.parent.mkdir(exist_ok=True)
    unfinished = LIBRARY.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(unfinished), str(source), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompiler(f"{compiler} cannot compile {source.name}: {done.stderr.strip()[-500:]}")
    unfinished.rename(LIBRARY)
    return LIBRARY


def is_loaded() -> bool:
    return hasattr(ctypes.CDLL(None), "faults_watch")


def start_again_under_it(arguments: list[str]) -> None:
    """Replace this process by one with the shim loaded. Does not return."""
    environment = {**os.environ, "LD_PRELOAD": str(compiled())}
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def without_it() -> dict[str, str]:
    """Return the environment for servers, which the shim has no business in."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


class Shim:
    """The shim that is loaded into this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)

    def watch(self, folder: Path, *, trace: int = -1, sync_for_real: bool = False) -> None:
        """Look at the files of one folder from now on; write what happens to a file descriptor."""
        self._library.faults_watch(str(folder).encode(), trace, int(sync_for_real))

    def mark(self, text: str) -> None:
        """Put a word of our own between what is written and synced."""
        raw = text.encode()
        self._library.faults_mark(raw, ctypes.c_long(len(raw)))

    def arm(self, on: int, n: int, error: int, *, lasting: bool = False) -> None:
        """Strike at the n-th write or sync from now on; lasting: at each one after it, too."""
        self._library.faults_arm(on, ctypes.c_long(n), error, int(lasting))

    def disarm(self) -> None:
        self.arm(0, 0, 0)

    @property
    def struck(self) -> int:
        """How often the shim has struck since it was armed."""
        return int(self._library.faults_struck())

    def counted(self, on: int) -> int:
        """How many writes or syncs there were since it was armed or disarmed."""
        return int(self._library.faults_counted(on))
