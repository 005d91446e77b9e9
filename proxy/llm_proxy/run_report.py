"""Computes the figures of a run from its journal document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from llm_proxy.misses.grouping import MissGroup, group_misses
from llm_proxy.verdict.attempts import JournalAttempt, JournalRun

_FRACTIONS: Final = (0.5, 0.95)
"""Of the answers: each figure is the longest time of that many."""


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """How long answers took, from the request read in full to the last byte, in ms."""

    median: float
    p95: float
    worst: float


@dataclass(frozen=True, slots=True)
class LatenessFigures:
    """How far writes were behind the times that the pace had for them, in ms."""

    mean: float
    worst: float
    writes: int | None
    """How many writes had such a time; None where the journal does not say: the mean is then that
    of the requests."""
    requests: int
    """How many requests had such writes."""


@dataclass(frozen=True, slots=True)
class FaultRuleFigures:
    """What became of one fault rule."""

    rule: str
    faults: int
    """How often it struck."""
    skipped: int
    """How often it had no meaning for the answer."""
    why: tuple[str, ...]
    """Why it had none."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run in figures."""

    requests: int
    kept: int
    """Of those, the ones that the journal still has: the rest of the report is of these."""
    origins: dict[str, int]
    statuses: dict[str, int]
    """`none` is that of requests that were sent no head."""
    endings: dict[str, int]
    sessions: int
    retries: int
    """Requests that their SDK counts as a retry."""
    times: LatencyFigures | None
    """None where no answer is over."""
    paces: dict[str, int]
    """Answers by their pace, where the journal says it."""
    lateness: LatenessFigures | None
    """None where nothing had to be written at a time."""
    faults: tuple[FaultRuleFigures, ...]
    never: tuple[str, ...]
    """Fault rules that never struck, where the journal names all there were."""
    nearest: int = 0
    """Requests that a cassette answered which is not the same, only alike."""
    misses: tuple[MissGroup, ...] = ()
    """Requests that no cassette answered, each told once."""


def run_report(run: JournalRun) -> RunReport:
    """The figures of a run."""
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


def _origin_label(entry: JournalAttempt) -> str:
    if entry.simulated is not None:
        return "simulated"
    return "cassette" if entry.origin.endswith(".jsonl") else entry.origin or "none"


def _count_by_frequency(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items(), key=lambda values: (-values[1], values[0])))


def _latency_figures(ms: Sequence[float]) -> LatencyFigures | None:
    if not ms:
        return None
    ordered = sorted(ms)
    median, p95 = (ordered[ceil(len(ordered) * fraction) - 1] for fraction in _FRACTIONS)
    return LatencyFigures(median, p95, ordered[-1])


def _lateness_figures(entries: Sequence[JournalAttempt]) -> LatenessFigures | None:
    timed = [
        entry
        for entry in entries
        if entry.timed_writes or entry.late_mean_ms or entry.late_worst_ms
    ]
    if not timed:
        return None
    is_counted = all(journal_attempt.timed_writes for journal_attempt in timed)
    weights = [journal_attempt.timed_writes if is_counted else 1 for journal_attempt in timed]
    total = sum(it.late_mean_ms * weight for it, weight in zip(timed, weights, strict=True))
    return LatenessFigures(
        mean=round(total / sum(weights), 3),
        worst=max(journal_attempt.late_worst_ms for journal_attempt in timed),
        writes=sum(weights) if is_counted else None,
        requests=len(timed),
    )


def _fault_figures(entries: Sequence[JournalAttempt]) -> tuple[FaultRuleFigures, ...]:
    struck = Counter(fault.rule for entry in entries for fault in entry.injected_faults)
    skipped = Counter(fault.rule for entry in entries for fault in entry.skipped_faults)
    why: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for entry in entries:
        for fault in entry.skipped_faults:
            why[fault.rule][fault.skipped] = None
    return tuple(
        FaultRuleFigures(rule, struck[rule], skipped[rule], tuple(why[rule]))
        for rule in sorted({*struck, *skipped}, key=lambda it: (-struck[it], it))
    )
