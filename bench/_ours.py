"""Our whole governed step, by the public interface.

What a timed step does: read its input from the snapshot, render the prompt, hand it to a model that
answers at once, look for every fact in what was sent, check the output, encode, hash and commit it.
The output is there beforehand, as an agent's own work is nobody's cost here; only `ask` reads it
from the model's text.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import orjson

from bench._payload import Record
from bench._timing import Laps
from statepact import Context, SqliteStore, Store, Workflow, open_session
from statepact.models import Prompt

INSTRUCTION = "Continue the case with what is known."
Chains = Sequence[Sequence[dict[str, Any]]]
Durability = Literal["power", "process"]


async def instant(prompt: Prompt) -> str:
    """Return what a model was sent; answering takes it no time."""
    return prompt.text


class Ours:
    """One store, one event loop, and a new owner for each round, so that no large value is stored already."""

    def __init__(self, store: Store | Path, *, durability: Durability = "process") -> None:
        self.store = SqliteStore(store, durability=durability) if isinstance(store, Path) else store
        self._loop = asyncio.Runner()
        self._owners = 0
        self.supply: dict[str, Sequence[Any]] = {}
        """What each session's steps return."""

    def owner(self) -> str:
        self._owners += 1
        return f"owner-{self._owners}"

    def run(self, work: Awaitable[float]) -> float:
        async def wait() -> float:
            return await work

        return self._loop.run(wait())

    def close(self) -> None:
        self._loop.run(self.store.aclose())
        self._loop.close()

    # -- steps of an open session ----------------------------------------------------------------

    async def steps(
        self, contracts: Sequence[type[Record]], chains: Chains, *, cold: bool = False, lease: float | None = None
    ) -> float:
        """Return the seconds of one chain of steps in open sessions.

        Warm: the session itself wrote the input a moment ago. Cold: two handles on the session take
        turns, so each input was written by the other one and comes from SQLite. With `lease` the
        session is held, so that no step has to look for others first.
        """
        laps, owner = Laps(), self.owner()
        for number, fields in enumerate(chains):
            outputs = [contract(**f) for contract, f in zip(contracts, fields, strict=True)]
            name = f"s{number}"
            async with AsyncExitStack() as stack:
                handles = [
                    await stack.enter_async_context(
                        open_session(name, owner=owner, store=self.store, run="r", lease=lease)
                    )
                    for _ in range(2 if cold else 1)
                ]
                with laps:
                    for at, output in enumerate(outputs):
                        await step(handles[at % len(handles)], f"step{at}", contracts[max(at - 1, 0) : at], output)
        return laps.typical

    async def at_once(self, contracts: Sequence[type[Record]], chains: Chains, sessions: int) -> float:
        """Return the seconds of a step when so many sessions run side by side."""
        owner = self.owner()
        waiting = [[contract(**f) for contract, f in zip(contracts, fields, strict=True)] for fields in chains]

        async def one() -> None:
            while waiting:
                outputs = waiting.pop()
                async with open_session(f"s{len(waiting)}", owner=owner, store=self.store) as session:
                    for at, output in enumerate(outputs):
                        await step(session, f"step{at}", contracts[max(at - 1, 0) : at], output)

        with Laps() as laps:
            await asyncio.gather(*(one() for _ in range(sessions)))
        return laps.typical / sum(map(len, chains))

    # -- workflows -------------------------------------------------------------------------------

    async def runs(
        self, workflow: Workflow, contracts: Sequence[type[Record]], chains: Chains, *, asked: bool = False
    ) -> float:
        """Return the seconds of one run, its opening, request and seal included."""
        laps, owner = Laps(), self.owner()
        for number, fields in enumerate(chains):
            session = f"{owner}/{number}"
            self.supply[session] = [contract(**f) for contract, f in zip(contracts, fields, strict=True)]
            ask = Answers(fields) if asked else None
            with laps:
                run = await workflow.run("Go on.", ask=ask, owner=owner, session=session, store=self.store)
            assert run.ok, run.problem
            del self.supply[session]
        return laps.typical

    def chain(self, contracts: Sequence[type[Record]], *, ask: bool = False) -> Workflow:
        """Return a workflow in which each step reads the one before."""
        workflow = Workflow("chain")
        for at in range(len(contracts)):
            self._link(workflow, at, contracts[max(at - 1, 0) : at], contracts[at], ask=ask)
        return workflow

    def fan_out(self, contracts: Sequence[type[Record]]) -> Workflow:
        """Return a workflow whose first step feeds all between, which feed the last."""
        workflow = Workflow("fan-out")
        last = len(contracts) - 1
        for at, contract in enumerate(contracts):
            reads = contracts[1:last] if at == last else contracts[: min(at, 1)]
            self._link(workflow, at, reads, contract)
        return workflow

    def _link(
        self, workflow: Workflow, at: int, reads: Sequence[type[Record]], writes: type[Record], *, ask: bool = False
    ) -> None:
        async def body(ctx: Context, **_: Record) -> Record:
            if ask:
                return await ctx.ask(writes, INSTRUCTION)
            prompt = await ctx.prompt(INSTRUCTION)
            ctx.sent(await instant(prompt))
            supplied: Record = self.supply[ctx.session][at]
            return supplied

        # As if it were written out: async def body(ctx: Context, read0: Record0) -> Record1
        wires = {"ctx": Context, **{f"read{n}": contract for n, contract in enumerate(reads)}}
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        body.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in wires])  # type: ignore[attr-defined]
        body.__annotations__ = {**wires, "return": writes}
        workflow.step(name=f"step{at}")(body)


class Answers:
    """A model that has the text of each answer ready."""

    def __init__(self, fields: Sequence[dict[str, Any]]) -> None:
        self._texts = [orjson.dumps(f).decode() for f in reversed(fields)]

    async def __call__(self, prompt: Prompt) -> str:
        return self._texts.pop()


async def step(session: Any, name: str, reads: Sequence[type[Any]], output: Any, *, branch: str = "") -> None:
    """Do one step of a session: show what it reads to the model, commit its output."""
    async with session.step(name, reads=reads, branch=branch) as opened:
        prompt = await opened.prompt(INSTRUCTION)
        for contract in reads:
            opened[contract]
        opened.sent(await instant(prompt))
        await opened.commit(output)
