"""`doctor`: checks this machine, this environment and this library for problems."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cli.doctor import library, machine
from llm_proxy.cli.doctor.results import CheckLevel, CheckResult
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    DEFAULT_PORT,
    cassettes_option,
    normalise_option,
    spool_option,
)
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.shell.running.settings import default_spool_folder

_STYLES: Final = {CheckLevel.OK: "good", CheckLevel.WARNING: "doubtful", CheckLevel.PROBLEM: "bad"}
_LEVEL_COLUMNS: Final = max(map(len, CheckLevel))
_NAME_COLUMNS: Final = 15
"""Width of the name of a check."""


@click.command
@cassettes_option
@spool_option
@normalise_option
@CONFIG_OPTION
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
    results = [
        *machine.run_machine_checks(os.environ, DEFAULT_PORT),
        *library.run_library_checks(
            cassettes, spool or default_spool_folder(os.environ), parse_rules(normalise)
        ),
    ]
    if as_json:
        print_json(_doctor_document(results))
    else:
        print_lines(_result_line(verdict) for verdict in results)
        print_note(_summary_line(results))
    raise click.exceptions.Exit(1 if _count_level(results, CheckLevel.PROBLEM) else 0)


def _result_line(result: CheckResult) -> Line:
    level = StyledText(f"{result.level:<{_LEVEL_COLUMNS}}", _STYLES[result.level])
    return styled_line(
        level,
        "  ",
        StyledText(f"{result.name:<{_NAME_COLUMNS}} ", "bold"),
        display.escape_line(result.text),
    )


def _count_level(results: Sequence[CheckResult], level: CheckLevel) -> int:
    return sum(verdict.level is level for verdict in results)


def _summary_line(results: Sequence[CheckResult]) -> str:
    problems = display.count_with_noun(_count_level(results, CheckLevel.PROBLEM), "problem")
    return (
        f"{problems}, "
        f"{display.count_with_noun(_count_level(results, CheckLevel.WARNING), 'warning')}"
    )


def _doctor_document(results: Sequence[CheckResult]) -> dict[str, Any]:
    return {
        "ok": not _count_level(results, CheckLevel.PROBLEM),
        "checks": [
            {
                "name": verdict.name,
                "level": verdict.level.value,
                "text": display.path_as_unicode_text(verdict.text),
            }
            for verdict in results
        ],
    }
