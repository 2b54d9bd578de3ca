"""What a run gives back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from statepact.contracts import Contract
from statepact.errors import MissingInput, StatepactError, StoreError
from statepact.ledger import Cell
from statepact.ledger._shared import shared_value
from statepact.ledger._vault import at_rest
from statepact.models._base import Usage
from statepact.workflow._at_once import read_now
from statepact.workflow._outcome import StepOutcome
from statepact.workflow._run_scope import RunScope, value_of

if TYPE_CHECKING:
    from statepact.loss import LossReport

C = TypeVar("C", bound=Contract)


class Run:
    """A run that has ended, well or not: its outputs, its problem, and what was lost on the way.

    ```python
    run = await workflow.run("The blade broke.", ask=my_model)
    if run.ok:
        print(run[Reply].text)
    print(run.loss)
    ```
    """

    def __init__(self, scope: RunScope, steps: Mapping[str, StepOutcome], status: Literal["done", "failed"]) -> None:
        self._scope = scope
        self._loss: LossReport | None = None
        self.steps = dict(steps)
        """How each step ended, by name."""
        self.status = status
        """`done`, or `failed` if a step failed or could not run."""

    @property
    def id(self) -> str:
        """The run's id: what `resume` takes."""
        return self._scope.run

    @property
    def session(self) -> str:
        """Name of the session that the run belongs to."""
        return self._scope.log.key.session

    @property
    def owner(self) -> str:
        """Whose run it is."""
        return self._scope.log.key.owner

    @property
    def at_rest(self) -> str:
        """Whether sensitive values are encrypted where they are stored, in a few words."""
        return at_rest(self._scope.log.keys)

    @property
    def ok(self) -> bool:
        """Whether every step that had to run has committed its output."""
        return self.status == "done"

    @property
    def problem(self) -> StatepactError | None:
        """What went wrong first, `None` if nothing did. Steps that only waited for it come second."""
        failed = [step.problem for step in self.steps.values() if step.ending == "failed"]
        blocked = [step.problem for step in self.steps.values() if step.ending == "blocked"]
        return next(iter(failed + blocked), None)

    @property
    def degraded(self) -> tuple[str, ...]:
        """Steps whose fallback was committed instead of their own output."""
        return tuple(name for name, step in self.steps.items() if step.ending == "degraded")

    @property
    def partial(self) -> Mapping[str, str]:
        """Steps that went on although something they gathered had not come: `{"choose": "3 of 5 Offer"}`."""
        return {
            name: ", ".join(f"{came} of {of} {contract}" for contract, (came, of) in short.items())
            for name, step in self.steps.items()
            if (short := {contract: pair for contract, pair in step.gathered.items() if pair[0] < pair[1]})
        }

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls of this execution (not of stored steps)."""
        return self._scope.usage

    def __getitem__(self, contract: type[C]) -> C:
        """Return the newest output of a kind. Raises `MissingInput` if there is none."""
        value = self.get(contract)
        if value is None:
            raise MissingInput(
                f"run {self.id!r} has no {contract.__name__}",
                hint="run.problem says why" if self.problem else "no step that ran returns it",
            ) from self.problem
        return value

    def get(self, contract: type[C]) -> C | None:
        """Return the newest output of a kind, `None` if there is none."""
        cells = self._scope.snapshot().cells(contract.contract_name)[-1:]
        return self._values(contract, cells)[0] if cells else None

    def all(self, contract: type[C]) -> list[C]:
        """Return all outputs of a kind, in the order of their commits."""
        return self._values(contract, self._scope.snapshot().cells(contract.contract_name))

    def shared(self, contract: type[C], *, at: int | None = None) -> C | None:
        """Return a shared value of the session as this run left it, or as it stood at revision `at`.

        `None` before its first change. Raises `MissingInput` or `Deleted` if a required field is not there.
        """
        log = self._scope.log
        return shared_value(read_now(log.store, lambda: log.shared(contract, at=at)))

    def _values(self, contract: type[C], cells: list[Cell]) -> list[C]:
        log = self._scope.log
        read_now(log.store, lambda: log.fetch(cells))
        return [value_of(cell, contract) for cell in cells]

    @property
    def loss(self) -> LossReport:
        """What was known, delivered, owed and contradicted; `print` it, or see its attributes."""
        return self._loss or read_now(self._scope.log.store, self._measure)

    async def _measure(self) -> LossReport:
        from statepact.loss import measure

        self._loss = measure(await self._scope.log.view(self.id))
        return self._loss

    async def _close(self, *, changed: bool) -> None:
        """Seal the run; a run that added nothing keeps the seal it has."""
        log = self._scope.log.log.runs.get(self.id)
        if not changed and log is not None and log.seal is not None:
            return
        try:
            await self._scope.close(self.status)
        except StoreError:
            # A store that is full or gone has already made a step fail, and the run says so.
            if self.problem is None:
                raise

    def __repr__(self) -> str:
        return f"<Run {self.id!r} {self.status}, {len(self.steps)} steps>"
