"""`scenario lint`: reports all mistakes and warnings in scenario files."""

from __future__ import annotations

from pathlib import Path

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG_OPTION, scenarios_option
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
from llm_proxy.shell.scenarios.files import load_scenarios


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@scenarios_option
@CONFIG_OPTION
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
    loaded = load_scenarios(paths or (scenarios,))
    failing, warnings = _split_by_severity(loaded)
    fine = not failing and not (strict and warnings)
    if as_json:
        problems = [
            mistake_document(document_mistake) for document_mistake in (*failing, *warnings)
        ]
        print_json({"ok": fine, "scenarios": len(loaded.scenarios), "problems": problems})
    else:
        print_lines(_mistake_line(document_mistake) for document_mistake in (*failing, *warnings))
        print_note(_summary_line(loaded, len(failing), len(warnings)))
    raise click.exceptions.Exit(0 if fine else 1)


def _split_by_severity(
    loaded: LoadedScenarios,
) -> tuple[list[DocumentMistake], list[DocumentMistake]]:
    """Mistakes and warnings that make `lint` fail, and the warnings that do not."""
    failing = [*loaded.mistakes, *(warning for warning in loaded.warnings if warning.fails_lint)]
    return failing, [warning for warning in loaded.warnings if not warning.fails_lint]


def _mistake_line(document_mistake: DocumentMistake) -> Line:
    return (
        styled_line(StyledText(str(document_mistake), "bad"))
        if document_mistake.fails_lint
        else styled_line(f"{document_mistake} ", StyledText("(warning)", "dim"))
    )


def _summary_line(loaded: LoadedScenarios, mistake_count: int, warning_count: int) -> str:
    fine = display.count_with_noun(len(loaded.scenarios), "scenario")
    parts = []
    if mistake_count:
        parts.append(display.count_with_noun(mistake_count, "mistake"))
    if warning_count:
        parts.append(display.count_with_noun(warning_count, "warning"))
    if not parts:
        return f"{fine} checked, nothing is wrong"
    return f"{' and '.join(parts)}; {fine} can be played"
