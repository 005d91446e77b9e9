"""`scenario ls`: the scenarios that there are, one a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG, scenarios
from llm_proxy.cli.output.json_documents import mistake_document
from llm_proxy.cli.output.printing import Line, StyledText, print_json, print_lines, print_note
from llm_proxy.cli.output.tables import TableColumn, print_table
from llm_proxy.scenario.documents.checking import Located
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.loading import LoadedScenarios
from llm_proxy.shell.scenarios.files import load_all

_HEADS: Final = (
    TableColumn("scenario"),
    TableColumn("turns", right=True),
    TableColumn("description", spare=1),
    TableColumn("place", spare=2),
)


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios
@CONFIG
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
    found = load_all(paths or (scenarios,))
    if as_json:
        print_json(_scenario_list_document(found))
    else:
        if found.scenarios:
            print_table(_HEADS, [_scenario_row(scenario) for scenario in found.scenarios])
        print_lines((StyledText(f"mistake: {mistake}", "bad"),) for mistake in found.mistakes)
        print_note(_summary_line(found))
    raise click.exceptions.Exit(1 if found.mistakes else 0)


def _scenario_row(located: Located[Scenario]) -> Line:
    return (
        StyledText(located.value.id),
        StyledText(str(len(located.value.turns))),
        StyledText(located.value.description),
        StyledText(f"{located.file}:{located.line}"),
    )


def _summary_line(found: LoadedScenarios) -> str:
    parts = [display.count_noun(len(found.scenarios), "scenario")]
    if found.mock is not None:
        parts.append(f"the mock {found.mock.name}")
    if found.mistakes:
        parts.append(display.count_noun(len(found.mistakes), "mistake"))
    return ", ".join(parts)


def _scenario_list_document(found: LoadedScenarios) -> dict[str, Any]:
    return {
        "scenarios": [
            {
                "id": scenario.value.id,
                "turns": [step.turn for step in scenario.value.turns],
                "description": scenario.value.description,
                "file": scenario.file,
                "line": scenario.line,
            }
            for scenario in found.scenarios
        ],
        "mock": None if found.mock is None else found.mock.name,
        "mistakes": [mistake_document(mistake) for mistake in found.mistakes],
    }
