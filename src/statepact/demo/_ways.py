"""The other ways of passing state, as teams write them by hand.

Each way is a function from what has happened so far to the lines that the last step's model is
shown. Everything else is the same for all ways and for the governed one: the system line, the frame,
the form of a fact (one JSON line with the contract's own field names), the question, which stands last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from statepact.contracts import Contract
from statepact.demo._cases import Case
from statepact.demo._team import QUESTION, RECORD_TOKENS, Notes, Record, confirmed_by, looked_up, understood
from statepact.ledger._codec import encode
from statepact.models._base import Message, Prompt, estimate_tokens
from statepact.workflow._render import SYSTEM, neutral

Way = Literal["last", "transcript", "memory", "statepact"]
WAYS: tuple[Way, ...] = ("last", "transcript", "memory", "statepact")

MEMORY_STEPS = 5
MEMORY_INPUT = 200
MEMORY_OUTPUT = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """What one agent did: what it was given, and what it answered."""

    agent: str
    given: str
    answered: str


def history(case: Case, notes: Sequence[Notes], *, complaint: Contract | None, corrected: bool) -> list[Entry]:
    """Return what has happened before the last step, the same for every way.

    `complaint` is what the first step understood, `None` for the truth.
    """
    first = complaint or understood(case)
    entries = [Entry("understand", f"request (from the user): {neutral(case.text)}", _line("understand", first))]
    if corrected:
        said = case.correction.text if case.correction else "The customer confirms the complaint."
        entries.append(Entry("confirm", f"the customer adds: {neutral(said)}", _line("confirm", confirmed_by(case))))
    entries.append(Entry("look_up", "", _line("look_up", looked_up(case))))
    entries += [Entry(group.agent, "", "\n".join(map(neutral, group.lines))) for group in notes]
    return entries


def last(entries: Sequence[Entry]) -> list[str]:
    """Only the previous answer is passed on; agents of other departments are not in the line."""
    chain = [entry for entry in entries if entry.agent in ("understand", "confirm", "look_up")]
    return [chain[-1].answered]


def transcript(entries: Sequence[Entry]) -> list[str]:
    """Everything is pasted, in order."""
    return [line for entry in entries for line in (entry.given, entry.answered) if line]


def memory(entries: Sequence[Entry]) -> list[str]:
    """The last five steps, what they were given cut at 200 characters and what they answered at 300."""
    lines: list[str] = []
    for entry in entries[-MEMORY_STEPS:]:
        lines += [entry.given[:MEMORY_INPUT], entry.answered[:MEMORY_OUTPUT]]
    return [line for line in lines if line]


LINES: dict[Way, Callable[[Sequence[Entry]], list[str]]] = {
    "last": last,
    "transcript": transcript,
    "memory": memory,
}


def prompt_for(case: Case, lines: Sequence[str], *, window: int | None) -> tuple[Prompt, int]:
    """Return the prompt that shows these lines, and how many lines did not fit the model's window.

    What does not fit is dropped from the front, as chat frameworks do.
    """
    kept = list(lines)
    while window is not None and len(kept) > 1 and _size(kept) > window - RECORD_TOKENS:
        kept.pop(0)
    question = f"{QUESTION[case.lang]}\nAnswer with one JSON object with the fields {', '.join(Record.model_fields)}."
    text = "\n".join(["[STATE]", *kept, "[/STATE]", "", question])
    prompt = Prompt(
        messages=(Message(role="system", content=SYSTEM), Message(role="user", content=text)),
        schema=Record.model_json_schema(),
        schema_name="Record",
        max_tokens=RECORD_TOKENS,
    )
    return prompt, len(lines) - len(kept)


def _size(lines: Sequence[str]) -> int:
    # A fifth more than the estimate: identifiers and amounts cost small vocabularies a token a digit.
    return estimate_tokens("\n".join(lines)) * 6 // 5 + 200


def _line(agent: str, value: Contract) -> str:
    return f"{type(value).contract_name} (from {agent}): {neutral(encode(value).decode())}"
