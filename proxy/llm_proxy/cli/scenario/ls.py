"""`scenario ls`: lists scenarios, one a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG_OPTION, scenarios_option
from llm_proxy.cli.output.json_documents import mistake_document
from llm_proxy.cli.output.printing import Line, StyledText, print_json, print_lines, print_note
from llm_proxy.cli.output.tables import TableColumn, print_table
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.loading import LoadedScenarios
from llm_proxy.scenario.documents.mistakes import Located
from llm_proxy.shell.scenarios.files import load_scenarios

_COLUMNS: Final = (
    TableColumn("scenario"),
    TableColumn("turns", is_right_aligned=True),
    TableColumn("description", drop_priority=1),
    TableColumn("place", drop_priority=2),
)


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios_option
@CONFIG_OPTION
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
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
        print_json(_scenario_list_document(loaded))
    else:
        if loaded.scenarios:
            print_table(_COLUMNS, [_scenario_row(scenario) for scenario in loaded.scenarios])
        print_lines((StyledText(f"mistake: {mistake}", "bad"),) for mistake in loaded.mistakes)
        print_note(_summary_line(loaded))
    raise click.exceptions.Exit(1 if loaded.mistakes else 0)


def _scenario_row(located: Located[Scenario]) -> Line:
    return (
        StyledText(located.value.id),
        StyledText(str(len(located.value.turns))),
        StyledText(located.value.description),
        StyledText(f"{located.file}:{located.line}"),
    )


def _summary_line(loaded: LoadedScenarios) -> str:
    parts = [display.count_with_noun(len(loaded.scenarios), "scenario")]
    if loaded.mock is not None:
        parts.append(f"the mock {loaded.mock.name}")
    if loaded.mistakes:
        parts.append(display.count_with_noun(len(loaded.mistakes), "mistake"))
    return ", ".join(parts)


def _scenario_list_document(loaded: LoadedScenarios) -> dict[str, Any]:
    return {
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
