"""From a step's signature to what it reads and writes.

Only contracts wire: a parameter of type `Order` is the order that an earlier step returned,
`Order | None` may be absent, `list[Order]` is every order that any branch returned, `Gathered[Order]`
those that came although others failed. `Shared[Basket]` is a value of the session, to read and to
change. A return type
`Order` is one output, `tuple[Order, Stock]` several in one commit, `Order | Refusal` one of them,
`Order | None` maybe one, `None` none.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from statepact.contracts import Contract, is_contract
from statepact.errors import SetupError
from statepact.workflow._context import Context
from statepact.workflow._fan_out import Each, Gathered
from statepact.workflow._shared import Shared, check_shareable

Body = Callable[..., Any]


class Wanted(Enum):
    """How many values of a contract a parameter takes."""

    ONE = "one"
    MAYBE = "maybe"
    ALL = "all"
    SOME = "some"


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter that is filled from the log."""

    parameter: str
    """Its name; empty for what the step needs, but its body does not."""
    contract: type[Contract]
    wanted: Wanted = Wanted.ONE


@dataclass(frozen=True, slots=True)
class EachInput:
    """A parameter that takes one value of a committed list: the step runs once for each."""

    parameter: str
    contract: type[Contract]
    field: str


@dataclass(frozen=True, slots=True)
class SharedInput:
    """A parameter that holds a shared value of the session."""

    parameter: str
    contract: type[Contract]


@dataclass(frozen=True, slots=True)
class Wires:
    """What a signature says."""

    inputs: tuple[Input, ...]
    context: str | None
    """Name of the parameter that takes the `Context`, `None` if there is none."""
    outputs: tuple[type[Contract], ...]
    all_outputs: bool = True
    """True if the step returns every output, False if it returns one of them."""
    maybe_none: bool = False
    """True if the step may return `None` instead."""
    each: EachInput | None = None
    """What the step runs over, `None` if it runs once."""
    some_outputs: bool = False
    """True if the step returns a list of any of the outputs, each as often as it likes."""
    shared: tuple[SharedInput, ...] = ()
    """Shared values of the session that the step reads and changes. They make nobody wait."""


def wires_of(name: str, body: Body, names: Mapping[str, Any]) -> Wires:
    """Return what the signature of a step says.

    `names` are the local names where the step was defined, for annotations that are still text.
    Raises `SetupError`, naming the step, for everything that cannot be a wire.
    """
    if isinstance(body, functools.partial):
        raise SetupError(f"step {name!r} is a functools.partial", hint="write a function that calls it")
    if inspect.isasyncgenfunction(body) or inspect.isgeneratorfunction(body):
        raise SetupError(f"step {name!r} yields", hint="return the output instead; a step has one result")
    hints = _hints(name, body, names)
    if "return" not in hints:
        raise SetupError(
            f"step {name!r} does not say what it returns",
            hint="annotate the return type with a contract; a decorator around it needs functools.wraps",
        )
    inputs: list[Input] = []
    context: str | None = None
    each: EachInput | None = None
    shared: dict[type[Contract], SharedInput] = {}
    for parameter in inspect.signature(body).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise SetupError(f"step {name!r} takes *{parameter.name}, which says nothing about what it reads")
        if parameter.name not in hints:
            raise SetupError(
                f"parameter {parameter.name!r} of step {name!r} has no type", hint="annotate it with a contract"
            )
        hint = hints[parameter.name]
        if hint is Context:
            context = parameter.name
            continue
        if (held := _shared(name, parameter.name, hint)) is not None:
            if held.contract in shared:
                raise SetupError(f"step {name!r} takes Shared[{held.contract.__name__}] twice")
            shared[held.contract] = held
            continue
        if (over := _each(name, parameter.name, hint)) is not None:
            if each is not None:
                raise SetupError(f"step {name!r} runs over two lists", hint="let an earlier step commit the pairs")
            each = over
            continue
        inputs.append(input_of(name, parameter.name, hint))
    if each is not None:
        _need(name, inputs, each)
    _refuse_repeated(name, inputs)
    outputs, all_outputs, maybe_none = _outputs(name, hints["return"])
    return Wires(
        tuple(inputs), context, outputs, all_outputs, maybe_none, each, shared=tuple(shared.values())
    )  # fmt: skip


