"""FC-83: state that builds objects when loaded."""

from __future__ import annotations

import base64
import pickle
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from statepact import Contract, Store, Workflow, open_session
from statepact.errors import CorruptState
from statepact.stores._base import NewEntry

Reopen = Callable[[], Awaitable[Store]]


class Payload(Contract):
    data: dict[str, Any]
    text: str = ""


class Trap:
    """An object whose unpickling would leave a trace."""

    built = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _sprung, ()


def _sprung() -> None:
    Trap.built += 1


HOSTILE: list[dict[str, Any]] = [
    {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
    {"__class__": "subprocess.Popen"},
    {"py/object": "subprocess.Popen"},
    {"py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["true"]}]},
    {"__reduce__": ["os.system", ["true"]]},
    {"!!python/object/apply": "os.system"},
    {"$decimal": "os.system('true')"},
    {"$datetime": "never"},
    {"$dict": {"$dict": {"$set": [1]}}},
    {"$set": [[1], {"a": 1}]},
    {"$object": "subprocess.Popen"},
    {"@type": "statepact.Contract", "version": "1.0"},
    {"pickle": base64.b64encode(pickle.dumps({"a": 1})).decode()},
    {"__proto__": {"admin": True}, "constructor": {"prototype": {}}},
]


@pytest.mark.parametrize("half", ["", " \ud800"], ids=["alone", "beside half an emoji"])
@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: next(iter(data)))
async def test_fc_83_what_a_user_writes_comes_back_as_plain_data(
    stores: Reopen, data: dict[str, Any], half: str
) -> None:
    """The same dictionary, of the same plain types, in another process; a bad character changes no format."""
    modules = set(sys.modules)
    async with open_session("s-1", store=await stores(), run="r-1") as session, session.step("put") as step:
        await step.commit(Payload(data={"user": data}, text=f"x{half}"))

    async with open_session("s-1", store=await stores(), run="r-1") as session:
        read = await session.get(Payload)

    assert read is not None
    assert read.data == {"user": data}
    assert plain(read.data)
    assert read.text == ("x" if not half else "x \ufffd")
    assert not {"subprocess"} & (set(sys.modules) - modules)


def plain(value: Any) -> bool:
    if isinstance(value, dict):
        return type(value) is dict and all(type(key) is str and plain(item) for key, item in value.items())
    if isinstance(value, list):
        return type(value) is list and all(map(plain, value))
    return type(value) in (str, int, float, bool, type(None))


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: next(iter(data)))
async def test_fc_83_between_two_steps_too(store: Store, data: dict[str, Any]) -> None:
    """What the next step gets as its argument is the same plain data."""
    workflow = Workflow("data")
    seen: list[dict[str, Any]] = []

    class Done(Contract):
        ok: bool

    @workflow.step
    async def put() -> Payload:
        return Payload(data=data)

    @workflow.step
    async def get(payload: Payload) -> Done:
        seen.append(payload.data)
        return Done(ok=True)

    run = await workflow.run("go", store=store)

    assert run.ok, run.problem
    assert seen == [data]
    assert plain(seen[0])


@pytest.mark.parametrize(
    "blob",
    [pickle.dumps(Trap()), b"\x80\x04N.", b"cos\nsystem\n(S'true'\ntR.", b'{"data":{"a":1},"text":"x"'],
    ids=["pickle of a trap", "pickle", "old pickle", "half JSON"],
)
async def test_fc_83_a_blob_in_the_store_is_refused_and_never_loaded(stores: Reopen, blob: bytes) -> None:
    """Somebody put other bytes in place of a value: a named error, nothing is built, no other format is tried."""
    store = await stores()
    value = Payload(data={}, text="x" * 200)
    async with open_session("s-1", store=store, run="r-1") as session, session.step("put") as step:
        await step.commit(value)

    copy = Copied(store, blob)
    built = Trap.built
    with pytest.raises(CorruptState):
        async with open_session("s-1", store=copy, run="r-1") as session:  # type: ignore[arg-type]
            await session.get(Payload)

    assert Trap.built == built


class Copied:
    """A store whose long values were replaced by the same number of other bytes."""

    def __init__(self, store: Store, blob: bytes) -> None:
        self._store, self._blob = store, blob
        self.promise = "none"

    async def append(self, key: Any, entries: list[NewEntry], *, after: int, hold: object = None) -> None:
        await self._store.append(key, entries, after=after)

    async def hold(self, key: Any, hold: object) -> None:
        pass

    async def headers(self, key: Any, *, after: int = 0) -> Any:
        return await self._store.headers(key, after=after)

    async def payloads(self, key: Any, revisions: Any) -> Any:
        found = await self._store.payloads(key, revisions)
        return {
            revision: data if len(data) < 200 else self._blob.ljust(len(data), b" ")[: len(data)]
            for revision, data in found.items()
        }

    async def blocks(self, key: Any, addresses: Any) -> Any:
        return await self._store.blocks(key, addresses)

    async def sessions(self, owner: str) -> Any:
        return await self._store.sessions(owner)

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Copied:
        return self

    async def __aexit__(self, *error: object) -> None: ...
