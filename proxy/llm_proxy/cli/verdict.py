"""`verdict`: judges how the clients of a run handled its faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from llm_proxy import display
from llm_proxy.cli.journals import SOURCE_ARGUMENT, load_run
from llm_proxy.cli.options import ChoiceType, grouped_option, json_option
from llm_proxy.cli.output import Line, StyledText, print_json, print_lines, print_note
from llm_proxy.errors import UsageError
from llm_proxy.verdict.findings import FindingLevel, VerdictFinding
from llm_proxy.verdict.judging import DEFAULT_LEVEL, JudgedCase, RunVerdict, verdict_document
from llm_proxy.verdict.judging import judge_run as judged
from llm_proxy.verdict.junit import NOTHING_INJECTED, junit_xml

_STYLES: Final = {
    FindingLevel.NOTE: "dim",
    FindingLevel.WARNING: "doubtful",
    FindingLevel.ERROR: "bad",
}
_LEVEL_COLUMNS: Final = max(map(len, FindingLevel))
_MAX_SHOWN_EVIDENCE: Final = 8
"""Pieces of evidence that are printed for one finding."""

level_option = grouped_option("Checks and reports")(
    "--level",
    metavar="LEVEL",
    type=ChoiceType([finding_level.value for finding_level in FindingLevel]),
    default=DEFAULT_LEVEL.value,
    show_default=True,
    help="Fail on findings of this level or above: note, warning, error.",
)


@click.command
@SOURCE_ARGUMENT
@level_option
@json_option
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write JUnit XML to this file, for CI.",
)
def verdict(source: str | None, *, level: str, as_json: bool, junit: Path | None) -> None:
    r"""Report how the clients of a run handled the injected faults.

    The verdict covers retries, timeouts, and whether a client accepted an incomplete or malformed
    response. The rules are in docs/reference/verdict.md.

    SOURCE is a file written by --journal, or the URL of a running proxy. The default is the
    URL in LLM_PROXY_URL, or else http://127.0.0.1:4777.

    \b
    Examples:
      llm-proxy simulate --scenarios failures.yaml --journal run.json -- pytest tests/
      llm-proxy verdict run.json
      llm-proxy verdict run.json --level error --junit verdict.xml
      llm-proxy verdict http://127.0.0.1:4777 --json | jq '.findings[].message'

    Each finding is a note, a warning or an error. The exit code is 1 if there is a finding at or
    above --level.
    """
    journal = load_run(source)
    run_verdict = judged(journal.entries, journal.listener_closures)
    threshold = FindingLevel(level)
    if junit is not None:
        try:
            junit.write_bytes(junit_xml(run_verdict, threshold))
        except OSError as error:
            raise UsageError(f"cannot write {junit}: {error.strerror}") from None
    if as_json:
        print_json(verdict_document(run_verdict, threshold))
    else:
        for case in run_verdict.cases_with_findings:
            if case.finding is not None:
                print_lines(finding_lines(case, case.finding))
        print_note(_summary_line(run_verdict))
    raise click.exceptions.Exit(1 if run_verdict.cases_at_or_above(threshold) else 0)


def finding_lines(
    case: JudgedCase, finding: VerdictFinding, max_evidence: int = _MAX_SHOWN_EVIDENCE
) -> Iterator[Line]:
    """A finding as it is printed: message, request, at most `max_evidence` evidence, advice."""
    first = case.chain.first_attempt
    level = StyledText(f"{finding.level:<{_LEVEL_COLUMNS}}", _STYLES[finding.level])
    rule = StyledText(case.rule.name, "bold")
    yield level, "  ", rule, f": {display.escape_line(finding.message)}"
    model = f", {first.model}" if first.model else ""
    where = f"{first.method} {first.path}, session {first.session or 'none'}{model}"
    yield f"  {display.escape_line(where)}"
    for evidence in finding.evidence[:max_evidence]:
        yield f"  {display.escape_line(str(evidence))}"
    if (more := len(finding.evidence) - max_evidence) > 0:
        yield f"  and {more:,} more (use --json to list all)"
    yield StyledText(f"  Advice: {case.rule.advice}.", "dim")


def _summary_line(run_verdict: RunVerdict) -> str:
    skipped = (
        f"; {display.count_with_noun(run_verdict.skipped_fault_count, 'fault')} skipped"
        if run_verdict.skipped_fault_count
        else ""
    )
    if not run_verdict.fault_count:
        return NOTHING_INJECTED + skipped
    handled = {1: "it", 2: "both"}.get(run_verdict.fault_count, "all of them")
    counts = {level: run_verdict.count_findings(level) for level in reversed(FindingLevel)}
    found = ", ".join(
        display.count_with_noun(number, level) for level, number in counts.items() if number
    )
    injected = f"{display.count_with_noun(run_verdict.fault_count, 'fault')} injected"
    return f"{injected}; {found or f'the client handled {handled}'}{skipped}"
