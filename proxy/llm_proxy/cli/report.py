"""`report`: prints the figures of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

import click

from llm_proxy.cli.journals import SOURCE_ARGUMENT, load_run
from llm_proxy.cli.options import json_option
from llm_proxy.cli.output import StyledText, print_json, print_lines
from llm_proxy.display import count_with_noun, escape_line, format_duration
from llm_proxy.misses import run_summary
from llm_proxy.run_report import FaultRuleFigures, RunReport
from llm_proxy.run_report import run_report as report_of
from llm_proxy.verdict.findings import format_repeat_count

_NAME_COLUMNS: Final = 10
"""Width of the labels."""
_DOCUMENT_VERSION: Final = 1


@click.command
@SOURCE_ARGUMENT
@json_option
def report(source: str | None, *, as_json: bool) -> None:
    r"""Tell a run in figures: what answered, with which status, how long it took, which faults.

    The lateness is how far writes were behind the times that the pace had for them. SOURCE is a
    file that --journal wrote, or the URL of a running proxy; without it the proxy of
    LLM_PROXY_URL is asked, else the one on port 4777.

    \b
    Examples:
      llm-proxy replay --journal run.json -- pytest tests/
      llm-proxy report run.json
      llm-proxy report http://127.0.0.1:4777 --json | jq .lateness.worst
    """
    run_report = report_of(load_run(source))
    if as_json:
        print_json({"report": _DOCUMENT_VERSION, **asdict(run_report)})
    else:
        print_lines(
            (StyledText(f"{name:<{_NAME_COLUMNS}}", "bold"), escape_line(text))
            for name, text in _report_rows(run_report)
        )


def _report_rows(run_report: RunReport) -> Iterator[tuple[str, str]]:
    """The labels and texts of a report's lines."""
    kept = (
        ""
        if run_report.kept == run_report.requests
        else f", of which the latest {run_report.kept:,} are told here"
    )
    yield "requests", f"{run_report.requests:,}{kept}"
    if not run_report.kept:
        return
    yield "sessions", f"{run_report.sessions:,}"
    yield "answers", _counts_text(run_report.origins)
    yield "statuses", _counts_text(run_report.statuses)
    yield "endings", _counts_text(run_report.endings)
    if run_report.retries:
        yield "retries", f"{run_report.retries:,} by the count of their SDKs"
    if (times := run_report.times) is not None:
        median, p95, worst = map(_format_ms, (times.median, times.p95, times.worst))
        yield "times", f"median {median}, 95 % within {p95}, worst {worst}"
    if run_report.paces:
        yield "paces", _counts_text(run_report.paces)
    if (lateness := run_report.lateness) is not None:
        over = count_with_noun(lateness.requests, "request")
        if lateness.writes is not None:
            over = f"{count_with_noun(lateness.writes, 'write')} of {over}"
        mean, worst = _format_ms(lateness.mean), _format_ms(lateness.worst)
        yield "lateness", f"mean {mean}, worst {worst}, over {over}"
    if run_report.nearest:
        answers = count_with_noun(run_report.nearest, "answer")
        yield "nearest", f"{answers} of a cassette that is only alike"
    for text in run_summary.miss_log_lines(run_report.misses):
        yield ("", text) if text.startswith(" ") else ("miss", text.removeprefix("missed: "))
    for figures in run_report.faults:
        yield "fault", _fault_text(figures)
    names = {figures.rule for figures in run_report.faults}
    for rule in run_report.never:
        if rule not in names:
            yield "fault", f"{rule}: never struck"


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def _fault_text(figures: FaultRuleFigures) -> str:
    struck = f"struck {format_repeat_count(figures.faults)}" if figures.faults else "never struck"
    skipped = ""
    if figures.skipped:
        count = format_repeat_count(figures.skipped)
        skipped = f", could not {count}: {'; '.join(figures.why)}"
    return f"{figures.rule}: {struck}{skipped}"


def _format_ms(ms: float) -> str:
    return format_duration(max(0.0, ms))
