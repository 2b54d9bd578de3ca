"""The comparison: the same cases, the same model, the same question, several ways of passing state."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from statepact.contracts import Contract, read_text
from statepact.demo._cases import Case
from statepact.demo._notes import notes_for
from statepact.demo._team import Complaint, CorrectedRecord, Notes, Record, departments, holds, team
from statepact.demo._ways import LINES, WAYS, Way, history, prompt_for
from statepact.errors import ContractViolation, StatepactError
from statepact.loss import LossReport
from statepact.models import OnceModel
from statepact.models._base import Model, Prompt, Reply
from statepact.models._calls import prompt_digest
from statepact.workflow._run import Run

Control = Literal["transcript without notes"]
BY_HAND: Sequence[Way] = ("transcript", "last", "memory")
"""The transcript first: it begins like the governed prompt, and a model with a prompt cache reads that
part once. So the transcript's seconds are the most favourable ones."""

CONTROL: Control = "transcript without notes"
"""Asked beside the ways: if a model loses facts even with everything before it and nothing else, its
losses are not losses of state, and the run does not count."""

ENOUGH = 0.95
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One case under one way."""

    case: str
    needed: int
    kept: int = 0
    lost: int = 0
    replaced: int = 0
    unreadable: bool = False
    """The answer was cut by the token limit or is no record: it says nothing about the state."""
    dropped_lines: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    problem: str = ""
    """Code of the error, empty for none."""


@dataclass(slots=True)
class Tally:
    """All answers of one way."""

    answers: list[Answer] = field(default_factory=list)

    @property
    def readable(self) -> list[Answer]:
        """The answers that say something about the state."""
        return [answer for answer in self.answers if not answer.unreadable]

    @property
    def rate(self) -> float | None:
        """Lost share of the facts in readable answers; `None` if there are none."""
        needed = sum(answer.needed for answer in self.readable)
        return sum(answer.lost for answer in self.readable) / needed if needed else None

    def interval(self, seed: int) -> tuple[float, float] | None:
        """Return the 95 % interval of the rate by resampling cases (percentile bootstrap)."""
        answers = self.readable
        if not answers:
            return None
        rng = random.Random(seed)
        rates = []
        for _ in range(RESAMPLES):
            drawn = rng.choices(answers, k=len(answers))
            rates.append(sum(a.lost for a in drawn) / sum(a.needed for a in drawn))
        rates.sort()
        return rates[int(0.025 * RESAMPLES)], rates[int(0.975 * RESAMPLES)]

    def as_dict(self, seed: int) -> dict[str, Any]:
        """Return the figures of this way."""
        interval = self.interval(seed)
        return {
            "needed": sum(a.needed for a in self.answers),
            "kept": sum(a.kept for a in self.answers),
            "lost": sum(a.lost for a in self.answers),
            "replaced": sum(a.replaced for a in self.answers),
            "unreadable": sum(a.needed for a in self.answers if a.unreadable),
            "rate": self.rate,
            "interval": list(interval) if interval else None,
            "input_tokens": sum(a.input_tokens for a in self.answers),
            "output_tokens": sum(a.output_tokens for a in self.answers),
            "seconds": round(sum(a.seconds for a in self.answers), 2),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is compared."""

    cases: Sequence[Case]
    pool: Sequence[Case]
    """All cases that notes may be about."""
    notes: int = 16
    seed: int = 0
    long: bool = False
    """Corrections, notes about the same customer's other order, more text than the window."""
    window: int | None = None
    """The model's window in tokens; what does not fit is dropped from the front. `None` for no bound."""
    ask_to_understand: bool = False


