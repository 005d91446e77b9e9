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
        "ls": CommandEntry("scenario", "List scenarios, one a row."),
        "try": CommandEntry("scenario_try", "Say which scenario answers a request.", "try_"),
        "from": CommandEntry("scenario_from", "Make a scenario of recorded exchanges.", "from_"),
        "lint": CommandEntry("scenario", "Check scenario files, and tell every mistake."),
    }
)
_LS_COLUMNS: Final = (
    TableColumn("scenario"),
    TableColumn("turns", is_right_aligned=True),
    TableColumn("description", drop_priority=1),
    TableColumn("place", drop_priority=2),
)


@click.group(cls=LazyCommandGroup, sections={"Commands": _COMMANDS})
def scenario() -> None:
    r"""List scenarios, check their files, and try them.

    A scenario scripts the answers of a conversation. Its file is YAML or JSON, and holds one
    scenario, a list of them, or an object of scenarios and a mock.

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
    r"""List scenarios, one a row.

    A request asks for a scenario by its id, in the first message of the user. PATHS are files
    and folders; without them the folder of --scenarios is listed. A file with mistakes is told,
    and makes the exit code 1.

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
            "mistakes": [mistake_document(mistake) for mistake in loaded.mistakes],
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
        print_lines(StyledText(f"mistake: {mistake}", "bad") for mistake in loaded.mistakes)
        parts = [count_with_noun(len(loaded.scenarios), "scenario")]
        if loaded.mock is not None:
            parts.append(f"the mock {loaded.mock.name}")
        if loaded.mistakes:
            parts.append(count_with_noun(len(loaded.mistakes), "mistake"))
        print_note(", ".join(parts))
    raise click.exceptions.Exit(1 if loaded.mistakes else 0)


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios_option
@CONFIG_OPTION
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@json_option
def lint(paths: tuple[Path, ...], scenarios: Path, *, strict: bool, as_json: bool) -> None:
    r"""Check scenario files, and tell every mistake at once.

    PATHS are files and folders; without them the folder of --scenarios is checked. Each mistake
    is one line FILE:LINE:COLUMN: PATH: WHY on stdout, and makes the exit code 1; warnings say so
    at the end of their line.

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
            for mistakes, noun in ((failing, "mistake"), (warnings, "warning"))
            if mistakes
        ]
        print_note(
            f"{' and '.join(found)}; {count} can be played"
            if found
            else f"{count} checked, nothing is wrong"
        )
    raise click.exceptions.Exit(0 if fine else 1)