def _shared(step: str, parameter: str, hint: Any) -> SharedInput | None:
    if hint is not Shared and typing.get_origin(hint) is not Shared:
        return None
    arguments = typing.get_args(hint)
    if not arguments or not is_contract(arguments[0]):
        raise SetupError(f"parameter {parameter!r} of step {step!r} shares no contract", hint="write Shared[Basket]")
    check_shareable(step, arguments[0])
    return SharedInput(parameter, arguments[0])


def _each(step: str, parameter: str, hint: Any) -> EachInput | None:
    mark = next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Each)), None)
    if mark is None:
        return None
    field = mark.contract.model_fields.get(mark.field) if is_contract(mark.contract) else None
    if field is None or typing.get_origin(field.annotation) not in (list, tuple):
        raise SetupError(
            f"parameter {parameter!r} of step {step!r} runs over {mark.field!r}, which is no list of a contract",
            hint='name a field that is a list: Annotated[str, Each(Plan, "queries")]',
        )
    return EachInput(parameter, mark.contract, mark.field)


def _need(step: str, inputs: list[Input], each: EachInput) -> None:
    """Add the contract that holds the list to the inputs, unless the body reads it anyway."""
    declared = next((wire for wire in inputs if wire.contract is each.contract), None)
    if declared is None:
        inputs.append(Input("", each.contract))
    elif declared.wanted is not Wanted.ONE:
        raise SetupError(
            f"step {step!r} runs over {each.contract.__name__}.{each.field}, and reads several of that contract",
            hint=f"read {each.contract.__name__} itself, or let an earlier step bring the lists together",
        )


def _hints(name: str, body: Body, names: Mapping[str, Any]) -> dict[str, Any]:
    target = inspect.unwrap(body)
    try:
        return typing.get_type_hints(target, localns=dict(names), include_extras=True)
    except NameError as error:
        raise SetupError(
            f"step {name!r} has an annotation that names nothing: {error.name}",
            hint="import the type outside `if TYPE_CHECKING`, or define it before the workflow runs",
        ) from None
    except TypeError as error:
        raise SetupError(f"step {name!r} has an annotation that cannot be read: {error}") from None


def input_of(step: str, parameter: str, hint: Any) -> Input:
    """Return the input that a type stands for; raises `SetupError` if it is not a wire."""
    if is_contract(hint):
        return Input(parameter, hint)
    if typing.get_origin(hint) is list and is_contract(element := typing.get_args(hint)[0]):
        return Input(parameter, element, Wanted.ALL)
    if typing.get_origin(hint) is Gathered and is_contract(element := typing.get_args(hint)[0]):
        return Input(parameter, element, Wanted.SOME)
    members, has_none = _union(hint)
    if has_none and len(members) == 1 and is_contract(members[0]):
        return Input(parameter, members[0], Wanted.MAYBE)
    raise SetupError(
        f"parameter {parameter!r} of step {step!r} has type {_shown(hint)}, which is not a wire",
        hint="use a contract, `Contract | None`, `list[Contract]`, `Gathered[Contract]`, or `Context`",
    )


def _outputs(step: str, hint: Any) -> tuple[tuple[type[Contract], ...], bool, bool]:
    if hint is None or hint is type(None):
        return (), True, True
    if is_contract(hint):
        return (hint,), True, False
    if typing.get_origin(hint) is tuple:
        parts = typing.get_args(hint)
        if parts and all(is_contract(part) for part in parts) and len(set(parts)) == len(parts):
            return parts, True, False
    members, has_none = _union(hint)
    if members and all(is_contract(member) for member in members):
        return tuple(members), len(members) == 1, has_none
    raise SetupError(
        f"step {step!r} returns {_shown(hint)}, which is not a wire",
        hint="return a contract, `tuple[A, B]` of different contracts, `A | B`, `A | None`, or None",
    )


def _union(hint: Any) -> tuple[list[Any], bool]:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return [], False
    members = typing.get_args(hint)
    return [member for member in members if member is not type(None)], type(None) in members


def _refuse_repeated(step: str, inputs: list[Input]) -> None:
    seen: dict[type[Contract], str] = {}
    for wire in inputs:
        if wire.contract in seen:
            raise SetupError(
                f"parameters {seen[wire.contract]!r} and {wire.parameter!r} of step {step!r} read the same contract"
                f" {wire.contract.__name__}",
                hint=f"read list[{wire.contract.__name__}], or give each value a contract of its own",
            )
        seen[wire.contract] = wire.parameter


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
