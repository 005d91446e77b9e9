"""Numbers takes: which take answers a request, and which number a new take gets.

Requests with the same key are counted per session, in the order of their arrival.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

AfterLast = Literal["repeat", "cycle", "fail"]
"""What a replay does when a key is requested more often than it was recorded."""

OnMiss = Literal["record", "passthrough", "fail"]
"""What `auto` does with a request that no take answers."""

Again = Literal["record", "replay"]
"""What `auto` does with a request that it has recorded in this run: record it as the next take, or
replay what it has recorded."""

T = TypeVar("T")


_MAX_LOGICAL_REQUESTS: Final = 10_000
"""The ordinals of this many logical requests are remembered, the latest ones."""


@dataclass(frozen=True, slots=True)
class LogicalRequest:
    """One request of the application, of which the client may make several attempts (retries)."""

    number: int
    """Unique within the run."""
    attempt_index: int
    """The number of earlier attempts: 0 for the first."""


class RequestCounter:
    """Counts the requests of every session and key."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._recent_ordinals: OrderedDict[int, tuple[str, int]] = OrderedDict()
        """Session and ordinal by the number of the logical request."""

    def next_ordinal(
        self, session: str, key: str, logical_request: LogicalRequest | None = None
    ) -> int:
        """The ordinal of this request: 1 for the first of its session and key.

        Every attempt of a logical request has the ordinal of the first one.
        """
        if (
            logical_request is not None
            and (known := self._recent_ordinals.get(logical_request.number)) is not None
        ):
            return known[1]
        self._counts[session, key] += 1
        ordinal = self._counts[session, key]
        if logical_request is not None:
            self._recent_ordinals[logical_request.number] = (session, ordinal)
            if len(self._recent_ordinals) > _MAX_LOGICAL_REQUESTS:
                self._recent_ordinals.popitem(last=False)
        return ordinal

    def reset_session(self, session: str) -> None:
        """Restart the ordinals of this session at 1."""
        for pair in [pair for pair in self._counts if pair[0] == session]:
            del self._counts[pair]
        for number in [
            number for number, (of, _) in self._recent_ordinals.items() if of == session
        ]:
            del self._recent_ordinals[number]


def session_take_order(
    own_numbers: Iterable[int], default_numbers: Iterable[int]
) -> list[tuple[bool, int]]:
    """The takes that a session plays, in order, as (whether it is its own, take number).

    A session plays its own takes, preceded by the default session's with smaller numbers.  So a
    session that recorded nothing plays the default session's takes, and one that continued them
    in `auto` plays those and then its own.
    """
    sorted_own = sorted(own_numbers)
    inherited = [
        number for number in sorted(default_numbers) if not sorted_own or number < sorted_own[0]
    ]
    return [(False, number) for number in inherited] + [(True, number) for number in sorted_own]


