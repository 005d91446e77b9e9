"""`report`: prints the figures of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

import click

from llm_proxy.cli.journals import SOURCE_ARGUMENT, load_run
from llm_proxy.cli.output.printing import Line, StyledText, print_json, print_lines, styled_line
from llm_proxy.display import count_with_noun, escape_line, format_duration
from llm_proxy.misses import run_summary
from llm_proxy.run_report import FaultRuleFigures, LatencyFigures, LatenessFigures, RunReport
from llm_proxy.run_report import run_report as report_of
from llm_proxy.verdict.findings import format_repeat_count

_NAME_COLUMNS: Final = 10
"""Width of the labels."""
_DOCUMENT_VERSION: Final = 1


@click.command
@SOURCE_ARGUMENT
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
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
        print_lines(_report_lines(run_report))


def _report_lines(run_report: RunReport) -> Iterator[Line]:
    kept = (
        ""
        if run_report.kept == run_report.requests
        else f", of which the latest {run_report.kept:,} are told here"
    )
    yield _labelled_line("requests", f"{run_report.requests:,}{kept}")
    if not run_report.kept:
        return
    yield _labelled_line("sessions", f"{run_report.sessions:,}")
    yield _labelled_line("answers", _counts_text(run_report.origins))
    yield _labelled_line("statuses", _counts_text(run_report.statuses))
    yield _labelled_line("endings", _counts_text(run_report.endings))
    if run_report.retries:
        yield _labelled_line("retries", f"{run_report.retries:,} by the count of their SDKs")
    if run_report.times is not None:
        yield _labelled_line("times", _latency_text(run_report.times))
    if run_report.paces:
        yield _labelled_line("paces", _counts_text(run_report.paces))
    if run_report.lateness is not None:
        yield _labelled_line("lateness", _lateness_text(run_report.lateness))
    yield from _miss_lines(run_report)
    yield from _fault_lines(run_report)


def _miss_lines(run_report: RunReport) -> Iterator[Line]:
    if run_report.nearest:
        alike = count_with_noun(run_report.nearest, "answer")
        yield _labelled_line("nearest", f"{alike} of a cassette that is only alike")
    for text in run_summary.miss_log_lines(run_report.misses):
        yield (
            _labelled_line("", text)
            if text.startswith(" ")
            else _labelled_line("miss", text.removeprefix("missed: "))
        )


def _fault_lines(run_report: RunReport) -> Iterator[Line]:
    for figures in run_report.faults:
        yield _labelled_line("fault", _fault_rule_text(figures))
    names = {figures.rule for figures in run_report.faults}
    for rule in (text for text in run_report.never if text not in names):
        yield _labelled_line("fault", f"{rule}: never struck")


def _labelled_line(name: str, text: str) -> Line:
    return styled_line(StyledText(f"{name:<{_NAME_COLUMNS}}", "bold"), escape_line(text))


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def _latency_text(latency_figures: LatencyFigures) -> str:
    median, p95 = _format_ms(latency_figures.median), _format_ms(latency_figures.p95)
    return f"median {median}, 95 % within {p95}, worst {_format_ms(latency_figures.worst)}"


def _lateness_text(lateness_figures: LatenessFigures) -> str:
    requests = count_with_noun(lateness_figures.requests, "request")
    over = (
        requests
        if lateness_figures.writes is None
        else f"{count_with_noun(lateness_figures.writes, 'write')} of {requests}"
    )
    mean, worst = _format_ms(lateness_figures.mean), _format_ms(lateness_figures.worst)
    return f"mean {mean}, worst {worst}, over {over}"


def _fault_rule_text(fault_rule_figures: FaultRuleFigures) -> str:
    why = "; ".join(fault_rule_figures.why)
    skipped = (
        f", could not {format_repeat_count(fault_rule_figures.skipped)}: {why}"
        if fault_rule_figures.skipped
        else ""
    )
    return (
        f"{fault_rule_figures.rule}: "
        + (
            f"struck {format_repeat_count(fault_rule_figures.faults)}"
            if fault_rule_figures.faults
            else "never struck"
        )
        + skipped
    )


def _format_ms(ms: float) -> str:
    return format_duration(max(0.0, ms))
