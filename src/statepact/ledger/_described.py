"""How the log remembers a contract: name, version, and what each field is.

A log must explain itself to a reader that does not have the code: which fields were there, which
were pinned or sensitive, which answers which. So a contract is spelled out once per session, in one
line, as the name under which its cells are stored:

    Complaint 1.0|product,problem*,wish!,card?,order_id=Order.order_id

`*` is pinned, `!` a limit (also pinned), `?` sensitive, and `=` a link to an earlier fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache

from statepact.contracts._contract import Contract
from statepact.contracts._fields import FactField, fact_fields
from statepact.errors import CorruptState


@dataclass(frozen=True, slots=True)
class FieldRecord:
    """One field of a contract as written."""

    name: str
    pinned: bool = False
    limit: bool = False
    sensitive: bool = False
    answers: tuple[str, ...] = ()
    """Facts that this field answers, as `Contract.field`."""


@dataclass(frozen=True, slots=True)
class ContractRecord:
    """A contract as written."""

    name: str
    version: str
    fields: tuple[FieldRecord, ...]
    pinned_mask: int = field(init=False, compare=False)
    """Bit i is set if field i is pinned."""
    limit_mask: int = field(init=False, compare=False)
    """Bit i is set if field i is a limit."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pinned_mask", sum(one.pinned << i for i, one in enumerate(self.fields)))
        object.__setattr__(self, "limit_mask", sum(one.limit << i for i, one in enumerate(self.fields)))

    @property
    def label(self) -> str:
        """`Complaint 1.0`."""
        return f"{self.name} {self.version}"

    @property
    def pinned(self) -> tuple[FieldRecord, ...]:
        """The fields that every later step gets."""
        return tuple(one for one in self.fields if one.pinned)


@cache
def describe(contract: type[Contract]) -> str:
    """Return the line under which the cells of a contract are stored."""
    fields = ",".join(_field_text(fact) for fact in fact_fields(contract))
    return f"{contract.contract_name} {contract.contract_version}|{fields}"


def _field_text(fact: FactField) -> str:
    mark = "!" if fact.limit else "*" if fact.pinned else "?" if fact.sensitive else ""
    links = "".join(f"={link.contract.contract_name}.{link.field}" for link in fact.links)
    return f"{fact.name}{mark}{links}"


@lru_cache(maxsize=4096)
def described(text: str) -> ContractRecord:
    """Return the contract that a stored line describes."""
    label, bar, fields = text.partition("|")
    name, space, version = label.rpartition(" ")
    if not (bar and space):
        raise CorruptState("the log names a contract in a form that cannot be read")
    return ContractRecord(name, version, tuple(_field_record(part) for part in fields.split(",") if part))


def _field_record(text: str) -> FieldRecord:
    name, *answers = text.split("=")
    mark = name[-1:]
    if mark in ("*", "!", "?"):
        name = name[:-1]
    return FieldRecord(
        name, pinned=mark in ("*", "!"), limit=mark == "!", sensitive=mark == "?", answers=tuple(answers)
    )


def open_in(contract: ContractRecord, path: str) -> str:
    """Return a dotted path as it may be shown: inside a sensitive fact it may name keys, and those are values."""
    top = path.partition(".")[0]
    return top if any(field.name == top and field.sensitive for field in contract.fields) else path
