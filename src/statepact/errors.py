"""Every error the library raises on purpose.

A message says what happened and where, the hint says what to do, and the code is stable: it is
what people search for and what `docs/errors.md` has a heading for. No message holds a value
that a user or a model wrote, because messages end up in logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


class StatepactError(Exception):
    """Base of all errors of this library; catch it to catch them all."""

    code: ClassVar[str] = "ERR_STATEPACT"
    """Stable name of the kind of error, the same in messages, JSON and the documentation."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if not self.hint:
            return f"{self.message}  [{self.code}]"
        return f"{self.message}\n  → {self.hint}  [{self.code}]"

    def as_dict(self) -> dict[str, Any]:
        """Return what an HTTP answer or a log line may show: code, message, hint, attributes."""
        known = {"message", "hint"}
        extra = {name: value for name, value in vars(self).items() if name not in known and not name.startswith("_")}
        return {"code": self.code, "message": self.message, "hint": self.hint, **extra}

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments do not survive the default pickling of exceptions, and errors
        # do cross process borders (process pools, pytest-xdist).
        return _rebuild, (type(self), self.args, dict(vars(self)))


def _rebuild(cls: type[StatepactError], args: tuple[Any, ...], attributes: dict[str, Any]) -> StatepactError:
    error = cls.__new__(cls, *args)
    Exception.__init__(error, *args)
    vars(error).update(attributes)
    return error


# -- before anything ran -------------------------------------------------------------------------


class SetupError(StatepactError, TypeError):
    """The code that defines contracts or a workflow is wrong; nothing has run."""

    code = "ERR_SETUP"


class Unreachable(SetupError):
    """A step reads, or owes, something that cannot reach it."""

    code = "ERR_UNREACHABLE"


class MissingExtra(StatepactError, ImportError):
    """A part was used whose optional dependency is not installed."""

    code = "ERR_MISSING_EXTRA"

    def __init__(self, what: str, *, extra: str, needs: str = "", install: str = "") -> None:
        super().__init__(
            f"{what} needs {needs or f'the {extra} extra'}",
            hint=install or f"pip install 'statepact[{extra}]'",
        )
        self.extra = extra
        """Name of the extra, or of the part that is not an extra but has to be installed all the same."""


# -- contracts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a value does not fit its contract. Holds types, never the value."""

    path: str
    """Where, as a dotted path: `items.0.price`. Empty for the whole value."""

    expected: str
    """What the contract asks for, in words: `Field required`, `Input should be a valid integer`."""

    found: str = ""
    """Name of the type that stood there, empty if nothing did."""

    kind: str = "invalid"
    """Machine name of the problem, Pydantic's where it has one: `missing`, `int_type`, ..."""

    def __str__(self) -> str:
        where = self.path or "(whole value)"
        found = f", found {self.found}" if self.found else ""
        return f"{where}: {self.expected}{found}"


class ContractError(StatepactError):
    """A value and its contract do not fit together."""

    code = "ERR_CONTRACT"


