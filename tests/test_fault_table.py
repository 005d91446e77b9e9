"""What the official SDKs do on each fault, and how many requests they send."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import fault_measuring
import fault_table
import judge_runner
from fault_cases import CASES, MODES, Case
from fault_sdks import COLUMNS, GOOGLE, SDKS_WITH_HELPER
from fault_table import Outcomes
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kinds import FAULT_KINDS
from thoroughness import is_thorough

COLUMNS_WITHOUT_GOOGLE = [column for column in COLUMNS if column != GOOGLE]


def chosen_cases() -> Sequence[Case]:
    """Those that this run measures: in a daily run, the first rule of each fault, on streams."""
    if is_thorough():
        return CASES
    return list(
        {case_.kind.name: case_ for case_ in CASES[::-1] if case_.mode == "stream"}.values()
    )


def stored_outcomes(columns: list[str], cases: Sequence[Case]) -> Outcomes:
    """The stored outcomes of these SDKs and cases."""
    stored = fault_table.read_outcomes()
    return {
        mode: {
            case_.rule_text: {
                column: cell
                for column, cell in stored[mode][case_.rule_text].items()
                if column in columns
            }
            for case_ in cases
            if case_.mode == mode
        }
        for mode in MODES
    }


def test_every_fault_is_measured_with_every_sdk() -> None:
    outcomes = fault_table.read_outcomes()

    assert {parse_rule(item).kind.name for item in outcomes["stream"]} == set(FAULT_KINDS)
    assert {mode: list(rules) for mode, rules in outcomes.items()} == {
        mode: [case_.rule_text for case_ in CASES if case_.mode == mode] for mode in MODES
    }
    for mode, rules in outcomes.items():
        for cells in rules.values():
            assert list(cells) == [
                column for column in COLUMNS if mode != "helper" or column in SDKS_WITH_HELPER
            ]


def test_every_measured_rule_with_an_effect_is_in_a_table() -> None:
    tables = fault_table.render_tables()

    assert fault_table.TABLES_FILE.read_text("utf-8") == tables, (
        "PYTHONPATH=proxy:tests .venv/bin/python tests/fault_table.py > tests/fault_outcomes.md"
    )
    for rules in fault_table.read_outcomes().values():
        for rule, cells in rules.items():
            is_meaningless = set(cells.values()) == {fault_table.NOT_APPLICABLE}
            assert is_meaningless or f"| `{rule}` |" in tables


@pytest.mark.long
@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(COLUMNS_WITHOUT_GOOGLE, id="here"),
        pytest.param([GOOGLE], id=GOOGLE, marks=pytest.mark.thorough),
    ],
)
async def test_the_sdks_behave_and_retry_as_documented(tmp_path: Path, columns: list[str]) -> None:
    if GOOGLE in columns and (reason := judge_runner.missing_reason(GOOGLE)):
        pytest.skip(reason)

    differing = set(await _differing_cells(columns, tmp_path))
    if differing:  # on a busy machine an SDK may time out
        differing &= set(await _differing_cells(columns, tmp_path))

    assert not differing, (
        "PYTHONPATH=proxy:tests .venv/bin/python tests/fault_measuring.py measures anew"
    )


async def _differing_cells(columns: list[str], folder: Path) -> list[tuple[str, str, str]]:
    """Mode, rule and SDK of each cell whose measurement differs from the stored one."""
    cases = chosen_cases()
    measured = await fault_measuring.measure(columns, folder, cases)
    stored = stored_outcomes(columns, cases)
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
