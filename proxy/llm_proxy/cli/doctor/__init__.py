"""`doctor`: what is wrong with this machine, this environment or this library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cli.doctor import library, machine
from llm_proxy.cli.doctor.results import CheckLevel, CheckResult
from llm_proxy.cli.options import CONFIG, PORT, cassettes, normalise, spool
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.shell.running.settings import default_spool

_STYLES: Final = {CheckLevel.OK: "good", CheckLevel.WARNING: "doubtful", CheckLevel.PROBLEM: "bad"}
_LEVEL: Final = max(map(len, CheckLevel))
_NAME: Final = 15
"""Columns."""


@click.command
@cassettes
@spool
@normalise
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def doctor(
    cassettes: Path, spool: Path | None, normalise: tuple[str, ...], *, as_json: bool
) -> None:
    r"""Check this machine and this library for trouble.

    Looks at versions, the HTTP parser, proxies and base URLs in the environment, the port, the
    event loop, the decoders, the library and the recordings that a crash left behind. Each line
    is ok, a warning (it works, but not as you may think) or a problem, which makes the exit
    code 1. Nothing is changed.

    \b
    Examples:
      llm-proxy doctor
      llm-proxy doctor --cassettes tests/cassettes
      llm-proxy doctor --json | jq '.checks[] | select(.level != "ok")'
    """
    verdicts = [
        *machine.machine_checks(os.environ, PORT),
        *library.library_checks(
            cassettes, spool or default_spool(os.environ), parse_rules(normalise)
        ),
    ]
    if as_json:
        print_json(_doctor_document(verdicts))
    else:
        print_lines(_verdict_line(verdict) for verdict in verdicts)
        print_note(_summary_line(verdicts))
    raise click.exceptions.Exit(1 if _count_level(verdicts, CheckLevel.PROBLEM) else 0)


def _verdict_line(check_result: CheckResult) -> Line:
    level = StyledText(f"{check_result.level:<{_LEVEL}}", _STYLES[check_result.level])
    return styled_line(
        level,
        "  ",
        StyledText(f"{check_result.name:<{_NAME}} ", "bold"),
        display.escape_line(check_result.text),
    )


def _count_level(verdicts: Sequence[CheckResult], level: CheckLevel) -> int:
    return sum(verdict.level is level for verdict in verdicts)


def _summary_line(verdicts: Sequence[CheckResult]) -> str:
    problems = display.count_noun(_count_level(verdicts, CheckLevel.PROBLEM), "problem")
    return (
        f"{problems}, {display.count_noun(_count_level(verdicts, CheckLevel.WARNING), 'warning')}"
    )


def _doctor_document(verdicts: Sequence[CheckResult]) -> dict[str, Any]:
    return {
        "ok": not _count_level(verdicts, CheckLevel.PROBLEM),
        "checks": [
            {
                "name": verdict.name,
                "level": verdict.level.value,
                "text": display.escape_path(verdict.text),
            }
            for verdict in verdicts
        ],
    }
