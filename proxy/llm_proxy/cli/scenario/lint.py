"""`scenario lint`: everything that is wrong or doubtful in scenario files."""

from __future__ import annotations

from pathlib import Path

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG, scenarios
from llm_proxy.cli.output.json_documents import mistake_document
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.scenario.documents.loading import LoadedScenarios
from llm_proxy.scenario.documents.mistakes import DocumentMistake
from llm_proxy.shell.scenarios.files import load_all


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios
@CONFIG
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
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
    found = load_all(paths or (scenarios,))
    wrong, doubtful = _split_by_severity(found)
    fine = not wrong and not (strict and doubtful)
    if as_json:
        problems = [mistake_document(document_mistake) for document_mistake in (*wrong, *doubtful)]
        print_json({"ok": fine, "scenarios": len(found.scenarios), "problems": problems})
    else:
        print_lines(_mistake_line(document_mistake) for document_mistake in (*wrong, *doubtful))
        print_note(_summary_line(found, len(wrong), len(doubtful)))
    raise click.exceptions.Exit(0 if fine else 1)


def _split_by_severity(
    found: LoadedScenarios,
) -> tuple[list[DocumentMistake], list[DocumentMistake]]:
    """What `lint` fails over, and the rest."""
    wrong = [*found.mistakes, *(warning for warning in found.warnings if warning.fails_lint)]
    return wrong, [warning for warning in found.warnings if not warning.fails_lint]


def _mistake_line(document_mistake: DocumentMistake) -> Line:
    return (
        styled_line(StyledText(str(document_mistake), "bad"))
        if document_mistake.fails_lint
        else styled_line(f"{document_mistake} ", StyledText("(warning)", "dim"))
    )


def _summary_line(found: LoadedScenarios, wrong: int, doubtful: int) -> str:
    fine = display.count_noun(len(found.scenarios), "scenario")
    parts = []
    if wrong:
        parts.append(display.count_noun(wrong, "mistake"))
    if doubtful:
        parts.append(display.count_noun(doubtful, "warning"))
    if not parts:
        return f"{fine} checked, nothing is wrong"
    return f"{' and '.join(parts)}; {fine} can be played"
