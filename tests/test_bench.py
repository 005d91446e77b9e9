"""`scripts/bench`: its table shows the measurements, and its exit code reports missed targets."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from case_tables import each_row

BENCHMARKS = Path(__file__).parents[1] / "scripts" / "benchmarks"


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("result_table", BENCHMARKS / "result_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["result_table"] = module  # its dataclasses look up their module here
    spec.loader.exec_module(module)
    del sys.modules["result_table"]
    return module


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, str(BENCHMARKS), *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@each_row(
    ("value", "unit", "target", "ok"),
    [
        (0.2, "ms", 0.3, True),
        (0.4, "ms", 0.3, False),
        (0.2, "s", 0.15, False),
        (900.0, "req/s", 1000.0, False),
        (1100.0, "req/s", 1000.0, True),
        (0.9, "%", 1.0, True),
        (1.1, "%", 1.0, False),
        (5.0, "MB/s", None, None),
    ],
    ids=[
        *("soon enough", "late", "too long", "too few", "enough"),
        *("near enough", "too far off", "no target"),
    ],
)
def test_a_time_and_an_error_are_to_stay_below_their_targets_and_a_speed_above(
    table: ModuleType, value: float, unit: str, target: float | None, ok: bool | None
) -> None:
    row = table.Row("group", "name", value, unit, {}, target)

    assert row.is_ok is ok
    assert ("OVER" in table.format_table([row])) is (ok is False)
    assert row.as_json()["ok"] is ok


def test_the_table_shows_each_value_beside_what_it_is_compared_with(table: ModuleType) -> None:
    text = table.format_table([table.Row("replay", "instant", 2500.4, "req/s", {"bare": 12345.0})])

    assert text.split() == ["replay", "instant", "2500", "req/s", "bare", "12345"]


def test_the_figures_come_as_one_document() -> None:
    result = run_bench("--quick", "--json", "computing")

    assert result.returncode == 0, result.stderr
    rows = {row["name"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["llm-proxy --help, CPU"]["target"] == 0.15
    assert all(row["value"] > 0 for row in rows.values())


def test_the_help_names_every_option_and_a_wrong_word_is_refused() -> None:
    help_text = run_bench("--help").stdout

    assert all(option in help_text for option in ("--cassettes", "--quick", "--json", "--check"))
    refused = run_bench("nonsense")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no nonsense" in refused.stderr
