"""A provider in this process: a real HTTP server that answers what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Provider:
    """Answers requests in order, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._answers: list[tuple[int, bytes, int | None]] = []
        self._silent = threading.Event()
        self.asked = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                provider._serve(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: the output of a test is its result."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, body: Any, *, status: int = 200, length: int | None = None) -> None:
        """Answer the next request; `length` is what the header claims, the real one by default."""
        self._answers.append((status, body if isinstance(body, bytes) else json.dumps(body).encode(), length))

    def stay_silent(self) -> None:
        """Leave the next request without an answer until the test is over."""
        self._answers.append((0, b"", None))

    def close(self) -> None:
        self._silent.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append(json.loads(handler.rfile.read(int(handler.headers["content-length"]))))
        self.headers.append({name.lower(): value for name, value in handler.headers.items()})
        self.asked.set()
        status, body, length = self._answers.pop(0)
        if not status:
            self._silent.wait()
            handler.close_connection = True
            return
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)
        handler.close_connection = length is not None


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


@pytest.fixture(autouse=True)
def _no_keys_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have keys and proxies set; no test shall see them."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
