"""Computes the figures of a run from its journal document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from llm_proxy.journal_document import JournalDocument, JournalEntry
from llm_proxy.misses.run_summary import MissGroup, group_misses

_LATENCY_QUANTILES: Final = (0.5, 0.95)
"""The quantiles of the response times: nearest rank."""


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """Response times in ms, from the request read in full to the last byte sent."""

    median: float
    p95: float
    worst: float


@dataclass(frozen=True, slots=True)
class LatenessFigures:
    """How late writes were relative to the times that the pace set, in ms."""

    mean: float
    worst: float
    writes: int | None
    """The number of timed writes; None if the journal lacks it: the mean is then over requests."""
    requests: int
    """The number of requests with timed writes."""


@dataclass(frozen=True, slots=True)
class FaultRuleFigures:
    """How often one fault rule was injected or skipped, and why it was skipped."""

    rule: str
    faults: int
    """How often it was injected."""
    skipped: int
    """How often it did not apply to the response."""
    why: tuple[str, ...]
    """The distinct reasons for skipping."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """The figures of a run; counts unless noted."""

    requests: int
    kept: int
    """The requests that the journal still has: the rest of the report covers these."""
    origins: dict[str, int]
    statuses: dict[str, int]
    """Requests by status; `none` for those without a response head."""
    endings: dict[str, int]
    sessions: int
    retries: int
    """Requests that their SDK counts as a retry."""
    times: LatencyFigures | None
    """None if no response has ended."""
    paces: dict[str, int]
    """Responses by pace, as far as the journal has it."""
    lateness: LatenessFigures | None
    """None if there were no timed writes."""
    faults: tuple[FaultRuleFigures, ...]
    never: tuple[str, ...]
    """Fault rules that were never injected, if the journal lists all rules."""
    nearest: int = 0
    """Requests that a similar cassette answered, one with another key."""
    misses: tuple[MissGroup, ...] = ()
    """Requests that no cassette answered, equal ones grouped."""


def run_report(run: JournalDocument) -> RunReport:
    """Compute the figures of a run from its journal."""
    entries = run.entries
    return RunReport(
        requests=max(run.requests, len(entries)),
        kept=len(entries),
        origins=_count_by_frequency(map(_origin_label, entries)),
        statuses=_count_by_frequency(
            str(entry.status) if entry.status else "none" for entry in entries
        ),
        endings=_count_by_frequency(
            entry.ending or ("sent" if entry.is_over else "running") for entry in entries
        ),
        sessions=len({entry.session for entry in entries}),
        retries=sum(bool(entry.retry_count) for entry in entries),
        times=_latency_figures([entry.ms for entry in entries if entry.is_over]),
        paces=_count_by_frequency(entry.pace for entry in entries if entry.pace),
        lateness=_lateness_figures(entries),
        faults=_fault_figures(entries),
        never=tuple(fault.rule for fault in run.faults if not fault.struck),
        nearest=sum(entry.likeness is not None for entry in entries),
        misses=group_misses(run.misses),
    )


def _origin_label(entry: JournalEntry) -> str:
    if entry.simulated is not None:
        return "simulated"
    return "cassette" if entry.origin.endswith(".jsonl") else entry.origin or "none"


def _count_by_frequency(labels: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(labels).items(), key=lambda values: (-values[1], values[0])))


def _latency_figures(ms: Sequence[float]) -> LatencyFigures | None:
    if not ms:
        return None
    ordered = sorted(ms)
    median, p95 = (ordered[ceil(len(ordered) * fraction) - 1] for fraction in _LATENCY_QUANTILES)
    return LatencyFigures(median, p95, ordered[-1])


def _lateness_figures(entries: Sequence[JournalEntry]) -> LatenessFigures | None:
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
    return LatenessFigures(
        mean=round(total / sum(weights), 3),
        worst=max(entry.late_worst_ms for entry in timed),
        writes=sum(weights) if has_write_counts else None,
        requests=len(timed),
    )


def _fault_figures(entries: Sequence[JournalEntry]) -> tuple[FaultRuleFigures, ...]:
    injected_counts = Counter(fault.rule for entry in entries for fault in entry.injected_faults)
    skipped_counts: Counter[str] = Counter()
    skip_reasons: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for fault in (fault for entry in entries for fault in entry.skipped_faults):
        skipped_counts[fault.rule] += 1
        skip_reasons[fault.rule][fault.skipped] = None
    rules = sorted({*injected_counts, *skipped_counts})
    return tuple(
        FaultRuleFigures(
            rule, injected_counts[rule], skipped_counts[rule], tuple(skip_reasons[rule])
        )
        for rule in sorted(rules, key=lambda rule: -injected_counts[rule])
    )
