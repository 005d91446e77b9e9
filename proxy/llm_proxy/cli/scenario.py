"""`scenario`: lists scenarios, and checks their files."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from llm_proxy.cli.commands import CommandEntry, LazyCommandGroup
from llm_proxy.cli.json_documents import mistake_document
from llm_proxy.cli.lint_report import STRICT_OPTION, report_problems
from llm_proxy.cli.options import CONFIG_OPTION, json_option, scenarios_option
from llm_proxy.cli.output import (
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
)
from llm_proxy.display import count_with_noun
from llm_proxy.shell.scenarios import load_scenarios

_COMMANDS: Final = MappingProxyType(
    {
        "ls": CommandEntry("scenario", "List scenarios."),
        "try": CommandEntry("scenario_try", "Show which scenario responds to a request.", "try_"),
        "from": CommandEntry("scenario_from", "Create a scenario from cassettes.", "from_"),
        "lint": CommandEntry("scenario", "Check scenario files."),
    }
)
_LS_COLUMNS: Final = (
    TableColumn("scenario"),
    TableColumn("turns", is_right_aligned=True),
    TableColumn("description", drop_priority=1),
    TableColumn("location", drop_priority=2),
)


@click.group(cls=LazyCommandGroup, sections={"Commands": _COMMANDS})
def scenario() -> None:
    r"""List, check, try and create scenarios.

    A scenario defines the responses of a conversation. Scenario files are YAML or JSON.

    \b
    Examples:
      llm-proxy scenario ls
      llm-proxy scenario lint tests/scenarios
    """


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios_option
@CONFIG_OPTION
@json_option
def ls(paths: tuple[Path, ...], scenarios: Path, *, as_json: bool) -> None:
    r"""List scenarios.

    PATHS are scenario files and folders. The default is the value of --scenarios. If a file
    contains errors, the errors are listed and the exit code is 1.

    \b
    Examples:
      llm-proxy scenario ls
      llm-proxy scenario ls tests/scenarios/refund.yaml
      llm-proxy scenario ls --json | jq -r '.scenarios[].id'
    """
    loaded = load_scenarios(paths or (scenarios,))
    if as_json:
        document = {
            "scenarios": [
                {
                    "id": scenario.value.id,
                    "turns": [step.turn for step in scenario.value.turns],
                    "description": scenario.value.description,
                    "file": scenario.file,
                    "line": scenario.line,
                }
                for scenario in loaded.scenarios
            ],
            "mock": None if loaded.mock is None else loaded.mock.name,
            "errors": [mistake_document(mistake) for mistake in loaded.mistakes],
        }
        print_json(document)
    else:
        rows = [
            (
                scenario.value.id,
                str(len(scenario.value.turns)),
                scenario.value.description,
                f"{scenario.file}:{scenario.line}",
            )
            for scenario in loaded.scenarios
        ]
        if rows:
            print_table(_LS_COLUMNS, rows)
        print_lines(StyledText(f"error: {mistake}", "bad") for mistake in loaded.mistakes)
        parts = [count_with_noun(len(loaded.scenarios), "scenario")]
        if loaded.mock is not None:
            parts.append(f"mock '{loaded.mock.name}'")
        if loaded.mistakes:
            parts.append(count_with_noun(len(loaded.mistakes), "error"))
        print_note(", ".join(parts))
    raise click.exceptions.Exit(1 if loaded.mistakes else 0)


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios_option
@CONFIG_OPTION
@STRICT_OPTION
@json_option
def lint(paths: tuple[Path, ...], scenarios: Path, *, strict: bool, as_json: bool) -> None:
    r"""Check scenario files.

    PATHS are scenario files and folders. The default is the value of --scenarios. Each problem is
    printed as FILE:LINE:COLUMN: PATH: MESSAGE. Warnings end with "(warning)". The exit code is 1
    if any error is found.

    \b
    Examples:
      llm-proxy scenario lint
      llm-proxy scenario lint tests/scenarios --strict
      git diff --name-only --diff-filter=d '*.yaml' | xargs -r llm-proxy scenario lint
    """
    loaded = load_scenarios(paths or (scenarios,))
    exit_code = report_problems(
        [*loaded.mistakes, *loaded.warnings],
        "scenario",
        len(loaded.scenarios),
        strict=strict,
        as_json=as_json,
    )
    raise click.exceptions.Exit(exit_code)
