"""Several Valkey servers: one primary with two replicas and three Sentinels, or a cluster."""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import redis

from faults._shim import without_it

NAME = "primary"
"""What the Sentinels call the primary."""
DOWN_AFTER = 2_000
"""Milliseconds of silence after which a node counts as gone."""


class Node:
    """One server process, in a network of its own if it is given one."""

    def __init__(self, folder: Path, host: str, port: int, words: Sequence[str], prefix: Sequence[str] = ()) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.host, self.port = host, port
        self._words = words
        self._prefix = prefix
        self.password: str | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        from tests._valkey import _binary

        common = ["--port", str(self.port), "--bind", self.host, "--dir", str(self.folder), "--protected-mode", "no"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._prefix, _binary(), *self._words, *common],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=without_it(),
            )  # fmt: skip

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def client(self) -> Any:
        return redis.Redis(
            host=self.host, port=self.port, password=self.password, socket_timeout=2, socket_connect_timeout=2
        )


def data_node(
    folder: Path,
    host: str,
    port: int,
    prefix: Sequence[str] = (),
    *,
    of: tuple[str, int] | None = None,
    more: Sequence[str] = (),
) -> Node:
    """Return a server without persistence, which isolates what replication does."""
    words = ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", *more]
    if of is not None:
        words += ["--replicaof", f"{of[0]} {of[1]}"]
    return Node(folder, host, port, words, prefix)


def sentinel_node(
    folder: Path,
    host: str,
    port: int,
    primary: tuple[str, int],
    prefix: Sequence[str] = (),
    *,
    password: str | None = None,
) -> Node:
    """Return a Sentinel that watches a primary, and asks for a password if it is given one."""
    folder.mkdir(exist_ok=True)
    file = folder / "sentinel.conf"
    file.write_text(
        f"sentinel monitor {NAME} {primary[0]} {primary[1]} 2\n"
        f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER}\n"
        f"sentinel failover-timeout {NAME} 10000\n" + (f"requirepass {password}\n" if password else "")
    )
    node = Node(folder, host, port, [str(file), "--sentinel"], prefix)
    node.password = password
    return node


@contextlib.contextmanager
def running(nodes: Sequence[Node]) -> Iterator[None]:
    """Run servers for a moment."""
    try:
        for node in nodes:
            node.start()
        yield
    finally:
        for node in nodes:
            node.kill()


def until(condition: Any, seconds: float, what: str) -> None:
    """Wait until something is so. Raises `TimeoutError` saying what was not."""
    give_up = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.RedisError, OSError):
            if condition():
                return
        if time.monotonic() > give_up:
            raise TimeoutError(f"not so after {seconds:g} s: {what}")
        time.sleep(0.1)


def is_ready(primary: Node, sentinels: Sequence[Node], replicas: int) -> bool:
    """Whether all replicas are there, and all Sentinels know them and each other."""
    if primary.client().info("replication")["connected_slaves"] < replicas:
        return False
    for sentinel in sentinels:
        state = _flat(sentinel.client().execute_command("SENTINEL", "MASTER", NAME))
        if int(state["num-slaves"]) < replicas or int(state["num-other-sentinels"]) < len(sentinels) - 1:
            return False
    return True


def primary_by(sentinel: Node) -> tuple[str, int]:
    """Return who is the primary, as a Sentinel says."""
    host, port = sentinel.client().execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
    return host.decode() if isinstance(host, bytes) else host, int(port)


def _flat(answer: Any) -> dict[str, str]:
    if isinstance(answer, dict):
        return {_text(name): _text(value) for name, value in answer.items()}
    words = [_text(word) for word in answer]
    return dict(zip(words[::2], words[1::2], strict=True))


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


def start_cluster(nodes: Sequence[Node]) -> None:
    """Make a cluster of running nodes: the first half are primaries, each of the others follows one."""
    half = len(nodes) // 2
    clients = [node.client() for node in nodes]
    for node in nodes:
        until(lambda node=node: node.client().ping(), 10, "a node of the cluster answers")
    for number, client in enumerate(clients):
        client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
    for client in clients[1:]:
        client.execute_command("CLUSTER MEET", nodes[0].host, nodes[0].port)
    for number in range(half):
        first, last = 16_384 * number // half, 16_384 * (number + 1) // half - 1
        clients[number].execute_command("CLUSTER ADDSLOTSRANGE", first, last)
    ids = [_text(client.execute_command("CLUSTER MYID")) for client in clients]
    for number in range(half, len(nodes)):
        of = ids[number - half]
        until(lambda c=clients[number], of=of: of in str(c.execute_command("CLUSTER NODES")), 20, "nodes have met")
        clients[number].execute_command("CLUSTER REPLICATE", of)
    until(lambda: all("cluster_state:ok" in _said(c) for c in clients), 30, "the cluster is whole")
    replicas = clients[half:]
    until(lambda: all(c.info("replication")["master_link_status"] == "up" for c in replicas), 30, "replicas follow")


def _said(client: Any) -> str:
    answer = client.execute_command("CLUSTER INFO")
    if isinstance(answer, dict):
        return " ".join(f"{_text(name)}:{_text(value)}" for name, value in answer.items())
    return _text(answer)
