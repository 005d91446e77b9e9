"""What a run was, in figures, from its journal document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from llm_proxy.misses.grouping import Group, grouped
from llm_proxy.verdict.attempts import Attempt, Run

_FRACTIONS: Final = (0.5, 0.95)
"""Of the answers: each figure is the longest time of that many."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long answers took, from the request read in full to the last byte, in ms."""

    median: float
    p95: float
    worst: float


@dataclass(frozen=True, slots=True)
class Lateness:
    """How far writes were behind the times that the pace had for them, in ms."""

    mean: float
    worst: float
    writes: int | None
    """How many writes had such a time; None where the journal does not say: the mean is then that
    of the requests."""
    requests: int
    """How many requests had such writes."""


@dataclass(frozen=True, slots=True)
class Struck:
    """What became of one fault rule."""

    rule: str
    faults: int
    """How often it struck."""
    skipped: int
    """How often it had no meaning for the answer."""
    why: tuple[str, ...]
    """Why it had none."""


@dataclass(frozen=True, slots=True)
class Report:
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
    times: Times | None
    """None where no answer is over."""
    paces: dict[str, int]
    """Answers by their pace, where the journal says it."""
    lateness: Lateness | None
    """None where nothing had to be written at a time."""
    faults: tuple[Struck, ...]
    never: tuple[str, ...]
    """Fault rules that never struck, where the journal names all there were."""
    nearest: int = 0
    """Requests that a cassette answered which is not the same, only alike."""
    misses: tuple[Group, ...] = ()
    """Requests that no cassette answered, each told once."""


def report(run: Run) -> Report:
    """The figures of a run."""
    entries = run.entries
    return Report(
        requests=max(run.requests, len(entries)),
        kept=len(entries),
        origins=_counted(map(_origin, entries)),
        statuses=_counted(str(it.status) if it.status else "none" for it in entries),
        endings=_counted(it.ending or ("sent" if it.is_over else "running") for it in entries),
        sessions=len({it.session for it in entries}),
        retries=sum(bool(it.retry_count) for it in entries),
        times=_times([it.ms for it in entries if it.is_over]),
        paces=_counted(it.pace for it in entries if it.pace),
        lateness=_lateness(entries),
        faults=_faults(entries),
        never=tuple(it.rule for it in run.faults if not it.struck),
        nearest=sum(it.likeness is not None for it in entries),
        misses=grouped(run.misses),
    )


def _origin(entry: Attempt) -> str:
    """Where an answer came from, in one word or two."""
    if entry.simulated is not None:
        return "simulated"
    return "cassette" if entry.origin.endswith(".jsonl") else entry.origin or "none"


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items(), key=lambda it: (-it[1], it[0])))


def _times(ms: Sequence[float]) -> Times | None:
    if not ms:
        return None
    ordered = sorted(ms)
    median, p95 = (ordered[ceil(len(ordered) * it) - 1] for it in _FRACTIONS)
    return Times(median, p95, ordered[-1])


def _lateness(entries: Sequence[Attempt]) -> Lateness | None:
    timed = [it for it in entries if it.timed_writes or it.late_mean_ms or it.late_worst_ms]
    if not timed:
        return None
    is_counted = all(it.timed_writes for it in timed)
    weights = [it.timed_writes if is_counted else 1 for it in timed]
    total = sum(it.late_mean_ms * weight for it, weight in zip(timed, weights, strict=True))
    return Lateness(
        mean=round(total / sum(weights), 3),
        worst=max(it.late_worst_ms for it in timed),
        writes=sum(weights) if is_counted else None,
        requests=len(timed),
    )


def _faults(entries: Sequence[Attempt]) -> tuple[Struck, ...]:
    struck = Counter(fault.rule for it in entries for fault in it.struck)
    skipped = Counter(fault.rule for it in entries for fault in it.skipped)
    why: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for it in entries:
        for fault in it.skipped:
            why[fault.rule][fault.skipped] = None
    return tuple(
        Struck(rule, struck[rule], skipped[rule], tuple(why[rule]))
        for rule in sorted({*struck, *skipped}, key=lambda it: (-struck[it], it))
    )
