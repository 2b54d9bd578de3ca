"""Processes to be killed: forked from this one, which has imported everything already.

A worker that has to be started anew costs half a second, a forked one some milliseconds; with
hundreds of kills that is the difference between a campaign in CI and none.
"""

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any


class Child:
    """A forked process that runs one function and ends."""

    def __init__(self, work: Callable[..., Any], *values: Any, quiet: bool = True) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self.pid = os.fork()
        self.code: int | None = None
        if self.pid == 0:
            code = 1
            try:
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                _die_with(parent)
                work(*values)
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            except BaseException:
                if not quiet:
                    traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)

    def signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process, as by `kill -9`, and wait until it is gone."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def wait(self, seconds: float = 60.0) -> int | None:
        """Return the exit code, negative for a signal, `None` if it has not ended in time."""
        give_up = time.monotonic() + seconds
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > give_up:
                return None
            else:
                time.sleep(0.001)
        return self.code


def _die_with(parent: int) -> None:
    """Be killed when the parent ends, however it ends: also while stopped, and without a look at anything."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
