"""docs/scenario-failures.md says what the official SDKs raise, and how often they ask."""

from __future__ import annotations

from pathlib import Path

import pytest

import failure_table
import judge_runner
from failure_table import COLUMNS, GOOGLE, Table

PAGE = (Path(__file__).parents[1] / "docs" / "scenario-failures.md").read_text()
HERE = [column for column in COLUMNS if column != GOOGLE]


def of(columns: list[str]) -> Table:
    """What the page says of these SDKs."""
    table = failure_table.read(PAGE)
    return {row: {column: cells[column] for column in columns} for row, cells in table.items()}


def test_the_page_ends_with_the_table_of_every_failure() -> None:
    table = failure_table.read(PAGE)

    assert PAGE.endswith(f"\n\n{failure_table.written(table)}")
    assert list(dict.fromkeys(name for name, _ in table)) == list(failure_table.CASES)
    assert {tuple(cells) for cells in table.values()} == {tuple(COLUMNS)}


@pytest.mark.shows("000-55", "000-58", "000-59", "000-60", "000-61", "000-62", "000-63", "004-07")
@pytest.mark.parametrize("columns", [HERE, [GOOGLE]], ids=["here", GOOGLE])
async def test_the_sdks_raise_what_the_page_says_and_ask_as_often(columns: list[str]) -> None:
    if GOOGLE in columns and (why := judge_runner.missing(GOOGLE)):
        pytest.skip(why)

    assert await failure_table.measured(columns) == of(columns), (
        "PYTHONPATH=proxy:tests python tests/failure_table.py prints the table"
    )
