"""What a field of a contract says about itself beyond its type.

The aliases are `Annotated` forms, so a type checker sees the plain type: a `Pinned[str]` is a
`str` wherever a `str` is wanted.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from statepact.contracts._merge import Merge

if TYPE_CHECKING:
    from statepact.contracts._contract import Contract

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mark:
    """One property of a field; `name` is the word shown in reports."""

    name: str


PINNED = Mark("pinned")
LIMIT = Mark("limit")
SENSITIVE = Mark("sensitive")

MASK = "•••"
"""What stands in the place of a sensitive value wherever something is shown."""

Pinned = Annotated[T, PINNED]
"""A fact that every later step of the run gets, whether or not it declares the contract."""

Limit = Annotated[T, PINNED, LIMIT]
"""A pinned fact that is also obeyed: "do not phone", "at most 300 EUR"."""

Sensitive = Annotated[T, SENSITIVE]
"""A fact that only readers declaring its contract see; masked in every report, log and page.

Encrypted in the store if there is a key ring (`KeyRing`), in plain text if there is none."""


@dataclass(frozen=True, slots=True)
class IdOf:
    """Says that a field holds the id of something of the user's world: `Annotated[str, IdOf("order")]`.

    A session is found again by the ids that were committed in it; see `Context.recall`.
    """

    kind: str = ""
    """What it is the id of; empty for what the field is called: `order_id` is the id of an order."""


Id = Annotated[T, IdOf()]
"""The id of something of the user's world, by which people come back: `order_id: Id[str]`."""


@dataclass(frozen=True, slots=True)
class Answers:
    """A link: this field must agree with a field of an earlier fact.

    `order_id: Annotated[str, Answers(Order, "order_id")]` is contradicted when the two values
    differ. `agrees` relaxes equality: a mapping from the earlier value to the values that answer
    it, or a function of (earlier, answer).
    """

    contract: type[Contract]
    field: str
    agrees: Mapping[Any, Any] | Callable[[Any, Any], bool] | None = None

    def holds(self, earlier: Any, answer: Any) -> bool:
        """Whether `answer` agrees with `earlier`."""
        if self.agrees is None:
            return bool(earlier == answer)
        if callable(self.agrees):
            return bool(self.agrees(earlier, answer))
        accepted = self.agrees.get(earlier, ())
        return answer in accepted if isinstance(accepted, (list, tuple, set, frozenset)) else bool(answer == accepted)


def marks_in(annotation: Any) -> Iterator[Mark | Answers | IdOf | Merge]:
    """Yield every mark anywhere inside an annotation, in reading order.

    A mark on a part counts for the whole field (`list[Pinned[str]]` pins the list): the fact is
    the field, and a mark that silently did nothing would be the worst answer.
    """
    if typing.get_origin(annotation) is Annotated:
        inner, *metadata = typing.get_args(annotation)
        yield from marks_in(inner)
        yield from (item for item in metadata if isinstance(item, (Mark, Answers, IdOf, Merge)))
        return
    for argument in typing.get_args(annotation):
        if isinstance(argument, list):
            for part in argument:
                yield from marks_in(part)
        else:
            yield from marks_in(argument)
