"""Groups requests that are attempts of the same request.

Attempts have the same session, path and key.  A request that may follow an attempt that needs a
retry counts as its retry; where an SDK sends its retry count, by that count.  Of several
candidates, the one that ended first is followed, so that no pause is underestimated.
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

_CLOCK_TOLERANCE_MS: Final = 5.0
"""By how much the next attempt may be read before the end of the previous one is recorded."""
_MAX_PAUSE_MS: Final = 60_000.0
"""After a longer pause an equal request is a new one, unless `Retry-After` asks for more."""


@dataclass(frozen=True, slots=True)
class RetryChain:
    """The attempts of one request, in the order of their arrival; never empty."""

    attempts: tuple[JournalAttempt, ...]
    follow_up_by_attempt_number: Mapping[int, JournalAttempt] = field(default_factory=dict)
    """By the number of a spoiled attempt: the later request with its response in the history."""

    @property
    def first_attempt(self) -> JournalAttempt:
        """The earliest attempt."""
        return self.attempts[0]

    @property
    def last_attempt(self) -> JournalAttempt:
        """The latest attempt."""
        return self.attempts[-1]

    @property
    def faults(self) -> tuple[InjectedFault, ...]:
        """Every fault that the client received."""
        return tuple(fault for attempt in self.attempts for fault in attempt.injected_faults)

    def retried_pairs(self) -> Iterator[tuple[JournalAttempt, JournalAttempt]]:
        """Each attempt that was retried, with its retry."""
        return pairwise(self.attempts)

    @property
    def may_be_separate_requests(self) -> bool:
        """Whether an SDK counts one of its later attempts as a new request.

        Then the application retried by itself, or sent a separate request that is equal.
        """
        return any(after.retry_count == 0 for _, after in self.retried_pairs())

    def has_fault_with_effect(self, *effects: FaultEffect) -> bool:
        """Whether the client received a fault with one of these effects."""
        return any(attempt.first_fault_with_effect(*effects) for attempt in self.attempts)


def pause_ms(before: JournalAttempt, after: JournalAttempt) -> float:
    """How long the client waited between two attempts, in ms."""
    return max(0.0, after.at_ms - before.ended_at_ms)


def retry_chains(attempts: Iterable[JournalAttempt]) -> list[RetryChain]:
    """All chains, in the order in which they began; `attempts` may be in any order.

    Requests that were refused before routing have no key, and belong to no chain.
    """
    groups: defaultdict[tuple[str, str, str], list[JournalAttempt]] = defaultdict(list)
    continuing_attempts: dict[int, JournalAttempt] = {}
    for attempt in sorted(attempts, key=_arrival_sort_key):
        if attempt.continues is not None:
            continuing_attempts.setdefault(attempt.continues, attempt)
        if attempt.key:
            groups[attempt.session, attempt.path, attempt.key].append(attempt)
    attempt_lists = [
        attempt_list
        for group in groups.values()
        for attempt_list in _join_chains(_chains_by_retry_count(group))
    ]
    return [
        _make_chain(attempt_list, continuing_attempts)
        for attempt_list in sorted(
            attempt_lists, key=lambda attempt_list: _arrival_sort_key(attempt_list[0])
        )
    ]


def _make_chain(
    attempt_list: Sequence[JournalAttempt], continuing_attempts: Mapping[int, JournalAttempt]
) -> RetryChain:
    own_continuing_attempts = {
        journal_attempt.number: continuing_attempts[journal_attempt.number]
        for journal_attempt in attempt_list
        if journal_attempt.number in continuing_attempts
    }
    return RetryChain(tuple(attempt_list), own_continuing_attempts)


def _arrival_sort_key(attempt: JournalAttempt) -> tuple[float, int]:
    return attempt.at_ms, attempt.number


def _chains_by_retry_count(group: Sequence[JournalAttempt]) -> list[list[JournalAttempt]]:
    """The attempts in chains of consecutive SDK retry counts: 0, then 1, then 2 and so on."""
    chains: list[list[JournalAttempt]] = []
    ended_chains: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for attempt in group:
        count = attempt.retry_count
        chain_index = (
            _pop_ended_chain_index(ended_chains[count - 1], chains, attempt) if count else None
        )
        if chain_index is None:
            chain_index = len(chains)
            chains.append([])
        chains[chain_index].append(attempt)
        if count is not None and attempt.needs_retry:
            heappush(ended_chains[count], (attempt.ended_at_ms, chain_index))
    return chains


def _join_chains(chains: Sequence[list[JournalAttempt]]) -> list[list[JournalAttempt]]:
    """Appends each chain to the one that it may retry: an application can retry by itself."""
    joined: list[list[JournalAttempt]] = []
    ended_chains: list[tuple[float, int]] = []
    for chain in chains:
        chain_index = _pop_ended_chain_index(ended_chains, joined, chain[0])
        if chain_index is None:
            chain_index = len(joined)
            joined.append([])
        joined[chain_index].extend(chain)
        if chain[-1].needs_retry:
            heappush(ended_chains, (chain[-1].ended_at_ms, chain_index))
    return joined


def _pop_ended_chain_index(
    ended_chains: list[tuple[float, int]],
    chains: Sequence[Sequence[JournalAttempt]],
    attempt: JournalAttempt,
) -> int | None:
    """Pops the index of the chain that ended first, before this attempt; None without one.

    Chains that ended too long ago are dropped: this attempt is no retry of theirs.
    """
    while ended_chains and ended_chains[0][0] <= attempt.at_ms + _CLOCK_TOLERANCE_MS:
        ended_at_ms, chain_index = heappop(ended_chains)
        if attempt.at_ms - ended_at_ms <= _max_pause_ms(chains[chain_index][-1]):
            return chain_index
    return None


def _max_pause_ms(before: JournalAttempt) -> float:
    """How long after this attempt, in ms, another may still be its retry."""
    return max(_MAX_PAUSE_MS, 2 * (before.retry_after_ms or 0.0))
