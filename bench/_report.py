"""What was measured: rows with their aims, as a table and as JSON."""

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Row:
    """One line of the report, and one object of `build/bench.json`."""

    what: str
    value: float | str | None
    """`None` if it could not be measured here; `against` then says why."""
    unit: str
    against: str
    ratio: float | None
    aim: str
    ok: bool | None
    """`None` where there is no aim."""


class Report:
    """Prints each row as it comes, so that a run can be watched."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def note(self, what: str, value: str) -> None:
        """Add a fact about the machine or the run."""
        self._add(Row(what, value, "", "", None, "", None))

    def title(self, text: str) -> None:
        print(f"\n{text}\n{'':2}{'what':<66}{'value':>10} {'unit':<7}{'ratio':>7}  {'aim':<8}{'ok':<5}against")

    def add(
        self, what: str, value: float, unit: str, *, against: str = "", base: float | None = None, aim: str = ""
    ) -> None:
        """Add a measurement: `value`, its ratio to `base`, and whether that meets `aim` (`<= 4`)."""
        ratio = value / base if base else None
        ok = None
        if aim and ratio is not None:
            sign, bound = aim.split()
            ok = _COMPARE[sign](ratio, float(bound))
        self._add(Row(what, round(value, 3), unit, against, None if ratio is None else round(ratio, 3), aim, ok))

    def missing(self, what: str, why: str) -> None:
        """Add a row for what cannot be measured here."""
        self._add(Row(what, None, "", why, None, "", None))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        if isinstance(row.value, str):
            print(f"  {row.what}: {row.value}", flush=True)
            return
        value = "n/a" if row.value is None else f"{row.value:,.1f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        ok = {True: "yes", False: "NO", None: ""}[row.ok]
        print(f"  {row.what:<66}{value:>10} {row.unit:<7}{ratio:>7}  {row.aim:<8}{ok:<5}{row.against}", flush=True)

    def write(self, path: Path) -> None:
        """Write all rows as a JSON list."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(row) for row in self.rows], ensure_ascii=False, indent=1) + "\n")

    def summary(self) -> str:
        """Say how many aims were met, and name those that were not."""
        judged = [row for row in self.rows if row.ok is not None]
        missed = [row for row in judged if not row.ok]
        lines = [f"{len(judged) - len(missed)} of {len(judged)} aims met"]
        lines += [f"  missed: {row.what}: {row.ratio:.2f}x, aim {row.aim}" for row in missed]
        return "\n".join(lines)
