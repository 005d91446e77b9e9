"""`report`: what a run was, in figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

import click

from llm_proxy.cli.journals import SOURCE, run_of
from llm_proxy.cli.output.printing import Line, Span, line, print_json, print_lines
from llm_proxy.display import counted, duration, one_line
from llm_proxy.misses import grouping
from llm_proxy.run_report import Lateness, Report, Struck, Times
from llm_proxy.run_report import report as report_of
from llm_proxy.verdict.sentences import times

_NAME: Final = 10
"""Columns."""
_VERSION: Final = 1


@click.command
@SOURCE
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
    it = report_of(run_of(source))
    if as_json:
        print_json({"report": _VERSION, **asdict(it)})
    else:
        print_lines(_lines(it))


def _lines(it: Report) -> Iterator[Line]:
    kept = "" if it.kept == it.requests else f", of which the latest {it.kept:,} are told here"
    yield _row("requests", f"{it.requests:,}{kept}")
    if not it.kept:
        return
    yield _row("sessions", f"{it.sessions:,}")
    yield _row("answers", _words(it.origins))
    yield _row("statuses", _words(it.statuses))
    yield _row("endings", _words(it.endings))
    if it.retries:
        yield _row("retries", f"{it.retries:,} by the count of their SDKs")
    if it.times is not None:
        yield _row("times", _times(it.times))
    if it.paces:
        yield _row("paces", _words(it.paces))
    if it.lateness is not None:
        yield _row("lateness", _lateness(it.lateness))
    yield from _misses(it)
    yield from _faults(it)


def _misses(it: Report) -> Iterator[Line]:
    if it.nearest:
        alike = counted(it.nearest, "answer")
        yield _row("nearest", f"{alike} of a cassette that is only alike")
    for text in grouping.lines(it.misses):
        yield (
            _row("", text) if text.startswith(" ") else _row("miss", text.removeprefix("missed: "))
        )


def _faults(it: Report) -> Iterator[Line]:
    for struck in it.faults:
        yield _row("fault", _fault(struck))
    told = {struck.rule for struck in it.faults}
    for rule in (it for it in it.never if it not in told):
        yield _row("fault", f"{rule}: never struck")


def _row(name: str, text: str) -> Line:
    return line(Span(f"{name:<{_NAME}}", "bold"), one_line(text))


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def _times(it: Times) -> str:
    return f"median {_ms(it.median)}, 95 % within {_ms(it.p95)}, worst {_ms(it.worst)}"


def _lateness(it: Lateness) -> str:
    requests = counted(it.requests, "request")
    over = requests if it.writes is None else f"{counted(it.writes, 'write')} of {requests}"
    return f"mean {_ms(it.mean)}, worst {_ms(it.worst)}, over {over}"


def _fault(it: Struck) -> str:
    why = "; ".join(it.why)
    skipped = f", could not {times(it.skipped)}: {why}" if it.skipped else ""
    return (
        f"{it.rule}: " + (f"struck {times(it.faults)}" if it.faults else "never struck") + skipped
    )


def _ms(ms: float) -> str:
    return duration(max(0.0, ms))
