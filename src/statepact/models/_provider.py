"""What the clients of HTTP providers share: clients per event loop, and errors without secrets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from statepact.errors import ModelError, SetupError

_MASK = "***"
_IDENTIFIER = re.compile(r"[A-Za-z][\w.\-]{0,59}")


class _Closable(Protocol):
    async def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closable)


class PerLoop(Generic[Client]):
    """One client for each event loop.

    A client keeps connections open, and a connection belongs to the loop that opened it: a model
    that is used from two `asyncio.run` calls would fail with "Event loop is closed".
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        # Made at once so that a missing key is an error where the model is set up.
        self._spare: Client | None = make()
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    def get(self) -> Client:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client, self._spare = self._spare or self._make(), None
            self._clients[loop] = client
        return client

    async def close(self) -> None:
        """Close the client of the running loop; a later call opens a new one."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


def connect(make: Callable[[], Client], *, model: str, key_name: str, secrets: Iterable[str]) -> PerLoop[Client]:
    """Return the clients of a model; what the client's constructor raises is a `SetupError`."""
    try:
        return PerLoop(make)
    except Exception as error:
        scrub(error, secrets)
        raise SetupError(
            f"{model} cannot be set up", hint=f"pass api_key= or set {key_name}, and check base_url="
        ) from error


def key_for(api_key: str | None, base_url: str | None) -> str | None:
    """Return the key to hand to a client, `None` for the one in the environment.

    The clients send the key of the environment to any address; it was not made for another host.
    """
    return api_key if api_key is not None or base_url is None else "no-key"


def secrets_of(key: object, url: object) -> tuple[str, ...]:
    """Return what must not be shown: the key, and user information and query of the URL."""
    found = [key] if isinstance(key, str) else []
    try:
        parts = urlsplit(str(url or ""))
        found += [parts.password or "", unquote(parts.password or ""), parts.query]
    except ValueError:
        found.append(str(url))
    # Masking very short strings would garble every message and protect nothing.
    return tuple(sorted({secret for secret in found if len(secret) >= 4}, key=len, reverse=True))


def shown_url(url: object) -> str:
    """Return a URL as it may be shown: without user information and query."""
    try:
        parts = urlsplit(str(url))
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(unreadable URL)"
    return f"{parts.scheme}://{host}{port}{parts.path}" if host else "(URL without a host)"


def scrub(error: BaseException, secrets: Iterable[str]) -> None:
    """Mask secrets in the texts of an error and of its causes, because a traceback prints them all."""
    secrets = tuple(secrets)
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.args = tuple(_masked(part, secrets) for part in link.args)
        if isinstance(getattr(link, "message", None), str):
            link.message = _masked(link.message, secrets)  # type: ignore[attr-defined]
        link = link.__cause__ or link.__context__


def _masked(part: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(part, str):
        for secret in secrets:
            part = part.replace(secret, _MASK)
    return part


def failure(
    error: Exception, *, sdk: Any, model: str, url: object, key_name: str, secrets: Iterable[str]
) -> ModelError:
    """Return the `ModelError` for an error of a provider's client.

    The text of the provider is not repeated, because providers quote the prompt in it: the
    status, the provider's own name for the problem and a hint are, and the rest is in `__cause__`.
    """
    secrets = tuple(secrets)
    scrub(error, secrets)
    if isinstance(error, sdk.APITimeoutError):
        return ModelError(
            f"{model} did not answer in time",
            hint="give the model a longer timeout=, or the step a shorter prompt",
        )
    if isinstance(error, sdk.APIStatusError):
        names = _names(error, secrets)
        code = f" ({', '.join(names)})" if names else ""
        return ModelError(
            f"the provider of {model} answered {error.status_code}{code}",
            hint=_hint(error.status_code, names, key_name=key_name, url=url),
        )
    if isinstance(error, sdk.APIConnectionError):
        return ModelError(
            f"the provider of {model} cannot be reached at {shown_url(url)}",
            hint="check base_url= and the network",
        )
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError, sdk.APIError)):
        return ModelError(
            f"the answer of {model} cannot be read ({type(error).__name__})",
            hint=f"check that {shown_url(url)} speaks the API of this client; the cause has the details",
        )
    # Such as a client that finds no key only when it signs the request.
    return ModelError(
        f"the call of {model} failed ({type(error).__name__})",
        hint=f"check the key, api_key= or {key_name}, and base_url=; the cause has the details",
    )


def _names(error: Any, secrets: tuple[str, ...]) -> list[str]:
    """Names that the provider gives the problem, as far as they are plain identifiers."""
    found: list[str] = []
    for attribute in ("code", "type", "param"):
        name = getattr(error, attribute, None)
        if isinstance(name, str) and _IDENTIFIER.fullmatch(name) and name not in found:
            found.append(name)
    return [name for name in found if not any(secret in name for secret in secrets)]


def _hint(status: int, names: list[str], *, key_name: str, url: object) -> str:
    if any("context" in name for name in names) or status == 413:
        return "the prompt is longer than this model reads: hand on less, or take a model with a longer window"
    if status in (401, 403):
        return f"check the key: pass api_key=, or set {key_name} (it is not sent to a base_url= of your own)"
    if status == 404:
        return f"check the name of the model and the base_url, {shown_url(url)}"
    if status == 429:
        return "the limit or the quota of this key is used up: wait, or run fewer steps at once"
    if status >= 500:
        return "the provider has a problem: try again later"
    return "the provider refuses this request: check the schema and the options; the cause has its text"
