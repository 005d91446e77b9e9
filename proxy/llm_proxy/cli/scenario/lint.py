"""`scenario lint`: everything that is wrong or doubtful in scenario files."""

from __future__ import annotations

from pathlib import Path

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG, scenarios
from llm_proxy.cli.output.json_documents import mistake_document
from llm_proxy.cli.output.printing import Line, Span, line, print_json, print_lines, print_note
from llm_proxy.scenario.documents.loading import Loaded
from llm_proxy.scenario.documents.mistakes import Mistake
from llm_proxy.shell.scenarios.files import loaded


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
    found = loaded(paths or (scenarios,))
    wrong, doubtful = _sorted(found)
    fine = not wrong and not (strict and doubtful)
    if as_json:
        problems = [mistake_document(it) for it in (*wrong, *doubtful)]
        print_json({"ok": fine, "scenarios": len(found.scenarios), "problems": problems})
    else:
        print_lines(_line(it) for it in (*wrong, *doubtful))
        print_note(_summary(found, len(wrong), len(doubtful)))
    raise click.exceptions.Exit(0 if fine else 1)


def _sorted(found: Loaded) -> tuple[list[Mistake], list[Mistake]]:
    """What `lint` fails over, and the rest."""
    wrong = [*found.mistakes, *(it for it in found.warnings if it.fails_lint)]
    return wrong, [it for it in found.warnings if not it.fails_lint]


def _line(it: Mistake) -> Line:
    return line(Span(str(it), "bad")) if it.fails_lint else line(f"{it} ", Span("(warning)", "dim"))


def _summary(found: Loaded, wrong: int, doubtful: int) -> str:
    fine = display.counted(len(found.scenarios), "scenario")
    parts = []
    if wrong:
        parts.append(display.counted(wrong, "mistake"))
    if doubtful:
        parts.append(display.counted(doubtful, "warning"))
    if not parts:
        return f"{fine} checked, nothing is wrong"
    return f"{' and '.join(parts)}; {fine} can be played"