class ContractViolation(ContractError):
    """A value breaks its contract. All problems are reported at once, in `violations`."""

    code = "ERR_STATE_CONTRACT_VIOLATION"

    def __init__(
        self,
        contract: str,
        violations: Iterable[Violation],
        *,
        side: str = "",
        hint: str = "",
    ) -> None:
        self.contract = contract
        """Name and version of the contract, such as `Order 1.0`."""
        self.violations = tuple(violations)
        self.side = side
        """Who broke it, such as `step 'look_up' returned an output that`; empty if not known."""
        missing = [v.path for v in self.violations if v.kind == "missing"]
        who = f"{side} breaks contract {contract}" if side else f"a value breaks contract {contract}"
        lines = [who, *(f"  {violation}" for violation in self.violations)]
        if not hint:
            hint = (
                "supply these fields, or give them a default in the contract"
                if missing and len(missing) == len(self.violations)
                else "make the value fit the contract, or the contract fit the value"
            )
        super().__init__("\n".join(lines), hint=hint)

    @property
    def missing_fields(self) -> tuple[str, ...]:
        """Paths that the contract requires and the value lacks."""
        return tuple(v.path for v in self.violations if v.kind == "missing")

    def by(self, side: str) -> ContractViolation:
        """Return the same violation, saying who broke the contract."""
        return type(self)(self.contract, self.violations, side=side, hint=self.hint)

    def as_dict(self) -> dict[str, Any]:
        """As for every error, with `violations` and `missing_fields` as plain lists."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "contract": self.contract,
            "side": self.side,
            "missing_fields": list(self.missing_fields),
            "violations": [
                {"path": v.path, "expected": v.expected, "found": v.found, "kind": v.kind} for v in self.violations
            ],
        }


class UnreadableText(ContractViolation):
    """A model's text holds no single complete JSON object, so there is nothing to validate.

    `reason` tells the cases apart: `no_object`, `malformed`, `incomplete` (cut by the token
    limit), `ambiguous` (two objects), `too_large`, `too_deep`, `duplicate_key`.
    """

    code = "ERR_UNREADABLE_TEXT"

    def __init__(self, contract: str, *, reason: str, explanation: str, side: str = "", hint: str = "") -> None:
        super().__init__(contract, [Violation("", explanation, kind=reason)], side=side, hint=hint)
        self.reason = reason
        self.explanation = explanation

    def by(self, side: str) -> UnreadableText:
        """Return the same error, saying whose text it was."""
        return type(self)(self.contract, reason=self.reason, explanation=self.explanation, side=side, hint=self.hint)


class VersionMismatch(ContractError):
    """Stored or received data has a version this contract can neither read nor upgrade."""

    code = "ERR_VERSION_MISMATCH"


class NotExact(ContractError):
    """A value cannot be stored so that it comes back equal in value and type."""

    code = "ERR_NOT_EXACT"

    def __init__(self, path: str, *, found: str, reason: str, hint: str = "") -> None:
        super().__init__(f"cannot store {path or 'the value'} exactly: {found} {reason}", hint=hint)
        self.path = path
        self.found = found


class TooLarge(ContractError):
    """An input is over a cap that holds before anything is parsed."""

    code = "ERR_TOO_LARGE"


# -- state ---------------------------------------------------------------------------------------


class StateError(StatepactError):
    """What is stored does not fit what was asked for; read again and decide."""

    code = "ERR_STATE"


class StepIdReused(StateError):
    """The cell of this step already holds the result of another input."""

    code = "ERR_STEP_ID_REUSED"


class ConflictingValues(StateError):
    """Several steps wrote one kind of value, they differ, and the contract has no merge rule."""

    code = "ERR_CONFLICTING_VALUES"

    def __init__(
        self, contract: str, *, writers: Iterable[str], fields: Iterable[str], cells: Iterable[tuple[int, int]] = ()
    ) -> None:
        self.contract = contract
        self.writers = tuple(writers)
        self.fields = tuple(fields)
        """Those that differ, as dotted paths."""
        self.cells = tuple(cells)
        """Where the values of the writers stand in the log: revision and number of the cell."""
        super().__init__(
            f"{contract} was written by {', '.join(self.writers)} with different {', '.join(self.fields)}",
            hint=f"read list[{contract.split()[0]}] to get all of them, give the field a merge rule"
            " (Annotated[..., Merge.last]), or let one step write it",
        )


class SessionHeld(StateError):
    """Somebody else runs in this session now, so it is not our turn."""

    code = "ERR_SESSION_HELD"

    def __init__(self, session: str, *, holder: str, run: str, seconds: float) -> None:
        self.session = session
        self.holder = holder
        self.run = run
        self.seconds = seconds
        """For how long the claim lasts if it is not renewed."""
        super().__init__(
            f"session {session!r} is held by {holder!r} for run {run!r}, for another {seconds:.1f} s",
            hint="wait for that run to end; a worker that has died is succeeded when its time is up",
        )


class LeaseLost(StateError):
    """Somebody else took this run over while we were away; what we would have committed is refused."""

    code = "ERR_LEASE_LOST"

    def __init__(self, session: str, *, holder: str, run: str) -> None:
        self.session = session
        self.holder = holder
        """Who has lost it."""
        self.run = run
        super().__init__(
            f"{holder!r} does not hold session {session!r} for run {run!r} any more: another one took over",
            hint="nothing is to be done here; what was refused stands in the log as a refusal",
        )


class EffectUnknown(StateError):
    """A step that does something outside has begun and did not end: nobody knows whether it happened."""

    code = "ERR_EFFECT_UNKNOWN"

    def __init__(self, step: str, *, run: str, branch: str = "") -> None:
        self.step = step
        self.run = run
        self.branch = branch
        name = f"{step}/{branch}" if branch else step
        _, *inside = run.split("//")  # what runs inside another run is named from there
        settled = "/".join((*inside, name))
        super().__init__(
            f"step {name!r} of run {run!r} began and did not end: whether its effect happened is unknown",
            hint=f"look it up where it would have happened, then resume with settled={{{settled!r}: its result}},"
            " or None if it did not happen",
        )


class SharedConflict(StateError):
    """A shared value that was read has changed since, and running again did not help."""

    code = "ERR_SHARED_CONFLICT"

    def __init__(self, contract: str, *, fields: Iterable[str], winner: str, run: str, revision: int) -> None:
        self.contract = contract
        self.fields = tuple(fields)
        """Those that were read and have changed since."""
        self.winner = winner
        """The step that changed them first."""
        self.run = run
        self.revision = revision
        """Where its change stands in the log."""
        super().__init__(
            f"shared {contract} has changed since it was read: step {winner!r} of run {run!r} changed"
            f" {', '.join(self.fields)} at revision {revision}",
            hint="run the step again with the new value, change the field without reading it, or give it a merge rule",
        )


class Deleted(StateError):
    """What was asked for has been erased."""

    code = "ERR_DELETED"


class Expired(StateError):
    """What was asked for was there, and a lifetime or a retention rule has ended it."""

    code = "ERR_EXPIRED"


class UnknownRun(StateError):
    """No run of this name exists in the session."""

    code = "ERR_UNKNOWN_RUN"


class UnknownSession(StateError):
    """The owner has no session of this name."""

    code = "ERR_UNKNOWN_SESSION"


class UnknownRevision(StateError):
    """The session has no entry of this number yet."""

    code = "ERR_UNKNOWN_REVISION"


class SessionExists(StateError):
    """A session was to be made, and there is one of this name."""

    code = "ERR_SESSION_EXISTS"


class UnknownFact(StateError):
    """The session holds no such fact, or not at that revision."""

    code = "ERR_UNKNOWN_FACT"


class SensitiveInClear(StateError):
    """Sensitive values would be given away, because they are stored in plain text."""

    code = "ERR_SENSITIVE_IN_CLEAR"


class ImportRefused(StateError):
    """A file does not hold a session that can be taken in here; nothing was written."""

    code = "ERR_IMPORT_REFUSED"


class ProofRefused(StateError):
    """A proof does not prove what it says, for the head that was given."""

    code = "ERR_PROOF_REFUSED"


class CorruptState(StateError):
    """Stored bytes are not the bytes that were committed, or cannot be read at all."""

    code = "ERR_CORRUPT_STATE"


class Behind(StateError):
    """The session has moved on since it was read: another writer committed first.

    The library reads the new entries and tries again; users see this only from `Store` itself.
    """

    code = "ERR_BEHIND"


# -- steps ---------------------------------------------------------------------------------------


class StepError(StatepactError):
    """A step did not produce its output."""

    code = "ERR_STEP"


class StepFailed(StepError):
    """The body of a step raised; `__cause__` is what it raised."""

    code = "ERR_STEP_FAILED"


class StepTimeout(StepError, TimeoutError):
    """A step took longer than its `timeout`."""

    code = "ERR_STEP_TIMEOUT"


class MissingInput(StepError):
    """A required input has no committed value, so the step did not run."""

    code = "ERR_MISSING_INPUT"


class ModelError(StepError):
    """The model or its provider failed; `__cause__` has the client's error."""

    code = "ERR_MODEL"


