"""What is said at the start of options that will hardly do what is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from in_process_proxy import settings
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.shell.running.settings import SimulationOptions
from llm_proxy.shell.running.settings_checks import settings_warnings

_IDLE = "no effect: nothing is simulated in this run; "
_MISS = "give --on-miss scenario to have answered so what is not on disk"


def said(folder: Path, mode: str, on_miss: str, **simulating: Any) -> list[str]:
    """The warnings, but for that of an empty library."""
    it = settings(folder, on_miss=on_miss, simulating=SimulationOptions(**simulating))
    return [
        settings_warning
        for settings_warning in settings_warnings(mode, it)
        if "every request will be a miss" not in settings_warning
    ]


@pytest.mark.parametrize(
    ("mode", "on_miss"),
    [("simulate", "record"), ("replay", "scenario"), ("auto", "scenario")],
)
def test_where_something_is_simulated_nothing_is_said(
    tmp_path: Path, mode: str, on_miss: str
) -> None:
    assert said(tmp_path, mode, on_miss, mock="{reply: Hi}", silence=7.0) == []


@pytest.mark.parametrize(
    ("mode", "on_miss", "hint"),
    [
        ("record", "record", ("record has the provider answer everything; llm-proxy simulate needs "
         "none")),
        ("auto", "record", _MISS),
        ("auto", "passthrough", _MISS),
        ("replay", "fail", _MISS),
    ],
)  # fmt: skip
def test_options_of_simulation_without_effect_are_named(
    tmp_path: Path, mode: str, on_miss: str, hint: str
) -> None:
    one = said(tmp_path, mode, on_miss, mock="{reply: Hi}")
    several = said(
        tmp_path,
        mode,
        on_miss,
        scenarios=tmp_path,
        respond="a:b",
        on_unknown="synthesis",
        silence=7.0,
    )

    assert one == [f"--mock has {_IDLE}{hint}"]
    assert several == [f"--scenarios, --respond, --on-unknown, --silence have {_IDLE}{hint}"]


@pytest.mark.parametrize("mode", ["record", "auto", "replay"])
def test_nothing_is_said_of_options_that_nobody_gave(tmp_path: Path, mode: str) -> None:
    assert said(tmp_path, mode, "record") == []


def test_a_silence_has_an_effect_on_faults(tmp_path: Path) -> None:
    faults = (parse_rule("hang"),)
    it = settings(
        tmp_path, on_miss="fail", simulating=SimulationOptions(silence=7.0), faults=faults
    )
    assert [
        settings_warning
        for settings_warning in settings_warnings("replay", it)
        if "no effect" in settings_warning
    ] == []
