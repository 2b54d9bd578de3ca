"""What the commands share: exit codes, errors without tracebacks, tables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import click
from rich.console import Console

from statepact.errors import (
    CorruptState,
    Expired,
    MissingExtra,
    SetupError,
    StatepactError,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
    UnknownRevision,
    UnknownRun,
    UnknownSession,
)


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    NOT_WELL = 1
    USAGE = 2
    UNREADABLE = 3


class Exit(SystemExit):
    """Ends the command with an exit code; everything there was to say has been said."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__(int(code))


_UNREADABLE = (
    StoreUnavailable, StoreTooNew, StoreReadOnly, UnknownSession, UnknownRun, UnknownRevision, Expired, CorruptState,
)  # fmt: skip


def console(*, stderr: bool = False) -> Console:
    """Return a console; colour only on a terminal and never with NO_COLOR (rich honours it)."""
    # Without a terminal nobody sees line ends at 80, and a program would have to join them again.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    return Console(stderr=stderr, highlight=False, soft_wrap=width is not None, width=width)


def print_json(value: Any) -> None:
    """Write one JSON value as one line to standard output, Chinese as it is, integers exact, and flush."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


def fail(message: str, code: ExitCode = ExitCode.USAGE) -> Exit:
    """Write an error to standard error and return the exit to raise."""
    click.echo(f"Error: {message}", err=True)
    return Exit(code)


@contextmanager
def guarded(*, debug: bool) -> Iterator[None]:
    """Turn every error into a message that says what to do, and an exit code; never a traceback.

    `debug` shows the traceback as well.
    """
    try:
        yield
    except click.ClickException:
        raise
    except BrokenPipeError:
        # The reader of our output went away (`| head`); there is nobody to tell.
        sys.stderr.close()
        raise Exit(ExitCode.NOT_WELL) from None
    except KeyboardInterrupt:
        click.echo("stopped; what was committed stays", err=True)
        raise Exit(ExitCode.NOT_WELL) from None
    except StatepactError as error:
        if debug:
            raise
        raise fail(str(error), _code_of(error)) from None
    except Exception as error:
        if debug:
            raise
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise fail(
            f"{type(error).__name__}{_place(error)}\n  → run again with --debug to see the traceback  [ERR_INTERNAL]",
            ExitCode.NOT_WELL,
        ) from None


def _code_of(error: StatepactError) -> ExitCode:
    if isinstance(error, (SetupError, MissingExtra)):
        return ExitCode.USAGE
    return ExitCode.UNREADABLE if isinstance(error, _UNREADABLE) else ExitCode.NOT_WELL


def _place(error: Exception) -> str:
    import traceback
    from pathlib import PurePath

    frames = traceback.extract_tb(error.__traceback__)
    return f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def too_much_loss(rates: Any, max_loss: float | None) -> bool:
    """Whether any of the three shares is above the bound; a question without data is not above it."""
    return max_loss is not None and any(rate is not None and rate > max_loss for rate in rates.values())


def write_page(path: Any, page: str) -> None:
    """Write an HTML page; raises `SetupError` if the file cannot be written."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SetupError(
            f"{path} cannot be written: {error.strerror}", hint="name a file in a folder that exists"
        ) from None
