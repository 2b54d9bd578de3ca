"""Every example on a page runs and prints what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
PAGES = (*READMES, *sorted((ROOT / "docs").rglob("*.md")))
MUST_HAVE_CODE = {*READMES, ROOT / "docs" / "quickstart.md", *(ROOT / "docs" / "how-to").glob("*.md")}

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_a_page_runs_and_prints_what_the_page_says(page: Path, run_page: Callable[[Path], int]) -> None:
    """Whoever copies the blocks of a page, in order, sees what the page shows."""
    blocks = run_page(page)

    assert blocks or page not in MUST_HAVE_CODE, "this page lives from its code and has none"


def test_both_readmes_carry_the_same_code() -> None:
    """A reader of Chinese gets the same program, commands and output as a reader of English."""
    english, chinese = (_BLOCK.findall(readme.read_text(encoding="utf-8")) for readme in READMES)

    assert english
    assert chinese == english


def test_both_readmes_carry_the_same_figures() -> None:
    """A number that is brought up to date in one language is brought up to date in both."""
    english, chinese = (_figures(readme) for readme in READMES)

    assert english
    assert chinese == english


def test_a_readme_is_short_enough_to_be_read() -> None:
    """What does not fit belongs into a page of its own."""
    for readme in READMES:
        assert len(readme.read_text(encoding="utf-8").splitlines()) <= 250


def test_a_page_that_shows_other_output_than_the_code_prints_is_an_error(
    run_page: Callable[[Path], int], tmp_path: Path
) -> None:
    """The check itself notices a wrong page."""
    page = tmp_path / "wrong.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n", encoding="utf-8")

    with pytest.raises(AssertionError, match=r"wrong\.md:5: the page shows\n2\n\nbut this happened:\n1"):
        run_page(page)


def _figures(readme: Path) -> list[list[str]]:
    """Return the numbers of each table row that has any, in order."""
    rows = [line for line in readme.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    found = [re.findall(r"\d[\d.,]*", row) for row in rows]
    return [row for row in found if row]
