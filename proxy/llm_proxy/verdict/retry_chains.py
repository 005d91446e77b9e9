"""Groups requests that are attempts of the same one.

Attempts have the same session, path and key.  An attempt that may follow a spoiled one is taken
for a further attempt of it; where an SDK counts its retries, by that count.  Of several that
could be followed, the one that ended first is: no pause comes out shorter than it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempts import InjectedFault, JournalAttempt

_OVERLAP: Final = 5.0
"""Ms by which the next attempt may be read before we have noted the end of the one before."""
_LONGEST: Final = 60_000.0
"""Ms after which the same request is a new wish, unless it was told to wait longer."""


@dataclass(frozen=True, slots=True)
class RetryChain:
    """The attempts of one request, in the order of their arrival; never empty."""

    attempts: tuple[JournalAttempt, ...]
    is_continued: Mapping[int, JournalAttempt] = field(default_factory=dict)
    """By the number of an attempt: the later request whose history holds its spoiled answer."""

    @property
    def first_attempt(self) -> JournalAttempt:
        """The attempt that it began with."""
        return self.attempts[0]

    @property
    def last_attempt(self) -> JournalAttempt:
        """The latest attempt."""
        return self.attempts[-1]

    @property
    def faults(self) -> tuple[InjectedFault, ...]:
        """Every fault that its client met."""
        return tuple(fault for attempt in self.attempts for fault in attempt.injected_faults)

    def retried_pairs(self) -> Iterator[tuple[JournalAttempt, JournalAttempt]]:
        """Each attempt that another came after, with that one."""
        return pairwise(self.attempts)

    @property
    def is_uncertain(self) -> bool:
        """Whether an SDK counts one of its later attempts as a new request.

        Then the application asked again by itself, or for something else that is the same.
        """
        return any(after.retry_count == 0 for _, after in self.retried_pairs())

    def has_effect(self, *effects: FaultEffect) -> bool:
        """Whether its client met a fault of one of these effects."""
        return any(attempt.first_fault_with_effect(*effects) for attempt in self.attempts)


def pause_ms(before: JournalAttempt, after: JournalAttempt) -> float:
    """How long the client waited between two attempts, in ms."""
    return max(0.0, after.at_ms - before.ended_at_ms)


def retry_chains(attempts: Iterable[JournalAttempt]) -> list[RetryChain]:
    """All chains, in the order in which they began; that of `attempts` does not count.

    Requests that were refused at the door have no key, and are in none.
    """
    groups: defaultdict[tuple[str, str, str], list[JournalAttempt]] = defaultdict(list)
    continued: dict[int, JournalAttempt] = {}
    for attempt in sorted(attempts, key=_arrival_order):
        if attempt.continues is not None:
            continued.setdefault(attempt.continues, attempt)
        if attempt.key:
            groups[attempt.session, attempt.path, attempt.key].append(attempt)
    found = [
        part for group in groups.values() for part in _join_parts(_chains_by_retry_count(group))
    ]
    return [
        _make_chain(part, continued)
        for part in sorted(found, key=lambda items: _arrival_order(items[0]))
    ]


def _make_chain(
    part: Sequence[JournalAttempt], continued: Mapping[int, JournalAttempt]
) -> RetryChain:
    held = {
        journal_attempt.number: continued[journal_attempt.number]
        for journal_attempt in part
        if journal_attempt.number in continued
    }
    return RetryChain(tuple(part), held)


def _arrival_order(attempt: JournalAttempt) -> tuple[float, int]:
    return attempt.at_ms, attempt.number


def _chains_by_retry_count(group: Sequence[JournalAttempt]) -> list[list[JournalAttempt]]:
    """The attempts that an SDK itself says belong together: its first, its second and so on."""
    parts: list[list[JournalAttempt]] = []
    waiting: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for attempt in group:
        count = attempt.retry_count
        place = _take_ended_before(waiting[count - 1], parts, attempt) if count else None
        if place is None:
            place = len(parts)
            parts.append([])
        parts[place].append(attempt)
        if count is not None and attempt.is_spoiled:
            heappush(waiting[count], (attempt.ended_at_ms, place))
    return parts


def _join_parts(parts: Sequence[list[JournalAttempt]]) -> list[list[JournalAttempt]]:
    """Each part behind the one that it may repeat: an application can ask again by itself."""
    joined: list[list[JournalAttempt]] = []
    waiting: list[tuple[float, int]] = []
    for part in parts:
        place = _take_ended_before(waiting, joined, part[0])
        if place is None:
            place = len(joined)
            joined.append([])
        joined[place].extend(part)
        if part[-1].is_spoiled:
            heappush(waiting, (part[-1].ended_at_ms, place))
    return joined


def _take_ended_before(
    waiting: list[tuple[float, int]],
    parts: Sequence[Sequence[JournalAttempt]],
    attempt: JournalAttempt,
) -> int | None:
    """Takes out what ended first, and before this attempt; None where there is nothing.

    What ended too long ago goes without being taken: nobody waited for that.
    """
    while waiting and waiting[0][0] <= attempt.at_ms + _OVERLAP:
        over, place = heappop(waiting)
        if attempt.at_ms - over <= _longest_pause_ms(parts[place][-1]):
            return place
    return None


def _longest_pause_ms(before: JournalAttempt) -> float:
    """How long after this attempt, in ms, another may still be one of the same request."""
    return max(_LONGEST, 2 * (before.retry_after_ms or 0.0))
