"""The command line. Nothing of the library is imported until a command needs it."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the console script `statepact`."""
    from statepact.cli._app import app

    app()
