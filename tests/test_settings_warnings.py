"""Defaults of settings, and warnings about options that probably lack the intended effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from case_tables import each_row
from in_process_proxy import settings
from llm_proxy.cli.options import build_settings
from llm_proxy.cli.serve import record
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.shell.running.settings import Settings, settings_warnings

_AGAIN_WARNING = "--again replay has no effect with --on-miss passthrough"
_NO_EFFECT = "no effect without --on-miss scenario"


def warnings_for(folder: Path, mode: str, on_miss: str, **simulation: Any) -> list[str]:
    """The warnings, except the one about an empty library."""
    run_settings = settings(folder, on_miss=on_miss, **simulation)
    return [
        settings_warning
        for settings_warning in settings_warnings(mode, run_settings)
        if "every request is a miss" not in settings_warning
    ]


@each_row(
    ("mode", "on_miss"),
    [("simulate", "record"), ("record", "record"), ("replay", "scenario"), ("auto", "scenario")],
)
def test_no_warning_where_something_is_simulated(tmp_path: Path, mode: str, on_miss: str) -> None:
    assert warnings_for(tmp_path, mode, on_miss, mock="{reply: Hi}", silence=7.0) == []


@each_row(("mode", "on_miss"), [("auto", "record"), ("auto", "passthrough"), ("replay", "fail")])
def test_simulation_options_without_effect_are_named(
    tmp_path: Path, mode: str, on_miss: str
) -> None:
    one_option = warnings_for(tmp_path, mode, on_miss, mock="{reply: Hi}")
    several_options = warnings_for(
        tmp_path,
        mode,
        on_miss,
        scenarios=tmp_path,
        respond="a:b",
        on_unknown="synthesis",
        on_mismatch="error",
        silence=7.0,
    )

    assert one_option == [f"--mock has {_NO_EFFECT}"]
    assert several_options == [
        f"--scenarios, --respond, --on-unknown, --on-mismatch, --silence have {_NO_EFFECT}"
    ]


@each_row("mode", ["record", "auto", "replay"])
def test_no_warning_about_options_that_are_not_given(tmp_path: Path, mode: str) -> None:
    assert warnings_for(tmp_path, mode, "record") == []


@each_row(
    ("mode", "on_miss", "again", "expected_warnings"),
    [
        ("auto", "record", "replay", []),
        ("auto", "passthrough", "record", []),
        (
            "auto",
            "passthrough",
            "replay",
            [_AGAIN_WARNING],
        ),
        ("replay", "fail", "replay", []),  # from a settings file, which all commands share
    ],
)
def test_again_has_an_effect_only_on_recordings(
    tmp_path: Path, mode: str, on_miss: str, again: str, expected_warnings: list[str]
) -> None:
    assert warnings_for(tmp_path, mode, on_miss, again=again) == expected_warnings


def test_a_silence_has_an_effect_on_faults(tmp_path: Path) -> None:
    faults = (parse_rule("hang"),)
    run_settings = settings(tmp_path, on_miss="fail", silence=7.0, faults=faults)
    assert [
        settings_warning
        for settings_warning in settings_warnings("replay", run_settings)
        if "no effect" in settings_warning
    ] == []


def test_options_and_settings_have_the_same_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no settings file is

    values = record.make_context("record", []).params
    given = build_settings(values, command=(), contacts_provider=False)

    assert given == Settings(
        cassettes=given.cassettes, spool=given.spool, port=given.port, state=given.state
    )
