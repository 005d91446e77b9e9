"""Which take answers which request, and which number a new take gets.

Requests of one key are counted in each session on its own, in the order of their arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

AfterLast = Literal["repeat", "cycle", "fail"]
"""What a replay does when a key is asked for more often than it was recorded."""

T = TypeVar("T")


class Ordinals:
    """Counts the requests of every session and key."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def next(self, session: str, key: str) -> int:
        """The ordinal of this request: 1 for the first of its session and key."""
        self._counts[session, key] += 1
        return self._counts[session, key]

    def reset(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        for pair in [pair for pair in self._counts if pair[0] == session]:
            del self._counts[pair]


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
    fails destroys nothing.  Apart from that, no take ever takes the place of another.
    """

    def __init__(self, on_disk: Iterable[int], *, renew: bool) -> None:
        self._old = set(on_disk)
        self._taken = set(self._old)
        self._parked: list[tuple[int, int]] = []
        """Incomplete takes of this run: their own numbers, and those that they have meanwhile."""
        self._renewing = renew

    def place(self, number: int, *, complete: bool) -> Placement:
        """The place of the run's take `number`, which is used again after a reset."""
        if self._renewing and complete:
            return self._renew(number)
        if self._renewing:
            spot = self._free(max(self._old, default=0) + number)
            self._parked.append((number, spot))
        else:
            spot = self._free(number)
        self._taken.add(spot)
        return Placement(spot)

    def _free(self, number: int) -> int:
        return number if number not in self._taken else max(self._taken) + 1

    def _renew(self, number: int) -> Placement:
        """Put the first complete take down, then everything of this run in its own place.

        It is put down first, and never on a parked one: at no moment is there none.
        """
        beyond = max(self._taken | {number})
        final = {number}
        moves: list[tuple[int, int]] = []
        for own, spot in sorted(self._parked):
            if own in final:
                beyond += 1
            home = own if own not in final else beyond
            final.add(home)
            moves.append((spot, home))
        first = beyond + 1 if number in dict(moves) else number
        moves.append((first, number))
        gone = tuple(sorted(self._old - final))
        self._taken, self._renewing = final, False
        return Placement(first, tuple(it for it in moves if it[0] != it[1]), gone)
