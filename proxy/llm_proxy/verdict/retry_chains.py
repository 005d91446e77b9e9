"""Groups requests that are attempts of the same request.

Attempts have the same session, path and key.  A request that may follow an attempt that needs a
retry counts as its retry; where an SDK sends its retry count, by that count.  Of several
candidates, the one that ended first is followed, so that no pause is underestimated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final

from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.journal_document import JournalEntry, ListenerClosure

_CLOCK_TOLERANCE_MS: Final = 5.0
"""By how much the next attempt may be read before the end of the previous one is recorded."""
_MAX_PAUSE_MS: Final = 60_000.0
"""After a longer pause an equal request is a new one, unless `Retry-After` asks for more."""


@dataclass(frozen=True, slots=True)
class RetryChain:
    """The attempts of one request, in the order of their arrival; never empty."""

    attempts: tuple[JournalEntry, ...]
    follow_up_by_attempt_number: Mapping[int, JournalEntry] = field(default_factory=dict)
    """By the number of a spoiled attempt: the later request with its response in the history."""
    may_have_refused_retry: bool = False
    """Whether a retry of the last attempt may have been refused while the listener was closed, so
    that the journal does not contain it."""

    @property
    def first_attempt(self) -> JournalEntry:
        """The earliest attempt."""
        return self.attempts[0]

    @property
    def last_attempt(self) -> JournalEntry:
        """The latest attempt."""
        return self.attempts[-1]

    @property
    def faults(self) -> tuple[FaultRecord, ...]:
        """Every fault that the client received."""
        return tuple(fault for attempt in self.attempts for fault in attempt.injected_faults)

    def retried_pairs(self) -> Iterator[tuple[JournalEntry, JournalEntry]]:
        """Each attempt that was retried, with its retry."""
        return pairwise(self.attempts)

    @property
    def may_be_separate_requests(self) -> bool:
        """Whether an SDK counts one of its later attempts as a new request.

        Then the application retried by itself, or sent a separate request that is equal.
        """
        return any(after.retry_count == 0 for _, after in self.retried_pairs())

    def used_attempts(self, is_spoiled: Callable[[JournalEntry], bool]) -> list[JournalEntry]:
        """The attempts that are spoiled by this criterion, and whose responses were used anyway.

        A response was used where a later request's history contains it.
        """
        return [
            attempt
            for attempt in self.attempts
            if attempt.number in self.follow_up_by_attempt_number and is_spoiled(attempt)
        ]


def pause_ms(before: JournalEntry, after: JournalEntry) -> float:
    """How long the client waited between two attempts, in ms."""
    return max(0.0, after.at_ms - before.ended_at_ms)


def retry_chains(
    attempts: Iterable[JournalEntry], listener_closures: Sequence[ListenerClosure] = ()
) -> list[RetryChain]:
    """All chains, in the order in which they began; `attempts` may be in any order.

    Requests that were refused before routing have no key, and belong to no chain.
    """
    groups: defaultdict[tuple[str, str, str], list[JournalEntry]] = defaultdict(list)
    continuing_attempts: dict[int, JournalEntry] = {}
    for attempt in sorted(attempts, key=_arrival_sort_key):
        if attempt.continues is not None:
            continuing_attempts.setdefault(attempt.continues, attempt)
        if attempt.key:
            groups[attempt.session, attempt.path, attempt.key].append(attempt)
    linked_attempts: list[list[JournalEntry]] = []
    for group in groups.values():
        # First by consecutive retry counts of the SDK: 0, then 1, then 2 and so on.  Then each
        # chain is appended to the one that it may retry: an application can retry by itself.
        counted_chains = _append_to_ended(
            [[attempt] for attempt in group],
            lambda first: first.retry_count - 1 if first.retry_count else None,
            lambda last: last.retry_count,
        )
        linked_attempts += _append_to_ended(counted_chains, lambda _: 0, lambda _: 0)
    linked_attempts.sort(key=lambda attempts: _arrival_sort_key(attempts[0]))
    return [
        RetryChain(
            tuple(attempts),
            {
                attempt.number: continuing_attempts[attempt.number]
                for attempt in attempts
                if attempt.number in continuing_attempts
            },
            any(
                closed_at_ms <= attempts[-1].ended_at_ms + _max_pause_ms(attempts[-1])
                and (reopened_at_ms is None or attempts[-1].ended_at_ms < reopened_at_ms)
                for closed_at_ms, reopened_at_ms in listener_closures
            ),
        )
        for attempts in linked_attempts
    ]


def _max_pause_ms(attempt: JournalEntry) -> float:
    """The longest time in ms after which an equal request counts as a retry of this attempt."""
    return max(_MAX_PAUSE_MS, 2 * (attempt.retry_after_ms or 0.0))


def _arrival_sort_key(attempt: JournalEntry) -> tuple[float, int]:
    return attempt.at_ms, attempt.number


def _append_to_ended(
    chains: Iterable[list[JournalEntry]],
    wanted_label: Callable[[JournalEntry], int | None],
    label: Callable[[JournalEntry], int | None],
) -> list[list[JournalEntry]]:
    """Append each chain to the one that ended first before it.

    The `label` of that one's last attempt is the `wanted_label` of the chain's first one; None
    fits nothing.
    """
    joined: list[list[JournalEntry]] = []
    ended_chains: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for chain in chains:
        first, last = chain[0], chain[-1]
        wanted, chain_index = wanted_label(first), None
        ended = [] if wanted is None else ended_chains[wanted]
        while ended and ended[0][0] <= first.at_ms + _CLOCK_TOLERANCE_MS:
            ended_at_ms, index = heappop(ended)
            if first.at_ms - ended_at_ms <= _max_pause_ms(joined[index][-1]):  # else no retry
                chain_index = index
                break
        if chain_index is None:
            chain_index = len(joined)
            joined.append([])
        joined[chain_index] += chain
        last_label = label(last)
        if last_label is not None and last.needs_retry:
            heappush(ended_chains[last_label], (last.ended_at_ms, chain_index))
    return joined