class ContextTooLarge(StepError):
    """What the step must see does not fit its token budget; no model was called."""

    code = "ERR_CONTEXT_TOO_LARGE"


# -- stores --------------------------------------------------------------------------------------


class StoreError(StatepactError):
    """The place where the log lives failed; `__cause__` has the driver's error."""

    code = "ERR_STORE"


class StoreUnavailable(StoreError, ConnectionError):
    """The store cannot be reached or opened."""

    code = "ERR_STORE_UNAVAILABLE"


class StoreTimeout(StoreError, TimeoutError):
    """The store did not answer in time; whether the write happened is not known."""

    code = "ERR_STORE_TIMEOUT"


class StoreReadOnly(StoreError):
    """The store can be read but not written."""

    code = "ERR_STORE_READ_ONLY"


class StoreFull(StoreError):
    """There is no room left; nothing of the refused commit was kept."""

    code = "ERR_STORE_FULL"


class StoreTooNew(StoreError):
    """A newer version of this library wrote the store."""

    code = "ERR_STORE_TOO_NEW"


class UnknownFilter(StoreError):
    """A listing was asked for with a condition that the store cannot apply."""

    code = "ERR_UNKNOWN_FILTER"


class KeyMissing(StatepactError):
    """A sensitive value was stored under a key that was not given, or the key is not the right one."""

    code = "ERR_KEY_MISSING"


class InternalError(StatepactError):
    """A bug of this library; please report it with the traceback."""

    code = "ERR_INTERNAL"


def all_codes() -> Mapping[str, type[StatepactError]]:
    """Return every error class by its code, for the error page and its test."""
    found: dict[str, type[StatepactError]] = {}
    queue: list[type[StatepactError]] = [StatepactError]
    while queue:
        cls = queue.pop()
        found[cls.code] = cls
        queue.extend(cls.__subclasses__())
    return dict(sorted(found.items()))
