"""The ways to reach a server: a socket, TLS, a user of its own, a numbered database."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _valkey import Server

from faults._ensemble import NAME, Node, data_node, is_ready, running, sentinel_node, until
from faults._failover import free_ports
from statepact.errors import SetupError, StoreTimeout, StoreUnavailable
from statepact.ledger import SessionKey
from statepact.stores import RedisStore, open_store
from statepact.stores._redis_check import UnknownPolicy
from statepact.testing._sentences import add, revision, texts

KEY = SessionKey("local", "s-1")
PASSWORD = "p@ss/word-canary"
QUOTED = "p%40ss%2Fword-canary"
HOST = "127.0.0.1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that can be reached by a socket, too."""
    one = Server(tmp_path, unixsocket=str(tmp_path / "v.sock"))
    one.start()
    try:
        yield one
    finally:
        one.kill()


async def test_socket_is_the_same_server(server: Server, tmp_path: Path) -> None:
    """What was committed over the socket is read over the network."""
    async with open_store(f"unix://{tmp_path / 'v.sock'}") as store:
        await add(store, KEY, "one")
    async with open_store(server.url) as store:
        assert len(await store.headers(KEY)) == 1


async def test_socket_that_is_not_there(tmp_path: Path) -> None:
    """An error that names the place."""
    async with RedisStore(f"unix://{tmp_path / 'none.sock'}", timeout=1) as store:
        with pytest.raises(StoreUnavailable, match=r"none\.sock"):
            await store.headers(KEY)


async def test_databases_of_a_server_are_apart(server: Server) -> None:
    """The number in the URL is the database that is used."""
    async with open_store(f"redis://127.0.0.1:{server.port}/3") as store:
        await add(store, KEY, "one")
    assert server.client().dbsize() == 0
    async with open_store(server.url) as store:
        assert await store.headers(KEY) == []


async def test_user_without_config_is_served_by_info(server: Server) -> None:
    """CONFIG is forbidden on most hosted servers; INFO tells the policy, so there is nothing to warn of."""
    server.client().execute_command("ACL", "SETUSER", "ann", "on", f">{PASSWORD}", "~*", "&*", "+@all", "-config")

    async with RedisStore(f"redis://ann:{QUOTED}@127.0.0.1:{server.port}/0") as store:
        await add(store, KEY, "one")
        assert len(await store.headers(KEY)) == 1
        assert PASSWORD not in repr(store)
        assert QUOTED not in repr(store)


async def test_user_who_may_not_ask_anything_is_warned(server: Server) -> None:
    """Without INFO nobody knows what happens when memory is short."""
    rules = ["on", f">{PASSWORD}", "~*", "&*", "+@all", "-config", "-info"]
    server.client().execute_command("ACL", "SETUSER", "bob", *rules)

    async with RedisStore(f"redis://bob:{QUOTED}@127.0.0.1:{server.port}/0") as store:
        with pytest.warns(UnknownPolicy):
            await add(store, KEY, "one")


async def test_wrong_password_of_a_user_is_not_shown(server: Server) -> None:
    """Neither as it is nor as the URL spells it, in the error and in all that led to it."""
    server.client().execute_command("ACL", "SETUSER", "ann", "on", ">another", "~*", "&*", "+@all")

    async with RedisStore(f"redis://ann:{QUOTED}@127.0.0.1:{server.port}/0") as store:
        with pytest.raises(StoreUnavailable, match="password") as caught:
            await store.headers(KEY)

    error: BaseException | None = caught.value
    shown = "".join(traceback.format_exception(caught.value))
    while error is not None:
        shown += str(error) + repr(error)
        error = error.__cause__ or error.__context__
    assert PASSWORD not in shown
    assert QUOTED not in shown


async def test_tls_is_checked_and_used(server: Server, tmp_path: Path) -> None:
    """A certificate that we trust is served; one that we do not know is refused.

    The server of the wheel is built without TLS, so a relay of ours stands before it and ends TLS there.
    """
    _make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(_pump(reader, their_writer), _pump(their_reader, writer))

    before = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    try:
        url = f"rediss://127.0.0.1:{before.sockets[0].getsockname()[1]}/0"
        async with RedisStore(f"{url}?ssl_ca_certs={tmp_path / 'cert.pem'}") as store:
            await add(store, KEY, "one")
            assert len(await store.headers(KEY)) == 1
        async with RedisStore(url, timeout=2) as store:
            with pytest.raises(StoreUnavailable):
                await store.headers(KEY)
    finally:
        before.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _make_certificate(folder: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


# -- Sentinel ----------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A primary, two replicas, and three Sentinels that ask for a password."""
    a, b, c, *watching = free_ports(6)
    nodes = [data_node(tmp_path / "a", HOST, a)]
    nodes += [data_node(tmp_path / str(port), HOST, port, of=(HOST, a)) for port in (b, c)]
    sentinels = [sentinel_node(tmp_path / str(port), HOST, port, (HOST, a), password=PASSWORD) for port in watching]
    with running([*nodes, *sentinels]):
        until(lambda: is_ready(nodes[0], sentinels, 2), 40, "Sentinel knows everybody")
        yield Watched(watching, nodes[0])


@dataclass
class Watched:
    ports: list[int]
    primary: Node

    def url(self, *, password: str = QUOTED) -> str:
        places = ",".join(f"{HOST}:{port}" for port in self.ports)
        return f"redis+sentinel://{places}/{NAME}?timeout=2&wait=1&sentinel_password={password}"


async def test_commits_go_on_at_the_new_primary(watched: Watched) -> None:
    """Sentinels with a password say who the primary is, and after its death who is it now; nothing is lost."""
    async with open_store(watched.url()) as store:
        await add(store, KEY, "one")
        watched.primary.kill()
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(StoreUnavailable, StoreTimeout):
                    if await revision(store, KEY) == 1:
                        await add(store, KEY, "two")
                    break
        assert await texts(store, KEY) == ["one", "two"]


async def test_wrong_password_of_sentinels_is_not_shown(watched: Watched) -> None:
    """The error names the place and no secret."""
    async with open_store(watched.url(password="wrong-canary")) as store:
        with pytest.raises(StoreUnavailable) as caught:
            await store.headers(KEY)
    assert "canary" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("scheme", ["redis+sentinel", "redis+cluster"])
def test_options_of_tls_need_tls(scheme: str) -> None:
    """An option that would do nothing is refused, and so is one that nobody knows."""
    for option in ("ssl_ca_certs=ca.pem", "colour=red"):
        with pytest.raises(SetupError, match=option.partition("=")[0]):
            RedisStore(f"{scheme}://h:1/mymaster?{option}")
    RedisStore(f"{scheme.replace('redis', 'rediss')}://h:1/mymaster?ssl_ca_certs=ca.pem")


@pytest.mark.parametrize("option", ["colour=red-canary", "sentinel_password=red-canary", "ssl_ca_certs=red-canary"])
async def test_option_that_one_server_does_not_have_is_refused(option: str) -> None:
    """A clear error at first use, without what was given."""
    async with RedisStore(f"redis://h:1/0?{option}") as store:
        with pytest.raises(SetupError, match="option") as caught:
            await store.headers(KEY)
    assert "canary" not in "".join(traceback.format_exception(caught.value))
