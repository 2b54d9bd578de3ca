"""From an older version of a contract to the one that the code has, step by step.

What is stored stays as it was: an upgrade is applied each time an old value is read. It says what came
from what, so that a fact that was only renamed is still the same fact; what it says nothing about is
kept as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from statepact.errors import SetupError, VersionMismatch

if TYPE_CHECKING:
    from statepact.contracts._contract import Contract

UNVERSIONED = "1.0"
"""Version of a value that does not say one."""

_VERSION = re.compile(r"v?((?:0|[1-9]\d{0,5})\.(?:0|[1-9]\d{0,5}))")


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One step from a version of a contract to a later one.

    ```python
    class Stock(
        Contract,
        version="1.4",
        upgrades=[
            Upgrade("1.2", "1.3", renamed={"qty": "available_qty"}),
            Upgrade("1.3", "1.4", added={"warehouse": None}),
        ],
    ): ...
    ```

    A field that the later version requires and that no upgrade gives is missing, and said to be:
    nothing is made up.
    """

    before: str
    """The version it reads."""
    after: str
    """The version it makes of it."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New names by old ones. The value is the same fact under another name."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """Values, as JSON has them, of fields that older values do not have."""
    removed: Iterable[str] = ()
    """Fields that are dropped on purpose."""
    change: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None
    """For everything else: gets the fields as JSON has them, after the rest was done, returns them."""

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the later version. Raises `VersionMismatch` if `change` fails."""
        given = {self.renamed.get(name, name): value for name, value in values.items()}
        given = {**self.added, **given}
        for name in self.removed:
            given.pop(name, None)
        if self.change is None:
            return given
        try:
            return dict(self.change(given))
        except Exception as error:
            raise VersionMismatch(
                f"the upgrade from {self.before} to {self.after} failed with {type(error).__name__}",
                hint="what is stored is unchanged; mend the upgrade and read again",
            ) from error


def checked_upgrades(contract: str, upgrades: Iterable[Upgrade]) -> tuple[Upgrade, ...]:
    """Return the upgrades of a contract. Raises `SetupError` for one that leads nowhere or backwards."""
    found: dict[str, Upgrade] = {}
    for upgrade in upgrades:
        if not all(_VERSION.fullmatch(version) for version in (upgrade.before, upgrade.after)):
            raise SetupError(f"an upgrade of {contract} is from {upgrade.before!r} to {upgrade.after!r}: no versions")
        if numbers(upgrade.after) <= numbers(upgrade.before):
            raise SetupError(f"an upgrade of {contract} leads from {upgrade.before} back to {upgrade.after}")
        if upgrade.before in found:
            raise SetupError(f"{contract} has two upgrades from {upgrade.before}", hint="keep one; chains are followed")
        found[upgrade.before] = upgrade
    return tuple(found.values())


def numbers(version: str) -> tuple[int, int]:
    """Return major and minor of a version."""
    major, minor = version.removeprefix("v").split(".")
    return int(major), int(minor)


def reads_as_it_is(contract: type[Contract], written: str) -> bool:
    """Whether a contract reads what was written under a version without an upgrade."""
    major, minor = numbers(contract.contract_version)
    written_major, written_minor = numbers(written)
    return written_major == major and written_minor >= minor


@lru_cache(maxsize=1024)
def path_of(contract: type[Contract], written: str) -> Sequence[Upgrade]:
    """Return the upgrades that lead from a version to one that the contract reads; none if it does already.

    Raises `VersionMismatch` if there is no way.
    """
    steps: list[Upgrade] = []
    version = written
    by_version = {upgrade.before: upgrade for upgrade in contract.contract_upgrades}
    while not reads_as_it_is(contract, version):
        upgrade = by_version.get(version)
        if upgrade is None:
            raise VersionMismatch(
                f"{contract.contract_name} {written} is stored, but the code reads {contract.contract_version}"
                + (f", and no upgrade leads on from {version}" if steps else ""),
                hint="a reader needs the same major and the same or a newer minor version,"
                f" or upgrades=[Upgrade({version!r}, ...)] in its contract",
            )
        steps.append(upgrade)
        version = upgrade.after
    return tuple(steps)


def renamed(contract: type[Contract], written: str, names: Iterable[str]) -> list[str]:
    """Return what fields of an older version are called in `contract`, in the same order."""
    names = list(names)
    for upgrade in path_of(contract, written):
        names = [upgrade.renamed.get(name, name) for name in names]
    return names


def version_in(values: Mapping[str, Any], contract: type[Contract]) -> str:
    """Return the version that a foreign value says it has: its field `version`, `1.3` or `v1.3`.

    A value that says none, where the contract has no such field itself, is 1.0, and that is logged.
    """
    said = values.get("version")
    found = _VERSION.fullmatch(said) if isinstance(said, str) and "version" not in contract.model_fields else None
    if found:
        return found[1]
    import logging  # a program that only defines contracts starts without it

    logging.getLogger("statepact").warning(
        "a value for %s says no version: it is read as %s", contract.contract_name, UNVERSIONED
    )
    return UNVERSIONED
