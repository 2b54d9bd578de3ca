"""What the body of a step returns or raises, as outputs or a problem of ours."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from statepact.contracts import Contract, label, validate
from statepact.contracts._check import violation
from statepact.contracts._fields import hidden_names, model_named
from statepact.errors import ContractViolation, StatepactError, StepFailed, Violation
from statepact.workflow._step import Step


def outputs_of(step: Step, output: Any) -> Sequence[Contract]:
    """Return what a body returned as the values to commit. Raises `ContractViolation`."""
    wires = step.wires
    side = f"step {step.name!r} returned an output that"
    if wires.some_outputs and isinstance(output, list):
        return output
    if output is None and (wires.maybe_none or not wires.outputs):
        return ()
    if wires.all_outputs and len(wires.outputs) > 1:
        if isinstance(output, tuple) and len(output) == len(wires.outputs):
            return [_output(contract, value, side) for contract, value in zip(wires.outputs, output, strict=True)]
    elif len(wires.outputs) == 1:
        return [_output(wires.outputs[0], output, side)]
    elif type(output) in wires.outputs:
        return [output]
    wanted = " or ".join(contract.__name__ for contract in wires.outputs) or "None"
    if wires.all_outputs and len(wires.outputs) > 1:
        wanted = f"tuple[{', '.join(contract.__name__ for contract in wires.outputs)}]"
    problem = Violation("", f"Output should be {wanted}", found=type(output).__name__, kind="output_type")
    raise ContractViolation(wanted, [problem], side=side)


def _output(contract: type[Contract], value: Any, side: str) -> Contract:
    if type(value) is contract:
        return value
    if isinstance(value, Mapping):
        return validate(contract, value, side=side)
    problem = Violation("", f"Output should be {contract.__name__}", found=type(value).__name__, kind="output_type")
    raise ContractViolation(label(contract), [problem], side=side)


def as_problem(step: Step, error: Exception) -> StatepactError:
    """Return the error of a body as one of ours. Values that an exception's text may hold stay out."""
    from pydantic import ValidationError

    if isinstance(error, StatepactError):
        return error
    if isinstance(error, ValidationError):
        built = next((one for one in step.wires.outputs if one.__name__ == error.title), None)
        model = built or model_named(error.title)
        problem = violation(model or error.title, error, side=f"step {step.name!r} built a value that")
        if model is not None and hidden_names(model):
            # Pydantic's error quotes the value; what it says without it is in ours.
            problem.__traceback__ = error.__traceback__
            problem.__suppress_context__ = True
        else:
            problem.__cause__ = error
        return problem
    frame = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    where = f" at {PurePath(frame.filename).name}:{frame.lineno}" if frame else ""
    failed = StepFailed(
        f"step {step.name!r} failed with {type(error).__name__}{where}",
        hint="see __cause__ for the error itself",
    )
    failed.__cause__ = error
    return failed
