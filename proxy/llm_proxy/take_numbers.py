"""Numbers takes: which take answers a request, and which number a new take gets.

Requests of one key are counted in each session on its own, in the order of their arrival.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

AfterLast = Literal["repeat", "cycle", "fail"]
"""What a replay does when a key is asked for more often than it was recorded."""

OnMiss = Literal["record", "passthrough", "fail"]
"""What `auto` does with a request that no take answers."""

T = TypeVar("T")


_WISHES: Final = 10_000
"""Wishes whose ordinals are remembered, the latest."""


@dataclass(frozen=True, slots=True)
class LogicalRequest:
    """What a client wants, however often it asks for it."""

    number: int
    """Of its own in the run."""
    attempt: int
    """How often it was asked for before."""


class RequestCounter:
    """Counts the requests of every session and key."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._logical_requests: OrderedDict[int, tuple[str, int]] = OrderedDict()
        """The session and the ordinal of each."""

    def next_ordinal(
        self, session: str, key: str, logical_request: LogicalRequest | None = None
    ) -> int:
        """The ordinal of this request: 1 for the first of its session and key.

        Every attempt at a wish has the ordinal of the first.
        """
        if (
            logical_request is not None
            and (known := self._logical_requests.get(logical_request.number)) is not None
        ):
            return known[1]
        self._counts[session, key] += 1
        ordinal = self._counts[session, key]
        if logical_request is not None:
            self._logical_requests[logical_request.number] = (session, ordinal)
            if len(self._logical_requests) > _WISHES:
                self._logical_requests.popitem(last=False)
        return ordinal

    def reset_session(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        for pair in [pair for pair in self._counts if pair[0] == session]:
            del self._counts[pair]
        for number in [
            number for number, (of, _) in self._logical_requests.items() if of == session
        ]:
            del self._logical_requests[number]


def take_sequence(own: Iterable[int], default: Iterable[int]) -> list[tuple[bool, int]]:
    """The takes that a session plays, in order: whether it is its own, and its number.

    A session plays its own takes; in front of its first one, the default session's.  So one
    that recorded nothing plays the default session's, and one that continued them in `auto`
    plays those and then its own.
    """
    mine = sorted(own)
    borrowed = [number for number in sorted(default) if not mine or number < mine[0]]
    return [(False, number) for number in borrowed] + [(True, number) for number in mine]


def pick_take(takes: Sequence[T], ordinal: int, after_last: AfterLast) -> T | None:
    """The take for the request of that ordinal; None when nothing is left for it."""
    if not takes:
        return None
    if ordinal <= len(takes):
        return takes[ordinal - 1]
    match after_last:
        case "repeat":
            return takes[-1]
        case "cycle":
            return takes[(ordinal - 1) % len(takes)]
        case "fail":
            return None


@dataclass(frozen=True, slots=True)
class TakePlacement:
    """Where a finished take goes, and what happens then, in this order."""

    number: int
    """Where it is put down; a take of this number that is already there is replaced."""
    moves: tuple[tuple[int, int], ...] = ()
    """Takes to renumber, one after the other: from, to; it may itself be one of them."""
    removals: tuple[int, ...] = ()
    """Takes to delete."""

    @property
    def final_number(self) -> int:
        """The number that it has in the end."""
        return dict(self.moves).get(self.number, self.number)


class TakeAllocator:
    """The take numbers of one key and session while a run records them.

    With `renew` (mode record), takes of this run replace the older ones as soon as the first
    of them is complete.  Until then they are parked behind the older ones, so that a run that
    fails destroys nothing.  Apart from that, no take ever takes the place of another; those
    that another run puts there at the same time keep theirs.
    """

    def __init__(
        self,
        on_disk: Iterable[int],
        *,
        renew: bool,
        foreign: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """`foreign` tells whether another run has put down a take of that number meanwhile."""
        self._older_takes = set(on_disk)
        self._own_takes: set[int] = set()
        self._parked_takes: list[tuple[int, int]] = []
        """Incomplete takes of this run: their own numbers, and those that they have meanwhile."""
        self._is_replacing = renew
        self._foreign_takes = foreign

    def copy(self) -> TakeAllocator:
        """The same, to go back to where a placement cannot be carried out."""
        twin = TakeAllocator(
            self._older_takes, renew=self._is_replacing, foreign=self._foreign_takes
        )
        twin._own_takes, twin._parked_takes = set(self._own_takes), list(self._parked_takes)
        return twin

    def place_take(self, number: int, *, complete: bool) -> TakePlacement:
        """The place of the run's take `number`, which is used again after a reset."""
        if self._is_replacing and complete:
            return self._replace_older_takes(number)
        stored_number = max(self._older_takes, default=0) + number if self._is_replacing else number
        stored_number = self._free_number(stored_number, self._older_takes | self._own_takes)
        if self._is_replacing:
            self._parked_takes.append((number, stored_number))
        self._own_takes.add(stored_number)
        return TakePlacement(stored_number)

    def forget(self, number: int, stored_number: int) -> None:
        """The run's take `number`, which lay at `spot`, is no more: it will be placed again."""
        self._parked_takes = [
            parked_take
            for parked_take in self._parked_takes
            if parked_take != (number, stored_number)
        ]
        self._own_takes.discard(stored_number)

    @property
    def is_replacing(self) -> bool:
        """Whether takes of this run still wait behind the older ones."""
        return self._is_replacing

    def _is_foreign(self, number: int) -> bool:
        """Whether a number that we know nothing of is another run's."""
        return number not in self._own_takes | self._older_takes and self._foreign_takes(number)

    def _free_number(self, number: int, taken: AbstractSet[int]) -> int:
        """`number`, if no take has it; else one behind all of them."""
        if number in taken or self._is_foreign(number):
            number = max(taken | {number}) + 1
            while self._is_foreign(number):
                number += 1
        return number

    def _replace_older_takes(self, number: int) -> TakePlacement:
        """Put the first complete take down, then everything of this run in its own place.

        It is put down first, and never on a parked one: at no moment is there none.
        """
        kept = {old for old in self._older_takes if self._foreign_takes(old)}
        there = self._older_takes | self._own_takes | {number}
        homes = set(kept)
        moves: list[tuple[int, int]] = []
        final = self._final_home(number, homes, there)
        for own, stored_number in sorted(self._parked_takes):
            moves.append((stored_number, self._final_home(own, homes, there)))
        aside = final in dict(moves)
        first = self._free_number(final, there | homes) if aside else final
        moves.append((first, final))
        gone = tuple(sorted(self._older_takes - homes))
        self._older_takes, self._own_takes, self._is_replacing = kept, homes - kept, False
        return TakePlacement(first, tuple(move for move in moves if move[0] != move[1]), gone)

    def _final_home(self, own: int, homes: set[int], there: AbstractSet[int]) -> int:
        """The final place of the run's take `own`: its own number, or one behind everything."""
        home = own
        if own in homes or self._is_foreign(own):
            home = self._free_number(own, there | homes | {own})
        homes.add(home)
        return home
