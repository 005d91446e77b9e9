"""`report`: computes the figures of a run from its journal, and prints them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final

import click

from llm_proxy.cli.journals import SOURCE_ARGUMENT, load_run
from llm_proxy.cli.options import json_option
from llm_proxy.cli.output import StyledText, print_json, print_lines
from llm_proxy.display import count_with_noun, escape_line, format_duration
from llm_proxy.journal_document import JournalDocument, JournalEntry
from llm_proxy.misses.run_summary import group_misses, miss_lines
from llm_proxy.verdict.findings import format_repeat_count

_NAME_COLUMNS: Final = 10
"""Width of the labels."""
_DOCUMENT_VERSION: Final = 1


@click.command
@SOURCE_ARGUMENT
@json_option
def report(source: str | None, *, as_json: bool) -> None:
    r"""Show statistics of a run: response sources, statuses, times, faults, misses.

    Lateness is the delay between the planned and the actual time of a write. SOURCE is a file
    written by --journal, or the URL of a running proxy. The default is the URL in LLM_PROXY_URL,
    or else http://127.0.0.1:4777.

    \b
    Examples:
      llm-proxy replay --journal run.json -- pytest tests/
      llm-proxy report run.json
      llm-proxy report http://127.0.0.1:4777 --json | jq .lateness.worst
    """
    figures = run_figures(load_run(source))
    if as_json:
        print_json({"report": _DOCUMENT_VERSION, **figures})
    else:
        print_lines(
            (StyledText(f"{name:<{_NAME_COLUMNS}}", "bold"), escape_line(text))
            for name, text in _report_rows(figures)
        )


def run_figures(run: JournalDocument) -> dict[str, Any]:
    """The figures of a run, as `--json` prints them: times in ms, all else counts.

    All but `requests` cover the requests that the journal still has (`kept`).
    """
    entries = run.entries
    return {
        "requests": max(run.request_count, len(entries)),
        "kept": len(entries),
        "origins": _count_by_frequency(map(_origin_label, entries)),
        "statuses": _count_by_frequency(str(entry.status or "none") for entry in entries),
        "endings": _count_by_frequency(
            entry.ending or ("sent" if entry.is_over else "running") for entry in entries
        ),
        "sessions": len({entry.session for entry in entries}),
        "retries": sum(bool(entry.retry_count) for entry in entries),
        "times": _response_times([entry.ms for entry in entries if entry.is_over]),
        "paces": _count_by_frequency(entry.pace for entry in entries if entry.pace),
        "lateness": _lateness(entries),
        "faults": _fault_figures(entries),
        "never_injected": [fault.rule for fault in run.faults if not fault.injected],
        "nearest": sum(entry.similarity is not None for entry in entries),
        "misses": group_misses(run.misses),
    }


def _origin_label(entry: JournalEntry) -> str:
    if entry.simulated is not None:
        return "simulated"
    return "cassette" if entry.origin.endswith(".jsonl") else entry.origin or "none"


def _count_by_frequency(labels: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(labels).items(), key=lambda values: (-values[1], values[0])))


def _response_times(ms: Sequence[float]) -> dict[str, float] | None:
    """Quantiles by nearest rank; None if no response has ended."""
    if not ms:
        return None
    ordered = sorted(ms)
    quantiles = {"median": 0.5, "p95": 0.95, "worst": 1.0}
    return {name: ordered[ceil(len(ms) * part) - 1] for name, part in quantiles.items()}


def _lateness(entries: Sequence[JournalEntry]) -> dict[str, Any] | None:
    """How late writes were; None if there were no timed ones.

    Without the number of timed writes in the journal, the mean is that over requests.
    """
    timed = [
        entry
        for entry in entries
        if entry.timed_writes or entry.late_mean_ms or entry.late_worst_ms
    ]
    if not timed:
        return None
    has_write_counts = all(entry.timed_writes for entry in timed)
    weights = [entry.timed_writes if has_write_counts else 1 for entry in timed]
    total = sum(entry.late_mean_ms * weight for entry, weight in zip(timed, weights, strict=True))
    return {
        "mean": round(total / sum(weights), 3),
        "worst": max(entry.late_worst_ms for entry in timed),
        "writes": sum(weights) if has_write_counts else None,
        "requests": len(timed),
    }


def _fault_figures(entries: Sequence[JournalEntry]) -> list[dict[str, Any]]:
    """How often each rule was injected or skipped, and the distinct reasons for skipping."""
    injected = Counter(fault.rule for entry in entries for fault in entry.injected_faults)
    reasons_by_rule: defaultdict[str, list[str]] = defaultdict(list)
    for fault in (fault for entry in entries for fault in entry.skipped_faults):
        reasons_by_rule[fault.rule].append(fault.skipped)
    rules = sorted({*injected, *reasons_by_rule})
    return [
        {
            "rule": rule,
            "injected": injected[rule],
            "skipped": len(reasons_by_rule[rule]),
            "reasons": list(dict.fromkeys(reasons_by_rule[rule])),
        }
        for rule in sorted(rules, key=lambda rule: -injected[rule])
    ]


def _report_rows(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The labels and texts of a report's lines."""
    requests, kept = figures["requests"], figures["kept"]
    latest = count_with_noun(kept, "request")
    rest = "" if kept == requests else f"; the figures below cover only the latest {latest}"
    yield "requests", f"{requests:,}{rest}"
    if not kept:
        return
    yield "sessions", f"{figures['sessions']:,}"
    yield "sources", _counts_text(figures["origins"])
    yield "statuses", _counts_text(figures["statuses"])
    yield "endings", _counts_text(figures["endings"])
    if retries := figures["retries"]:
        yield "retries", f"{retries:,} (reported by the SDKs)"
    if times := figures["times"]:
        median, p95, worst = map(_format_ms, times.values())
        yield "times", f"median {median}, p95 {p95}, worst {worst}"
    if figures["paces"]:
        yield "paces", _counts_text(figures["paces"])
    if lateness := figures["lateness"]:
        over = count_with_noun(lateness["requests"], "request")
        if lateness["writes"] is not None:
            over = f"{count_with_noun(lateness['writes'], 'write')} in {over}"
        mean, worst = _format_ms(lateness["mean"]), _format_ms(lateness["worst"])
        yield "lateness", f"mean {mean}, worst {worst}, over {over}"
    if figures["nearest"]:
        responses = count_with_noun(figures["nearest"], "response")
        reason = "because no cassette matched"
        yield "nearest", f"{responses} replayed from the nearest cassette, {reason}"
    for text in miss_lines(figures["misses"]):
        yield ("", text) if text.startswith(" ") else ("miss", text)
    for fault in figures["faults"]:
        count, skipped = fault["injected"], fault["skipped"]
        injected = f"injected {format_repeat_count(count)}" if count else "never injected"
        if skipped:
            injected += f", skipped {format_repeat_count(skipped)}: {'; '.join(fault['reasons'])}"
        yield "fault", f"{fault['rule']}: {injected}"
    names = {fault["rule"] for fault in figures["faults"]}
    for rule in figures["never_injected"]:
        if rule not in names:
            yield "fault", f"{rule}: never injected"


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {number:,}" for name, number in counts.items())


def _format_ms(ms: float) -> str:
    return format_duration(max(0.0, ms))
