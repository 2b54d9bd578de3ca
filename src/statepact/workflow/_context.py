"""What a step's body gets beside its inputs: the request, and a way to ask a model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

from statepact.contracts import Contract
from statepact.errors import ContractViolation, ModelError, SetupError, StatepactError
from statepact.models._base import Message, Model, Prompt, Reply, Usage, estimate_tokens

if TYPE_CHECKING:
    import asyncio

    from statepact.workflow._recalled import Recalled
    from statepact.workflow._step_scope import StepScope

C = TypeVar("C", bound=Contract)

AskFunction = Callable[[Prompt], Awaitable[Reply | str]] | Callable[[Prompt], Reply | str]
"""A function in place of a `Model`: gets the prompt, returns the answer. One that is not async runs in
a thread."""


class Context:
    """The surroundings of one step. A step that has a parameter of this type gets one."""

    def __init__(
        self, scope: StepScope, model: Model | None, loop: asyncio.AbstractEventLoop, *, budget: int | None = None
    ) -> None:
        self._budget = budget
        self._scope = scope
        self._model = model
        self._loop = loop
        self._settled: Mapping[str, Any] = {}
        """What a person has said about effects of steps inside this one, by their names there."""

    @property
    def request(self) -> str:
        """What the run was asked: the words, or the request contract as JSON.

        Its sensitive facts are left out unless the step declares the contract.
        """
        return self._scope.request

    @property
    def owner(self) -> str:
        """Whose run this is."""
        return self._scope.run.log.key.owner

    @property
    def session(self) -> str:
        """The session that the run belongs to."""
        return self._scope.run.log.key.session

    @property
    def run(self) -> str:
        """The run's id."""
        return self._scope.run.run

    @property
    def step(self) -> str:
        """Name of this step."""
        return self._scope.name

    @property
    def idempotency_key(self) -> str:
        """A key that is the same whenever this step is done again on the same inputs, and no other.

        Hand it to the service that you call, if it takes one: it then does the same thing only once.
        """
        return self._scope.digest.hex()

    def because(self, reason: str) -> None:
        """Record why this step decided as it did; stored beside its output."""
        self._scope.extra["reason"] = reason

    async def earlier(self, contract: type[C]) -> list[C]:
        """Return the values of a kind that earlier runs of this session committed, oldest first."""
        return await self._scope.earlier(contract)

    async def recall(self, contract: type[C], request: str | None = None, *, zone: tzinfo = UTC) -> Recalled[C]:
        """Return which value of a kind the request means, among what earlier runs of this owner were about.

        For "the order I asked about yesterday": the contract must have a field marked as `Id`. The
        request (by default the run's) is searched for ids, also their ends ("ending in 890", 尾号890),
        for time words in English and Chinese, and for words such as "the last one". `zone` says when a
        day begins. Several that fit are a question, never a guess; runs of all sessions count but this run.
        """
        from statepact.workflow._recall import recall

        recalled = await recall(self._scope.run, contract, self.request if request is None else request, zone)
        self._scope.note_recalled(contract, recalled)
        return recalled

    async def prompt(self, instruction: str) -> Prompt:
        """Return this step's baton and an instruction as a prompt, to call a model yourself.

        Report what you sent with `sent`, or delivery to this step stays unchecked.
        """
        self._scope.used = False
        return await self._scope.prompt(instruction, budget=self._budget)

    def sent(self, text: str) -> None:
        """Report the text that you sent to a model yourself."""
        self._scope.extra["own_prompt"] = True
        self._scope.sent(text)

    async def ask(
        self,
        contract: type[C],
        instruction: str,
        *,
        model: Model | AskFunction | None = None,
        max_tokens: int | None = None,
        again: int = 1,
    ) -> C:
        """Show the model this step's baton, then the instruction, and return its answer.

        `instruction` is sent as it is: braces in it mean nothing. `model` replaces the run's model
        for this call; `max_tokens` bounds the answer (`None`: the model's default). An answer that
        breaks the contract is asked for again up to `again` times, naming the fields at fault.

        Raises `ContractViolation` if it still does, `ModelError`, and `ContextTooLarge` before any
        call if what the step must see does not fit its budget.
        """
        chosen = as_model(model) or self._model
        if chosen is None:
            raise SetupError(
                f"step {self.step!r} asks a model, but the run has none",
                hint="pass one: workflow.run(..., ask=my_model)",
            )
        prompt = await self._scope.prompt(instruction, contract.model_fields, budget=self._budget)
        prompt = Prompt(
            messages=prompt.messages,
            schema=_schema(contract),
            schema_name=contract.contract_name,
            max_tokens=max_tokens,
        )
        for left in range(again, -1, -1):
            reply = await _reply(chosen, prompt, step=self.step)
            self._scope.replied(reply)
            try:
                return self._read(contract, reply)
            except ContractViolation as violation:
                if not left:
                    raise
                self._scope.extra["asked_again"] = self._scope.extra.get("asked_again", 0) + 1
                prompt = _once_more(prompt, reply, violation)
        raise AssertionError("unreachable")

    def ask_sync(self, contract: type[C], instruction: str, **options: Any) -> C:
        """`ask` for a step that is a plain function; such steps run in a thread of their own."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(self.ask(contract, instruction, **options), self._loop).result()

    def _read(self, contract: type[C], reply: Reply) -> C:
        from statepact.contracts import read_text

        side = f"the model's answer to step {self.step!r}"
        try:
            read = read_text(contract, reply.text, stop_reason=reply.stop_reason)
        except ContractViolation as violation:
            raise violation.by(side) from None
        if read.marks:
            self._scope.extra["repaired"] = sorted({*self._scope.extra.get("repaired", ()), *read.marks})
        return read.value


async def _reply(model: Model, prompt: Prompt, *, step: str) -> Reply:
    try:
        return await model.reply(prompt)
    except StatepactError:
        raise
    except Exception as error:
        raise ModelError(
            f"the model of step {step!r} failed with {type(error).__name__}",
            hint="see __cause__; a timeout or a rate limit may pass: give the step retries",
        ) from error


def _once_more(prompt: Prompt, reply: Reply, violation: ContractViolation) -> Prompt:
    """Return the prompt for a second try: the answer, then what was wrong with it, without values."""
    problems = "; ".join(str(problem) for problem in violation.violations)
    again = Message(role="user", content=f"That answer cannot be used: {problems}. Answer again with one JSON object.")
    return Prompt(
        messages=(*prompt.messages, Message(role="assistant", content=reply.text or "-"), again),
        schema=prompt.schema,
        schema_name=prompt.schema_name,
        max_tokens=prompt.max_tokens,
    )


def _schema(contract: type[Contract]) -> dict[str, Any]:
    found = _SCHEMAS.get(contract)
    if found is None:
        found = _SCHEMAS[contract] = contract.model_json_schema()
    return found


_SCHEMAS: dict[type[Contract], dict[str, Any]] = {}


class FunctionModel:
    """A `Model` made of a plain function. What it was given counts as what was sent."""

    def __init__(self, function: AskFunction) -> None:
        self._function = function

    @property
    def name(self) -> str:
        """Name of the function."""
        return getattr(self._function, "__name__", "function")

    async def reply(self, prompt: Prompt) -> Reply:
        """Call the function."""
        answer = await self._answer(prompt)
        if isinstance(answer, Reply):
            return answer
        return Reply(
            text=answer,
            sent=prompt.text,
            usage=Usage(input_tokens=estimate_tokens(prompt.text), output_tokens=estimate_tokens(answer)),
            model=self.name,
        )

    async def _answer(self, prompt: Prompt) -> Reply | str:
        import asyncio

        if inspect.iscoroutinefunction(self._function):
            answer = await self._function(prompt)
        else:
            answer = await asyncio.to_thread(self._function, prompt)
            if inspect.isawaitable(answer):
                answer = await answer
        if isinstance(answer, Reply | str):
            return answer
        raise ModelError(
            f"the function {self.name!r} answered with {type(answer).__name__}", hint="return text or a Reply"
        )


def as_model(ask: Model | AskFunction | None) -> Model | None:
    """Return a model for what a user passed as `ask`."""
    if ask is None or isinstance(ask, Model):
        return ask
    if callable(ask):
        return FunctionModel(ask)
    raise SetupError(f"ask={type(ask).__name__} is not a model", hint="pass a model of statepact.models, or a function")
