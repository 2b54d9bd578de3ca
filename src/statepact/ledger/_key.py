"""Whose state, and which: the owner is part of every key."""

from __future__ import annotations

from typing import NamedTuple

from statepact.errors import SetupError

LONGEST_NAME = 512
"""Most characters of an owner, session, run, step or branch name."""

REQUEST_STEP = "request"
"""Name of the step that commits what a run was asked. No other step may have it."""

WORDS = "Request"
"""Name of the contract under which words are asked."""

INSIDE = "//"
"""Between a run and the step that is a run inside it: `r-1//refunds`."""

DEFAULT_OWNER = "local"
"""Owner of scripts that serve one person. A service names the owner of every request."""


class SessionKey(NamedTuple):
    """Names one session. Two owners with the same session name share nothing."""

    owner: str
    session: str


def session_key(owner: str, session: str) -> SessionKey:
    """Return a checked key; raises `SetupError` for names no store could keep apart."""
    return SessionKey(check_name(owner, what="owner"), check_name(session, what="session"))


def check_name(name: str, *, what: str) -> str:
    """Return `name`, or raise `SetupError` if it is empty, too long or not storable text.

    Wildcards, colons, spaces and every script are fine: names are compared as a whole and never
    become part of a pattern.
    """
    if not isinstance(name, str) or not name:
        raise SetupError(f"the {what} has no name", hint=f"pass a non-empty string as {what}")
    if len(name) > LONGEST_NAME:
        raise SetupError(f"the name of the {what} has {len(name)} characters, {LONGEST_NAME} is the most")
    if "\x00" in name or not _is_text(name):
        raise SetupError(f"the name of the {what} holds NUL or half of a surrogate pair, which is not text")
    return name


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
