"""What the official SDKs raise on each failure, and how many requests they send."""

from __future__ import annotations

from pathlib import Path

import pytest

import failure_table
import judge_runner
from failure_table import COLUMNS, GOOGLE, Table

TESTS = Path(__file__).parent
PAGE = (TESTS / "scenario_failures.md").read_text()
REFERENCE = (TESTS.parent / "docs" / "reference" / "scenarios.md").read_text()
COLUMNS_WITHOUT_GOOGLE = [column for column in COLUMNS if column != GOOGLE]


def expected_table(columns: list[str]) -> Table:
    """The columns of the documented table for these SDKs."""
    table = failure_table.parse_table(PAGE)
    return {
        case_key: {column: cells[column] for column in columns} for case_key, cells in table.items()
    }


def test_the_page_ends_with_the_table_of_every_failure() -> None:
    table = failure_table.parse_table(PAGE)

    assert PAGE.endswith(f"\n\n{failure_table.render_table(table)}")
    assert list(dict.fromkeys(name for name, _ in table)) == list(failure_table.CASES)
    assert {tuple(cells) for cells in table.values()} == {tuple(COLUMNS)}


@pytest.mark.parametrize("mode", failure_table.MODES)
def test_the_reference_summarises_the_table(mode: str) -> None:
    """OpenAI's and Anthropic's SDKs send three requests, the others one."""
    columns_by_heading = {
        "`openai`, `anthropic`": ("openai-chat", "openai-responses", "anthropic"),
        "`google-genai`": (GOOGLE,),
        "`ollama`": ("ollama",),
    }
    table = failure_table.parse_table(PAGE)
    summary = REFERENCE.split("The official Python SDKs raise these exceptions")[1].split("## ")[0]
    rows = [line.strip("| ").split(" | ") for line in summary.splitlines() if line[:2] == "| "]

    assert rows[0] == ["failure", *columns_by_heading]
    assert [row[0] for row in rows[1:]] == [
        "`model_error`", "`rate_limit`", "`timeout`", "`network_error`",
    ]  # fmt: skip
    for name, *exceptions in rows[1:]:
        for exception, columns in zip(exceptions, columns_by_heading.values(), strict=True):
            count = 3 if len(columns) > 1 else 1
            assert {table[name, mode][column] for column in columns} == {f"{exception} ({count})"}


@pytest.mark.shows("000-55", "000-58", "000-59", "000-60", "000-61", "000-62", "000-63", "004-07")
@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(COLUMNS_WITHOUT_GOOGLE, id="here"),
        pytest.param([GOOGLE], id=GOOGLE, marks=pytest.mark.thorough),
    ],
)
async def test_the_sdks_raise_what_the_page_says_and_ask_as_often(columns: list[str]) -> None:
    if GOOGLE in columns and (reason := judge_runner.missing_reason(GOOGLE)):
        pytest.skip(reason)

    assert await failure_table.measure(columns) == expected_table(columns), (
        "PYTHONPATH=proxy:tests python tests/failure_table.py prints the table"
    )
