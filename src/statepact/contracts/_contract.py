"""The versioned model of what one step hands on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from statepact.contracts._marks import MASK
from statepact.contracts._upgrade import Upgrade, checked_upgrades
from statepact.errors import SetupError

_VERSION = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")


_NAME = re.compile(r"[\w.\-]{1,100}")


class Contract(BaseModel):
    """What a step hands on: typed fields, frozen, with a version.

    ```python
    class Order(Contract, version="1.3"):
        order_id: str
        signed: bool
    ```

    A contract takes no undeclared field and no value of another type (`"7"` is not an integer),
    and refuses NaN and infinity, which JSON readers turn into "no value". `version` is
    `major.minor`, "1.0" by default. A reader accepts what was written under the same major version
    and the same or a newer minor one.

    `upgrades` lead from older versions to this one; see `Upgrade`.

    `name` is what is stored and shown, by default the name of the class; give it when you rename
    a class whose values are already stored.
    """

    # Not as class keywords: pyright wants every subclass of a class with `frozen=True` to repeat it,
    # so that each contract of each user would be an error there.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        # Values of customers must not reach a log through an exception's text.
        hide_input_in_errors=True,
        # Frozen does not reach lists inside, `model_copy(update=)` or `model_construct`; what is
        # committed is therefore checked again, not trusted because of its type.
        revalidate_instances="always",
    )

    contract_name: ClassVar[str] = "Contract"
    contract_version: ClassVar[str] = "1.0"
    contract_upgrades: ClassVar[tuple[Upgrade, ...]] = ()

    def __init_subclass__(
        cls, *, version: str = "1.0", name: str | None = None, upgrades: Iterable[Upgrade] = (), **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if not _VERSION.fullmatch(version):
            raise SetupError(
                f"contract {cls.__name__} has version {version!r}",
                hint='write it as "major.minor", such as version="1.3"',
            )
        if not _NAME.fullmatch(name or cls.__name__):
            raise SetupError(
                f"contract {cls.__name__} has name {name!r}",
                hint="use up to 100 letters, digits, '_', '-' or '.', in any script",
            )
        cls.contract_version = version
        cls.contract_name = name or cls.__name__
        cls.contract_upgrades = checked_upgrades(cls.__name__, upgrades)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # What is printed ends in logs, tracebacks and test reports.
        from statepact.contracts._fields import sensitive_fields

        hidden = sensitive_fields(type(self))
        for name, value in super().__repr_args__():
            yield name, Masked() if name in hidden else value


class Masked:
    """What is printed in the place of a sensitive value."""

    def __repr__(self) -> str:
        return MASK


def label(contract: type[Contract]) -> str:
    """Return name and version as shown to people: `Order 1.3`."""
    return f"{contract.contract_name} {contract.contract_version}"