def pick_take(takes: Sequence[T], ordinal: int, after_last: AfterLast) -> T | None:
    """The take for the request with that ordinal; None if there is none for it."""
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
    """The number under which a finished take is stored, and the moves and removals after that."""

    initial_number: int
    """The number under which it is stored first; an existing take of this number is replaced."""
    moves: tuple[tuple[int, int], ...] = ()
    """Takes to renumber, one after the other, as (from, to); the new take may be among them."""
    removals: tuple[int, ...] = ()
    """Takes to delete."""


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Changes of stored takes: first the moves in this order, then the removals."""

    moves: tuple[tuple[int, int], ...]
    """Takes to renumber, as (from, to); an older take of the new number is replaced."""
    removals: tuple[int, ...]
    """Takes to delete."""


@dataclass(frozen=True, slots=True)
class _ParkedTake:
    """A take of this run that replaces no older one yet."""

    number: int
    """Its number in the run."""
    stored_number: int
    may_replace_older: bool
    same_errors: frozenset[int]
    """Older takes of which it may replace one, which are the same kind of error."""


class TakeAllocator:
    """Allocates the take numbers of one key and session while a run records them.

    With `replace_older` (mode record), takes of this run replace the older ones as soon as one of
    them may do so.  Until then they are parked after the older ones, so that a run that fails
    destroys nothing.  Held takes are parked even if they may replace the older ones, until
    `replace_by_parked_takes` or `discard_parked_takes`.  Without `replace_older`, no take ever
    replaces another; takes that another run stores at the same time keep their numbers.
    """

    def __init__(
        self,
        existing_numbers: Iterable[int],
        *,
        replace_older: bool,
        is_foreign_take: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """`is_foreign_take`: whether another run has stored a take of that number meanwhile."""
        # All values are immutable, so that a shallow copy is a state to roll back to.
        self.older_takes = frozenset(existing_numbers)
        """The numbers of the takes that this run has not stored."""
        self._own_takes: frozenset[int] = frozenset()
        self._parked_takes: tuple[_ParkedTake, ...] = ()
        """In the order in which they were placed."""
        self.is_replacing = replace_older
        """Whether the older takes still have to be replaced by takes of this run."""
        self._is_foreign_take = is_foreign_take

    @property
    def lasting_parked_takes(self) -> list[int]:
        """The stored numbers of the parked takes that may not replace the older ones."""
        return [take.stored_number for take in self._parked_takes if not take.may_replace_older]

    def place_take(
        self,
        number: int,
        *,
        may_replace_older: bool,
        same_errors: frozenset[int] = frozenset(),
        is_held: bool = False,
    ) -> TakePlacement:
        """Place the run's take `number`; after a reset the same numbers are used again.

        A take that may not replace the older ones is parked after them, except that it replaces
        one of `same_errors` if no other take follows.  A held take replaces nothing.
        """
        if self.is_replacing and may_replace_older and not is_held:
            return self._replace_older_takes(number)
        kept_takes = self.older_takes
        if not is_held:
            kept_takes -= {error for error in same_errors if not self._is_foreign_take(error)}
        stored_number = max(kept_takes, default=0) + number if self.is_replacing else number
        stored_number = self._find_unused_number(stored_number, kept_takes | self._own_takes)
        if self.is_replacing:
            take = _ParkedTake(number, stored_number, may_replace_older, same_errors)
            self._parked_takes += (take,)
        self.older_takes -= {stored_number}
        self._own_takes |= {stored_number}
        return TakePlacement(stored_number)

    def forget_take(self, number: int, stored_number: int) -> None:
        """Forget the run's take `number`, stored as `stored_number`: it will be placed again."""
        self._parked_takes = tuple(
            take
            for take in self._parked_takes
            if (take.number, take.stored_number) != (number, stored_number)
        )
        self._own_takes -= {stored_number}

    def replace_by_parked_takes(self, present_numbers: Container[int]) -> Renumbering:
        """Place the parked takes again, in the same order, as if they had not been held.

        Only those whose numbers are present: a take that was deleted by hand replaces nothing.
        """
        older_takes = self.older_takes
        parked_takes = [
            take for take in self._parked_takes if take.stored_number in present_numbers
        ]
        self._own_takes -= {take.stored_number for take in self._parked_takes}
        self._parked_takes = ()
        final_numbers: list[int] = []
        for take in parked_takes:
            placement = self.place_take(
                take.number,
                may_replace_older=take.may_replace_older,
                same_errors=take.same_errors,
            )
            moved = dict(placement.moves)
            final_numbers = [
                moved.get(number, number) for number in (*final_numbers, placement.initial_number)
            ]
        stored_numbers = [take.stored_number for take in parked_takes]
        return Renumbering(
            self._order_moves(dict(zip(stored_numbers, final_numbers, strict=True))),
            tuple(sorted(older_takes - self.older_takes - set(final_numbers))),
        )

    def discard_parked_takes(self) -> Renumbering:
        """Delete the parked takes."""
        stored_numbers = tuple(take.stored_number for take in self._parked_takes)
        self._own_takes -= set(stored_numbers)
        self._parked_takes = ()
        return Renumbering((), stored_numbers)

    def _order_moves(self, final_numbers: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
        """The moves from each key to its value, in an order in which no take replaces another."""
        pending = {source: target for source, target in final_numbers.items() if source != target}
        moves: list[tuple[int, int]] = []
        while pending:
            source = next((each for each, target in pending.items() if target not in pending), None)
            if source is not None:
                moves.append((source, pending.pop(source)))
                continue
            source, target = pending.popitem()  # they only change places: one makes way
            spare_number = self._find_unused_number(
                target, {*final_numbers, *final_numbers.values()}, self.older_takes
            )
            moves.append((source, spare_number))
            pending[spare_number] = target
        return tuple(moves)

    def _is_used_by_other_run(self, number: int) -> bool:
        """Whether a number unknown to this allocator is used by another run."""
        return number not in self._own_takes | self.older_takes and self._is_foreign_take(number)

    def _find_unused_number(
        self, number: int, taken: AbstractSet[int], occupied: AbstractSet[int] = frozenset()
    ) -> int:
        """`number` if it is not taken; else one after all numbers, taken and occupied."""
        if number in taken or self._is_used_by_other_run(number):
            number = max(taken | occupied | {number}) + 1
            while self._is_used_by_other_run(number):
                number += 1
        return number

    def _replace_older_takes(self, number: int) -> TakePlacement:
        """Store a take in their place, then move all takes of this run to their own numbers.

        It is stored first, and never over a parked one: there is a take at any time.
        """
        foreign_numbers = {old for old in self.older_takes if self._is_foreign_take(old)}
        occupied = self.older_takes | self._own_takes | {number}
        final_numbers = set(foreign_numbers)
        final_number = self._find_unused_number(number, final_numbers, occupied)
        final_numbers.add(final_number)
        moves: list[tuple[int, int]] = []
        for take in sorted(self._parked_takes, key=lambda take: (take.number, take.stored_number)):
            target = self._find_unused_number(take.number, final_numbers, occupied)
            final_numbers.add(target)
            moves.append((take.stored_number, target))
        initial_number = final_number
        if final_number in dict(moves):  # a parked take has it
            initial_number = self._find_unused_number(final_number, occupied | final_numbers)
        moves.append((initial_number, final_number))
        removals = tuple(sorted(self.older_takes - final_numbers))
        self.older_takes = frozenset(foreign_numbers)
        self._own_takes = frozenset(final_numbers - foreign_numbers)
        self._parked_takes = ()
        self.is_replacing = False
        return TakePlacement(
            initial_number, tuple(move for move in moves if move[0] != move[1]), removals
        )
