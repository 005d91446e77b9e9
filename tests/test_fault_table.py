"""docs/faults.md says what the official SDKs do on each fault, and how often they ask."""

from __future__ import annotations

from pathlib import Path

import pytest

import fault_measuring
import fault_table
import judge_runner
from fault_cases import CASES, MODES
from fault_sdks import COLUMNS, GOOGLE, HELPING
from fault_table import Outcomes
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kinds import KINDS

HERE = [column for column in COLUMNS if column != GOOGLE]


def of(columns: list[str]) -> Outcomes:
    """What is stored of these SDKs."""
    return {
        mode: {
            rule: {column: cells[column] for column in columns if column in cells}
            for rule, cells in rules.items()
        }
        for mode, rules in fault_table.stored().items()
    }


def test_every_fault_is_measured_with_every_sdk() -> None:
    outcomes = fault_table.stored()

    assert {parse_rule(item).kind.name for item in outcomes["stream"]} == set(KINDS)
    assert {mode: list(rules) for mode, rules in outcomes.items()} == {
        mode: [case_.text for case_ in CASES if case_.mode == mode] for mode in MODES
    }
    for mode, rules in outcomes.items():
        for cells in rules.values():
            assert list(cells) == [
                column for column in COLUMNS if mode != "helper" or column in HELPING
            ]


def test_every_rule_that_is_measured_stands_in_a_table_where_it_has_a_meaning() -> None:
    tables = fault_table.tables()

    for rules in fault_table.stored().values():
        for rule, cells in rules.items():
            means_nothing = set(cells.values()) == {fault_table.NOTHING}
            assert means_nothing or f"| `{rule}` |" in tables


@pytest.mark.long
@pytest.mark.parametrize("columns", [HERE, [GOOGLE]], ids=["here", GOOGLE])
async def test_the_sdks_do_what_the_tables_say_and_ask_as_often(
    tmp_path: Path, columns: list[str]
) -> None:
    if GOOGLE in columns and (why := judge_runner.missing(GOOGLE)):
        pytest.skip(why)

    differing = set(await _differing(columns, tmp_path))
    if differing:  # a busy machine keeps an SDK waiting for longer than it does
        differing &= set(await _differing(columns, tmp_path))

    assert not differing, "PYTHONPATH=proxy:tests python tests/fault_measuring.py measures anew"


async def _differing(columns: list[str], folder: Path) -> list[tuple[str, str, str]]:
    """Mode, rule and SDK of each cell that is measured otherwise than it is stored."""
    measured, stored = await fault_measuring.measured(columns, folder), of(columns)
    assert {item: list(measured[item]) for item in measured} == {
        item: list(stored[item]) for item in stored
    }
    return [
        (mode, rule, column)
        for mode, rules in measured.items()
        for rule, cells in rules.items()
        for column in columns
        if cells.get(column) != stored[mode][rule].get(column)
    ]
