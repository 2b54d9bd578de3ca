"""What a run is asked, when it is asked in words."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from statepact.contracts import Contract, label, validate
from statepact.contracts._clean import clean
from statepact.errors import ContractViolation, TooLarge, Violation

LARGEST_REQUEST = 1_000_000
"""Most characters of a request. Longer texts belong into a field of a contract, where a step can
read what it needs; the request is shown to every step."""


class Request(Contract, version="1.0"):
    """The words a run was started with. A step reads them with a parameter of this type."""

    text: Annotated[str, Field(min_length=1, pattern=r"\S")] | None = None
    """`None` if the run was started without words."""


def request_of(text: str | None) -> Request:
    """Return the request of a text, with half characters and NUL replaced.

    Raises `TooLarge`, and `ContractViolation` for an empty one.
    """
    if text is not None and len(text) > LARGEST_REQUEST:
        raise TooLarge(
            f"the request has {len(text):,} characters, {LARGEST_REQUEST:,} is the most",
            hint="pass long texts in a field of a contract: Workflow(..., takes=YourContract)",
        )
    if text is not None and not text.strip():
        problem = Violation("text", "the request is empty", kind="missing")
        raise ContractViolation(label(Request), [problem], side="the request", hint="ask something, or pass None")
    return validate(Request, {"text": text if text is None else clean(text)}, side="the request")
