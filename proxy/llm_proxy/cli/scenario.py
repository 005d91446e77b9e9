"""`scenario`: lists scenarios, and checks their files."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from llm_proxy.cli.commands import CommandEntry, LazyCommandGroup
from llm_proxy.cli.json_documents import mistake_document
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
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings, too.")
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
    failing = [*loaded.mistakes, *(warning for warning in loaded.warnings if warning.fails_lint)]
    warnings = [warning for warning in loaded.warnings if not warning.fails_lint]
    fine = not failing and not (strict and warnings)
    if as_json:
        problems = list(map(mistake_document, (*failing, *warnings)))
        print_json({"ok": fine, "scenarios": len(loaded.scenarios), "problems": problems})
    else:
        print_lines(StyledText(str(mistake), "bad") for mistake in failing)
        print_lines((f"{warning} ", StyledText("(warning)", "dim")) for warning in warnings)
        count = count_with_noun(len(loaded.scenarios), "scenario")
        found = [
            count_with_noun(len(mistakes), noun)
            for mistakes, noun in ((failing, "error"), (warnings, "warning"))
            if mistakes
        ]
        print_note(
            f"{' and '.join(found)} found; {count} loaded"
            if found
            else f"{count} checked, no problems found"
        )
    raise click.exceptions.Exit(0 if fine else 1)
