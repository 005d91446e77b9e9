"""Reports the mistakes and warnings in files: as lines or as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from llm_proxy.cli.json_documents import mistake_document
from llm_proxy.cli.output import StyledText, print_json, print_lines, print_note
from llm_proxy.display import count_with_noun
from llm_proxy.scenario.documents.mistakes import DocumentMistake

STRICT_OPTION: Final = click.option(
    "--strict", is_flag=True, help="Exit with 1 if there are warnings, too."
)


def report_problems(
    problems: Sequence[DocumentMistake], noun: str, count: int, *, strict: bool, as_json: bool
) -> int:
    """Print the problems, errors first; returns the exit code.

    `count` is the number of valid documents, and `noun` names one of them.  With `strict`,
    warnings are failures too.
    """
    failing = [problem for problem in problems if problem.fails_lint]
    warnings = [problem for problem in problems if not problem.fails_lint]
    fine = not failing and not (strict and warnings)
    if as_json:
        documents = list(map(mistake_document, (*failing, *warnings)))
        print_json({"ok": fine, f"{noun}s": count, "problems": documents})
    else:
        print_lines(StyledText(str(mistake), "bad") for mistake in failing)
        print_lines((f"{warning} ", StyledText("(warning)", "dim")) for warning in warnings)
        counted = count_with_noun(count, noun)
        found = [
            count_with_noun(len(mistakes), kind)
            for mistakes, kind in ((failing, "error"), (warnings, "warning"))
            if mistakes
        ]
        print_note(
            f"{' and '.join(found)} found; {counted} loaded"
            if found
            else f"{counted} checked, no problems found"
        )
    return 0 if fine else 1
