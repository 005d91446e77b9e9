"""Which requests are attempts of one and the same.

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

from llm_proxy.faults.fault_record import Effect
from llm_proxy.verdict.attempts import Attempt, Fault

_OVERLAP: Final = 5.0
"""Ms by which the next attempt may be read before we have noted the end of the one before."""
_LONGEST: Final = 60_000.0
"""Ms after which the same request is a new wish, unless it was told to wait longer."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The attempts of one request, in the order of their arrival; never empty."""

    attempts: tuple[Attempt, ...]
    continued: Mapping[int, Attempt] = field(default_factory=dict)
    """By the number of an attempt: the later request whose history holds its spoiled answer."""

    @property
    def first(self) -> Attempt:
        """The attempt that it began with."""
        return self.attempts[0]

    @property
    def last(self) -> Attempt:
        """The latest attempt."""
        return self.attempts[-1]

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Every fault that its client met."""
        return tuple(fault for it in self.attempts for fault in it.struck)

    def followed(self) -> Iterator[tuple[Attempt, Attempt]]:
        """Each attempt that another came after, with that one."""
        return pairwise(self.attempts)

    @property
    def is_doubtful(self) -> bool:
        """Whether an SDK counts one of its later attempts as a new request.

        Then the application asked again by itself, or for something else that is the same.
        """
        return any(after.retry_count == 0 for _, after in self.followed())

    def met(self, *effects: Effect) -> bool:
        """Whether its client met a fault of one of these effects."""
        return any(it.met(*effects) for it in self.attempts)


def pause(before: Attempt, after: Attempt) -> float:
    """How long the client waited between two attempts, in ms."""
    return max(0.0, after.at_ms - before.over_ms)


def chains(attempts: Iterable[Attempt]) -> list[Chain]:
    """All chains, in the order in which they began; that of `attempts` does not count.

    Requests that were refused at the door have no key, and are in none.
    """
    groups: defaultdict[tuple[str, str, str], list[Attempt]] = defaultdict(list)
    continued: dict[int, Attempt] = {}
    for attempt in sorted(attempts, key=_arrival):
        if attempt.continues is not None:
            continued.setdefault(attempt.continues, attempt)
        if attempt.key:
            groups[attempt.session, attempt.path, attempt.key].append(attempt)
    found = [part for group in groups.values() for part in _joined(_counted(group))]
    return [_chain(part, continued) for part in sorted(found, key=lambda it: _arrival(it[0]))]


def _chain(part: Sequence[Attempt], continued: Mapping[int, Attempt]) -> Chain:
    held = {it.number: continued[it.number] for it in part if it.number in continued}
    return Chain(tuple(part), held)


def _arrival(attempt: Attempt) -> tuple[float, int]:
    return attempt.at_ms, attempt.number


def _counted(group: Sequence[Attempt]) -> list[list[Attempt]]:
    """The attempts that an SDK itself says belong together: its first, its second and so on."""
    parts: list[list[Attempt]] = []
    waiting: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for attempt in group:
        count = attempt.retry_count
        place = _ended(waiting[count - 1], parts, attempt) if count else None
        if place is None:
            place = len(parts)
            parts.append([])
        parts[place].append(attempt)
        if count is not None and attempt.is_spoiled:
            heappush(waiting[count], (attempt.over_ms, place))
    return parts


def _joined(parts: Sequence[list[Attempt]]) -> list[list[Attempt]]:
    """Each part behind the one that it may repeat: an application can ask again by itself."""
    joined: list[list[Attempt]] = []
    waiting: list[tuple[float, int]] = []
    for part in parts:
        place = _ended(waiting, joined, part[0])
        if place is None:
            place = len(joined)
            joined.append([])
        joined[place].extend(part)
        if part[-1].is_spoiled:
            heappush(waiting, (part[-1].over_ms, place))
    return joined


def _ended(
    waiting: list[tuple[float, int]], parts: Sequence[Sequence[Attempt]], attempt: Attempt
) -> int | None:
    """Takes out what ended first, and before this attempt; None where there is nothing.

    What ended too long ago goes without being taken: nobody waited for that.
    """
    while waiting and waiting[0][0] <= attempt.at_ms + _OVERLAP:
        over, place = heappop(waiting)
        if attempt.at_ms - over <= _patience(parts[place][-1]):
            return place
    return None


def _patience(before: Attempt) -> float:
    """How long after this attempt, in ms, another may still be one of the same request."""
    return max(_LONGEST, 2 * (before.retry_after_ms or 0.0))
