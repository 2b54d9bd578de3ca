"""Whatever is done with sessions, one after the other: what is erased is nowhere, and every log verifies."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from statepact import (
    Contract,
    MemoryStore,
    Request,
    Sensitive,
    Workflow,
    check_proof,
    diff,
    erase,
    export_session,
    fork,
    import_session,
    prove,
    verify,
)
from statepact.errors import Deleted, ImportRefused, SetupError, UnknownFact
from statepact.ledger import SessionKey

OWNER = "acme"
KEY = b"a key that is kept elsewhere"


class Order(Contract, version="1.0"):
    order_id: str
    status: str


class Note(Contract, version="1.0"):
    text: str
    phone: Sensitive[str]


def shop(store: MemoryStore, log_key: bytes | None) -> Workflow:
    made = Workflow("shop", store=store, log_key=log_key, results=[Note])

    @made.step
    def look_up(request: Request) -> Order:
        return Order(order_id=request.text, status="open" * 1500)

    @made.step
    def write(order: Order) -> Note:
        return Note(text=f"about {order.order_id}", phone="+49 431 5551234")

    return made


class World:
    """Sessions, and what must be nowhere any more."""

    def __init__(self, log_key: bytes | None, folder: Path) -> None:
        self.store = MemoryStore()
        self.log_key = log_key
        self.folder = folder
        self.shop = shop(self.store, log_key)
        self.sessions: list[str] = []
        self.heads: dict[str, list[str]] = {}
        self.gone: set[str] = set()
        self.count = 0

    def new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"

    async def step(self, what: str, which: int, part: float) -> None:
        """Do one thing, with a session and a revision that are chosen by two numbers."""
        if what == "run" or not self.sessions:
            session = self.sessions[which % len(self.sessions)] if self.sessions and which % 3 else self.new("session")
            word = f"canary {self.new('word')} canary"
            await self.shop.run(word, owner=OWNER, session=session, id=self.new("run"))
            self.sessions = list(dict.fromkeys([*self.sessions, session]))
            return
        session = self.sessions[which % len(self.sessions)]
        size = (await self.store.headers(SessionKey(OWNER, session)))[-1].revision
        at = max(1, round(size * part))
        if what == "fork":
            new = self.new("fork")
            await fork(self.store, session, new, owner=OWNER, at=at, log_key=self.log_key)
            self.sessions.append(new)
        elif what == "move":
            new = self.new("copy")
            path = self.folder / new
            await export_session(self.store, session, path, owner=OWNER, at=at, clear=bool(which % 2))
            try:
                await import_session(self.store, path, owner=OWNER, name=new, log_key=self.log_key)
                self.sessions.append(new)
            except ImportRefused:
                raise AssertionError("nothing has happened since the export") from None
        elif what == "erase":
            words = await words_of(self.store, session)
            fact = ("Request", "Order.order_id", None)[which % 3]
            with suppress(SetupError):  # a session that has forked before the first order has none
                await erase(
                    self.store, owner=OWNER, session=session, fact=fact, by="dpo", reason="x", forks=True,
                    log_key=self.log_key,
                )  # fmt: skip
            if fact != "Order.order_id":
                self.gone |= words

    async def check(self) -> None:
        """See that all is well."""
        for session in self.sessions:
            key = SessionKey(OWNER, session)
            verdict = await verify(self.store, key, log_key=self.log_key)
            assert verdict.ok, verdict
            for head in self.heads.get(session, ()):
                assert (await verify(self.store, key, log_key=self.log_key, anchor=head)).ok
            self.heads.setdefault(session, []).append(verdict.anchor)
            assert not self.gone & await words_of(self.store, session)
            await diff(self.store, session, 0, owner=OWNER)
            for fact in ("Order.status", "Request.text"):
                try:
                    proof = await prove(self.store, session, fact, owner=OWNER)
                    check_proof(proof, head=verdict.anchor)
                except (UnknownFact, Deleted):
                    pass


async def words_of(store: MemoryStore, session: str) -> set[str]:
    """Return the words of requests that stand anywhere in what a session stores."""
    key = SessionKey(OWNER, session)
    payloads = (await store.payloads(key, range(1, 500))).values()
    return set(re.findall(r"canary word-\d+ canary", b"\n".join(payloads).decode(errors="replace")))


STEPS = st.lists(
    st.tuples(st.sampled_from(["run", "run", "fork", "fork", "move", "erase"]), st.integers(0, 50), st.floats(0, 1)),
    min_size=3,
    max_size=9,
)


@settings(max_examples=40)
@given(STEPS, st.sampled_from([None, KEY]))
def test_erased_is_erased_in_every_copy(steps: list[tuple[str, int, float]], log_key: bytes | None) -> None:
    """Runs, forks, moves and erasures in any order, with every head that was ever seen."""

    async def happens(folder: Path) -> None:
        world = World(log_key, folder)
        for what, which, part in steps:
            await world.step(what, which, part)
            await world.check()

    with TemporaryDirectory() as folder:
        asyncio.run(happens(Path(folder)))
