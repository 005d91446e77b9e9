"""Which take answers which request, and which number a new take gets.

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
class Wish:
    """What a client wants, however often it asks for it."""

    number: int
    """Of its own in the run."""
    attempt: int
    """How often it was asked for before."""


class Ordinals:
    """Counts the requests of every session and key."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._wishes: OrderedDict[int, tuple[str, int]] = OrderedDict()
        """The session and the ordinal of each."""

    def next(self, session: str, key: str, wish: Wish | None = None) -> int:
        """The ordinal of this request: 1 for the first of its session and key.

        Every attempt at a wish has the ordinal of the first.
        """
        if wish is not None and (known := self._wishes.get(wish.number)) is not None:
            return known[1]
        self._counts[session, key] += 1
        ordinal = self._counts[session, key]
        if wish is not None:
            self._wishes[wish.number] = (session, ordinal)
            if len(self._wishes) > _WISHES:
                self._wishes.popitem(last=False)
        return ordinal

    def reset(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        for pair in [pair for pair in self._counts if pair[0] == session]:
            del self._counts[pair]
        for number in [number for number, (of, _) in self._wishes.items() if of == session]:
            del self._wishes[number]


def sequence(own: Iterable[int], default: Iterable[int]) -> list[tuple[bool, int]]:
    """The takes that a session plays, in order: whether it is its own, and its number.

    A session plays its own takes; in front of its first one, the default session's.  So one
    that recorded nothing plays the default session's, and one that continued them in `auto`
    plays those and then its own.
    """
    mine = sorted(own)
    borrowed = [number for number in sorted(default) if not mine or number < mine[0]]
    return [(False, number) for number in borrowed] + [(True, number) for number in mine]


def pick(takes: Sequence[T], ordinal: int, after_last: AfterLast) -> T | None:
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
class Placement:
    """Where a finished take goes, and what happens then, in this order."""

    number: int
    """Where it is put down; a take of this number that is already there is replaced."""
    move: tuple[tuple[int, int], ...] = ()
    """Takes to renumber, one after the other: from, to; it may itself be one of them."""
    remove: tuple[int, ...] = ()
    """Takes to delete."""

    @property
    def final(self) -> int:
        """The number that it has in the end."""
        return dict(self.move).get(self.number, self.number)


class Shelf:
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
        self._old = set(on_disk)
        self._mine: set[int] = set()
        self._parked: list[tuple[int, int]] = []
        """Incomplete takes of this run: their own numbers, and those that they have meanwhile."""
        self._renewing = renew
        self._foreign = foreign

    def copy(self) -> Shelf:
        """The same, to go back to where a placement cannot be carried out."""
        twin = Shelf(self._old, renew=self._renewing, foreign=self._foreign)
        twin._mine, twin._parked = set(self._mine), list(self._parked)
        return twin

    def place(self, number: int, *, complete: bool) -> Placement:
        """The place of the run's take `number`, which is used again after a reset."""
        if self._renewing and complete:
            return self._renew(number)
        spot = max(self._old, default=0) + number if self._renewing else number
        spot = self._free(spot, self._old | self._mine)
        if self._renewing:
            self._parked.append((number, spot))
        self._mine.add(spot)
        return Placement(spot)

    def forget(self, number: int, spot: int) -> None:
        """The run's take `number`, which lay at `spot`, is no more: it will be placed again."""
        self._parked = [it for it in self._parked if it != (number, spot)]
        self._mine.discard(spot)

    @property
    def renews(self) -> bool:
        """Whether takes of this run still wait behind the older ones."""
        return self._renewing

    def _elsewhere(self, number: int) -> bool:
        """Whether a number that we know nothing of is another run's."""
        return number not in self._mine | self._old and self._foreign(number)

    def _free(self, number: int, taken: AbstractSet[int]) -> int:
        """`number`, if no take has it; else one behind all of them."""
        if number in taken or self._elsewhere(number):
            number = max(taken | {number}) + 1
            while self._elsewhere(number):
                number += 1
        return number

    def _renew(self, number: int) -> Placement:
        """Put the first complete take down, then everything of this run in its own place.

        It is put down first, and never on a parked one: at no moment is there none.
        """
        kept = {old for old in self._old if self._foreign(old)}
        there = self._old | self._mine | {number}
        homes = set(kept)
        moves: list[tuple[int, int]] = []
        final = self._home(number, homes, there)
        for own, spot in sorted(self._parked):
            moves.append((spot, self._home(own, homes, there)))
        aside = final in dict(moves)
        first = self._free(final, there | homes) if aside else final
        moves.append((first, final))
        gone = tuple(sorted(self._old - homes))
        self._old, self._mine, self._renewing = kept, homes - kept, False
        return Placement(first, tuple(it for it in moves if it[0] != it[1]), gone)

    def _home(self, own: int, homes: set[int], there: AbstractSet[int]) -> int:
        """The final place of the run's take `own`: its own number, or one behind everything."""
        home = own
        if own in homes or self._elsewhere(own):
            home = self._free(own, there | homes | {own})
        homes.add(home)
        return home
