"""`scenario ls`: the scenarios that there are, one a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG, scenarios
from llm_proxy.cli.output.json_documents import mistake_document
from llm_proxy.cli.output.printing import Line, Span, print_json, print_lines, print_note
from llm_proxy.cli.output.tables import Column, print_table
from llm_proxy.scenario.documents.checking import Placed
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.loading import Loaded
from llm_proxy.shell.scenarios.files import loaded

_HEADS: Final = (
    Column("scenario"),
    Column("turns", right=True),
    Column("description", spare=1),
    Column("place", spare=2),
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
    found = loaded(paths or (scenarios,))
    if as_json:
        print_json(_document(found))
    else:
        if found.scenarios:
            print_table(_HEADS, [_row(it) for it in found.scenarios])
        print_lines((Span(f"mistake: {it}", "bad"),) for it in found.mistakes)
        print_note(_summary(found))
    raise click.exceptions.Exit(1 if found.mistakes else 0)


def _row(it: Placed[Scenario]) -> Line:
    return (
        Span(it.value.id),
        Span(str(len(it.value.turns))),
        Span(it.value.description),
        Span(f"{it.file}:{it.line}"),
    )


def _summary(found: Loaded) -> str:
    parts = [display.counted(len(found.scenarios), "scenario")]
    if found.mock is not None:
        parts.append(f"the mock {found.mock.name}")
    if found.mistakes:
        parts.append(display.counted(len(found.mistakes), "mistake"))
    return ", ".join(parts)


def _document(found: Loaded) -> dict[str, Any]:
    return {
        "scenarios": [
            {
                "id": it.value.id,
                "turns": [step.turn for step in it.value.turns],
                "description": it.value.description,
                "file": it.file,
                "line": it.line,
            }
            for it in found.scenarios
        ],
        "mock": None if found.mock is None else found.mock.name,
        "mistakes": [mistake_document(it) for it in found.mistakes],
    }