class Comparison:
    """Runs the cases and keeps the score. `tallies` fills while `run` goes on."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.settings = settings
        self.model = model
        self._once = TimedModel(OnceModel(model))
        self.tallies: dict[str, Tally] = {way: Tally() for way in WAYS}
        self.control = Tally()
        self.loss: LossReport | None = None
        """Loss of the governed run of the first case."""
        self.shown_case: Case | None = None
        """The case that `loss` belongs to."""

    async def run(self) -> AsyncIterator[tuple[str, Answer]]:
        """Ask every case under every way; yields each answer as it comes."""
        for case in self.settings.cases:
            notes = departments(self._notes(case))
            governed, complaint = await self._governed(case, notes)
            yield self._add(self.tallies["statepact"], "statepact", governed)
            for way in BY_HAND:
                yield self._add(self.tallies[way], way, await self._by_hand(way, case, notes, complaint))
            bare = await self._by_hand("transcript", case, [], complaint)
            yield self._add(self.control, CONTROL, bare)

    @property
    def counts(self) -> bool | None:
        """Whether the model keeps 95 % of the facts when it has them all and no notes; `None` if unknown."""
        tallies = (self.control, self.tallies["statepact"]) if not self.settings.notes else (self.control,)
        rates = [tally.rate for tally in tallies]
        if any(rate is None for rate in rates):
            return None
        return all(1 - rate >= ENOUGH for rate in rates if rate is not None)

    def _notes(self, case: Case) -> Sequence[Any]:
        settings = self.settings
        return notes_for(case, count=settings.notes, seed=settings.seed, pool=settings.pool, hard=settings.long)

    def _add(self, tally: Tally, way: str, answer: Answer) -> tuple[str, Answer]:
        tally.answers.append(answer)
        return way, answer

    async def _governed(self, case: Case, notes: Sequence[Notes]) -> tuple[Answer, Contract | None]:
        settings = self.settings
        workflow = team(case, notes, ask_to_understand=settings.ask_to_understand, corrected=settings.long)
        self._once.start()
        run = await workflow.run(case.text, ask=self._once)
        record: Contract | None = run.get(CorrectedRecord if settings.long else Record)
        if self.loss is None:
            self.loss, self.shown_case = run.loss, case
        truth = self._truth(case)
        if record is None:
            return self._no_record(run, case, len(truth)), run.get(Complaint)
        return self._score(case, truth, record), run.get(Complaint)

    def _no_record(self, run: Run, case: Case, needed: int) -> Answer:
        problem = run.problem
        if not isinstance(problem, ContractViolation):
            raise problem or StatepactError("the governed run gave no record and no problem")
        return self._answer(case, needed, unreadable=True, problem=problem.code)

    async def _by_hand(self, way: Way, case: Case, notes: Sequence[Notes], complaint: Contract | None) -> Answer:
        settings = self.settings
        entries = history(case, notes, complaint=complaint, corrected=settings.long)
        prompt, dropped = prompt_for(case, LINES[way](entries), window=settings.window)
        self._once.start()
        reply = await self._once.reply(prompt)
        truth = self._truth(case)
        try:
            record = read_text(Record, reply.text, stop_reason=reply.stop_reason).value
        except ContractViolation as violation:
            return self._answer(case, len(truth), unreadable=True, problem=violation.code)
        return self._score(case, truth, record, dropped)

    def _truth(self, case: Case) -> Mapping[str, str]:
        return (case.corrected() if self.settings.long else case).truth

    def _score(self, case: Case, truth: Mapping[str, str], record: Contract, dropped: int = 0) -> Answer:
        said = {name: str(getattr(record, name)) for name in truth}
        wrong = [name for name, value in truth.items() if not holds(value, said[name])]
        return self._answer(
            case,
            len(truth),
            kept=len(truth) - len(wrong),
            lost=len(wrong),
            replaced=sum(bool(said[name].strip()) for name in wrong),
            dropped_lines=dropped,
        )

    def _answer(self, case: Case, needed: int, **figures: Any) -> Answer:
        meter = self._once
        return Answer(
            case=case.id,
            needed=needed,
            input_tokens=meter.input_tokens,
            output_tokens=meter.output_tokens,
            seconds=meter.seconds,
            **figures,
        )


class TimedModel:
    """Adds up what the calls since `start` cost; a reused answer costs what it cost the first time."""

    def __init__(self, model: OnceModel) -> None:
        self._model = model
        self._first: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        """Begin a new sum."""
        self.input_tokens = self.output_tokens = 0
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """Name of the model that is asked."""
        return self._model.name

    async def reply(self, prompt: Prompt) -> Reply:
        """Ask the model."""
        began = time.perf_counter()
        reused = self._model.reused
        reply = await self._model.reply(prompt)
        key = prompt_digest(prompt)
        if self._model.reused == reused:
            self._first[key] = time.perf_counter() - began
        self.seconds += self._first.get(key, 0.0)
        self.input_tokens += reply.usage.input_tokens
        self.output_tokens += reply.usage.output_tokens
        return reply
