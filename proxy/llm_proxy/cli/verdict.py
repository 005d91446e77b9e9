"""`verdict`: what the clients of a run made of its faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from llm_proxy import display
from llm_proxy.cli.journals import SOURCE, run_of
from llm_proxy.cli.option_types import OneOf
from llm_proxy.cli.output.printing import Line, Span, line, print_json, print_lines, print_note
from llm_proxy.errors import UsageError
from llm_proxy.verdict import sentences
from llm_proxy.verdict.document import DEFAULT_LEVEL, document
from llm_proxy.verdict.finding import Case, Finding, Level
from llm_proxy.verdict.judging import Verdict
from llm_proxy.verdict.judging import verdict as judged
from llm_proxy.verdict.junit import NOTHING
from llm_proxy.verdict.junit import junit as junit_xml

_STYLES: Final = {Level.NOTE: "dim", Level.WARNING: "doubtful", Level.ERROR: "bad"}
_WIDTH: Final = max(map(len, Level))
_SHOWN: Final = 8
"""Pieces of evidence that are printed of one finding."""


@click.command
@SOURCE
@click.option(
    "--level",
    type=OneOf([it.value for it in Level]),
    default=DEFAULT_LEVEL.value,
    show_default=True,
    help="Findings of this level and above make the exit code 1.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write JUnit XML to this file too, for CI.",
)
def verdict(source: str | None, *, level: str, as_json: bool, junit: Path | None) -> None:
    r"""Judge the clients of a run: what each made of its faults.

    After each fault it is seen whether a client asked again, when, and how often; whether it
    took half an answer for a whole one, passed over what it could not read, or waited for ever.
    SOURCE is a file that --journal wrote, or the URL of a running proxy; without it the proxy of
    LLM_PROXY_URL is asked, else the one on port 4777. The rules are in docs/verdict.md.

    \b
    Examples:
      llm-proxy simulate --scenarios failures.yaml --journal run.json -- pytest tests/
      llm-proxy verdict run.json
      llm-proxy verdict run.json --level error --junit verdict.xml
      llm-proxy verdict http://127.0.0.1:4777 --json | jq '.findings[].message'

    Every finding is a note, a warning or an error. The exit code is 1 where one is a warning or
    worse, or as --level says.
    """
    it = judged(run_of(source).entries)
    threshold = Level(level)
    if junit is not None:
        _write(junit, junit_xml(it, threshold))
    if as_json:
        print_json(document(it, threshold))
    else:
        for case in it.findings:
            if case.finding is not None:
                print_lines(finding_lines(case, case.finding))
        print_note(_summary(it))
    raise click.exceptions.Exit(1 if it.reaching(threshold) else 0)


def finding_lines(case: Case, finding: Finding, shown: int = _SHOWN) -> Iterator[Line]:
    """A finding as it is printed: what, where, by what evidence, and what to do."""
    first = case.chain.first
    level = Span(f"{finding.level:<{_WIDTH}}", _STYLES[finding.level])
    yield line(level, "  ", Span(case.rule.name, "bold"), f": {display.one_line(finding.message)}")
    where = f"{first.method} {first.path}, session {first.session or 'none'}"
    model = f", {first.model}" if first.model else ""
    yield line("  ", display.one_line(where + model))
    for each in finding.evidence[:shown]:
        yield line("  ", display.one_line(sentences.line(each)))
    if (more := len(finding.evidence) - shown) > 0:
        yield line(f"  and {more:,} more: see --json")
    yield line(Span(f"  What to do: {case.rule.advice}.", "dim"))


def _summary(it: Verdict) -> str:
    skipped = f"; {display.counted(it.skipped, 'fault')} could not strike" if it.skipped else ""
    if not it.faults:
        return NOTHING + skipped
    watched = (
        f"{display.counted(it.faults, 'fault')} met by {display.counted(it.requests, 'request')} "
        f"of {display.counted(it.sessions, 'session')}"
    )
    counts = {level: it.count(level) for level in reversed(Level)}
    found = ", ".join(display.counted(number, level) for level, number in counts.items() if number)
    return f"{watched}: {found or 'nothing to find fault with'}{skipped}"


def _write(path: Path, xml: bytes) -> None:
    try:
        path.write_bytes(xml)
    except OSError as error:
        raise UsageError(f"--junit {path} cannot be written: {error.strerror}") from None
