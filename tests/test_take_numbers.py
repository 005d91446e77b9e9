from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from case_tables import each_row
from llm_proxy.take_numbers import (
    AfterLast,
    Renumbering,
    RequestCounter,
    TakeAllocator,
    TakePlacement,
    pick_take,
    session_take_order,
)
from thoroughness import quick_or_thorough


def test_requests_are_counted_in_each_session_and_key_on_its_own() -> None:
    counter = RequestCounter()
    requests = [("a", "k"), ("a", "k"), ("b", "k"), ("a", "l"), ("a", "k")]
    assert [counter.next_ordinal(*item) for item in requests] == [1, 2, 1, 1, 3]


def test_a_reset_begins_its_session_again_and_no_other() -> None:
    counter = RequestCounter()
    for session in ("a", "b"):
        counter.next_ordinal(session, "k")
        counter.next_ordinal(session, "l")
    counter.reset_session("a")
    counter.reset_session("unknown")
    assert [counter.next_ordinal("a", item) for item in "kl"] == [1, 1]
    assert [counter.next_ordinal("b", item) for item in "kl"] == [2, 2]


@each_row(
    ("own", "default", "played"),
    [
        ([], [], ""),
        ([], [2, 1], "d1 d2"),
        ([2, 1], [], "o1 o2"),
        ([1], [1, 2, 3], "o1"),
        ([3], [1, 2], "d1 d2 o3"),
        ([3, 5], [1, 4, 9], "d1 o3 o5"),
        ([2], [2, 3], "o2"),
    ],
    ids=["none", "default", "own", "own instead", "continued", "with gaps", "own from there on"],
)
def test_a_session_plays_its_own_takes_and_those_that_it_continued(
    own: list[int], default: list[int], played: str
) -> None:
    sequence = session_take_order(own, default)
    assert " ".join(f"{'o' if is_own else 'd'}{number}" for is_own, number in sequence) == played


@each_row(("after_last", "picked"), [("repeat", "abccc"), ("cycle", "abcab"), ("fail", "abc--")])
def test_after_the_last_take_the_policy_applies(after_last: AfterLast, picked: str) -> None:
    assert "".join(pick_take("abc", n, after_last) or "-" for n in range(1, 6)) == picked
    assert pick_take("", 1, after_last) is None


@each_row(
    ("on_disk", "renew", "finished", "placements"),
    [
        pytest.param([], True, [(1, True)], [TakePlacement(1)], id="the first of all"),
        pytest.param(
            [1, 2], True, [(1, True), (2, True)],
            [TakePlacement(1, removals=(2,)), TakePlacement(2)],
            id="older ones are replaced by the first that is complete",
        ),
        pytest.param(
            [1, 2], True, [(2, True), (1, True)],
            [TakePlacement(2, removals=(1,)), TakePlacement(1)],
            id="the second finishes first",
        ),
        pytest.param(
            [1], True, [(1, False)], [TakePlacement(2)], id="an incomplete one is parked behind"
        ),
        pytest.param(
            [1, 2], True, [(1, False), (2, True)], [TakePlacement(3), TakePlacement(2, ((3, 1),))],
            id="and comes home",
        ),
        pytest.param(
            [1], True, [(1, False), (2, True)],
            [TakePlacement(2), TakePlacement(3, ((2, 1), (3, 2)))],
            id="also where it was parked in the other's place",
        ),
        pytest.param(
            [1], True, [(1, False), (1, True)],
            [TakePlacement(2), TakePlacement(1, ((2, 3),))],
            id="a number that is used again after a reset",
        ),
        pytest.param(
            [], True, [(1, False), (1, False), (1, True)],
            [TakePlacement(1), TakePlacement(2), TakePlacement(5, ((1, 3), (2, 4), (5, 1)))],
            id="a number that is used three times",
        ),
        pytest.param(
            [1], True, [(1, True), (2, False), (1, True)],
            [TakePlacement(1), TakePlacement(2), TakePlacement(3)],
            id="nothing of this run is replaced",
        ),
        pytest.param(
            [1, 2], False, [(3, True), (2, False), (4, True)],
            [TakePlacement(3), TakePlacement(4), TakePlacement(5)],
            id="auto replaces nothing",
        ),
    ],
)  # fmt: skip
def test_a_finished_take_goes_to_its_place(
    on_disk: list[int],
    renew: bool,
    finished: list[tuple[int, bool]],
    placements: list[TakePlacement],
) -> None:
    allocator = TakeAllocator(on_disk, replace_older=renew)
    assert [
        allocator.place_take(number, may_replace_older=may_replace_older)
        for number, may_replace_older in finished
    ] == placements


@each_row(
    ("older", "same_errors", "numbers", "stored"),
    [
        pytest.param([1, 2], {2}, [1], [2], id="in place of the last one"),
        pytest.param([1, 2, 3], {2, 3}, [1, 2, 3], [2, 3, 4], id="one for one"),
        pytest.param([1, 2, 3], {2, 3}, [2, 1], [3, 2], id="in the order of their requests"),
        pytest.param([1, 2, 3], {2}, [1], [4], id="not if others follow"),
        pytest.param([8, 9], {9}, [1], [10], id="not one of another run"),
    ],
)
def test_a_parked_error_takes_the_place_of_an_older_one(
    older: list[int], same_errors: set[int], numbers: list[int], stored: list[int]
) -> None:
    allocator = TakeAllocator(older, replace_older=True, is_foreign_take=lambda take: take == 9)
    assert [
        allocator.place_take(number, may_replace_older=False, same_errors=frozenset(same_errors))
        for number in numbers
    ] == [TakePlacement(number) for number in stored]


@dataclass(frozen=True)
class Take:
    """A take's file: its origin, and whether it is complete."""

    serial: int
    """The order of arrival; takes from before the run come first."""
    number: int
    complete: bool
    old: bool = False
    foreign: bool = False
    """Whether another run stored it during this one."""


class TakeAllocatorMachine(RuleBasedStateMachine):
    """Requests arrive and finish in any order; every placement is applied to a simulated disk.

    After every step, where a crash could come, no take that counts is lost.
    """

    @initialize(
        numbers=st.dictionaries(st.integers(1, 6), st.booleans(), max_size=4),
        renew=st.booleans(),
        held=st.booleans(),
    )
    def a_run_begins(self, numbers: dict[int, bool], renew: bool, held: bool) -> None:
        self.disk = {
            number: Take(number, number, complete, old=True) for number, complete in numbers.items()
        }
        self.old_takes = set(self.disk.values())
        self.renew = renew
        self.held = held
        self.allocator = TakeAllocator(
            self.disk, replace_older=renew, is_foreign_take=self.is_foreign
        )
        self.foreign_takes: set[Take] = set()
        self.counter = RequestCounter()
        self.running: list[Take] = []
        self.finished: list[Take] = []
        self.serial = 100
        self.was_reset = False

    @rule(complete=st.booleans())
    def a_request_arrives(self, complete: bool) -> None:
        # `auto` counts the takes on disk too: its own come after them.
        number = self.counter.next_ordinal("s", "k") + (0 if self.renew else len(self.old_takes))
        self.serial += 1
        self.running.append(Take(self.serial, number, complete))

    @precondition(lambda self: self.running)
    @rule(chosen=st.data())
    def a_request_finishes(self, chosen: st.DataObject) -> None:
        take = chosen.draw(st.sampled_from(self.running))
        self.running.remove(take)
        placement = self.allocator.place_take(
            take.number, may_replace_older=take.complete, is_held=self.held
        )
        self.finished.append(take)
        self.place(take, placement.initial_number)
        self.renumber(placement.moves, placement.removals)
        final_number = dict(placement.moves).get(placement.initial_number, placement.initial_number)
        assert self.disk[final_number] == take

    @precondition(lambda self: self.held)
    @rule()
    def the_held_takes_are_kept(self) -> None:
        self.held = False
        renumbering = self.allocator.replace_by_parked_takes(self.disk)
        self.renumber(renumbering.moves, renumbering.removals)

    @precondition(lambda self: self.held)
    @rule()
    def the_held_takes_are_discarded(self) -> None:
        renumbering = self.allocator.discard_parked_takes()
        assert renumbering.moves == ()
        discarded = [self.disk.pop(number) for number in renumbering.removals]
        assert discarded == (self.finished if self.renew else [])
        if self.renew:
            self.finished = []

    def renumber(self, moves: Iterable[tuple[int, int]], removals: Iterable[int]) -> None:
        for source, target in moves:
            self.place(self.disk.pop(source), target)
        for number in removals:
            assert self.disk.pop(number).old
            self.assert_nothing_is_lost()

    def is_foreign(self, number: int) -> bool:
        return number in self.disk and self.disk[number].foreign

    @rule(number=st.integers(1, 12))
    def another_run_stores_a_take(self, number: int) -> None:
        existing = self.disk.get(number)
        if existing is None or (existing.old and self.renew):
            self.serial += 1
            foreign_take = Take(self.serial, number, complete=True, foreign=True)
            self.disk[number] = foreign_take
            self.foreign_takes.add(foreign_take)
            self.old_takes.discard(existing or foreign_take)

    @rule()
    def the_session_is_reset(self) -> None:
        self.counter.reset_session("s")
        self.was_reset = True

    def place(self, take: Take, number: int) -> None:
        replaced = self.disk.get(number)
        assert replaced is None or (self.renew and replaced.old)
        self.disk[number] = take
        self.assert_nothing_is_lost()

    def assert_nothing_is_lost(self) -> None:
        takes = set(self.disk.values())
        assert takes >= set(self.finished) | self.foreign_takes
        if self.held or not self.renew or not any(item.complete for item in self.finished):
            assert takes >= self.old_takes

    @invariant()
    def what_is_on_disk_is_what_should_be(self) -> None:
        renewed = self.renew and not self.held and any(item.complete for item in self.finished)
        expected = set(self.finished) | self.foreign_takes | (set() if renewed else self.old_takes)
        assert set(self.disk.values()) == expected
        if self.was_reset or self.foreign_takes:
            return
        for number, take in self.disk.items():
            if renewed:
                assert number == take.number
        played = [self.disk[number] for number in sorted(self.disk)]
        if self.renew:
            assert [item.serial for item in played] == sorted(item.serial for item in played)


TestTakeAllocator = TakeAllocatorMachine.TestCase
TestTakeAllocator.settings = hypothesis_settings(
    stateful_step_count=15, max_examples=quick_or_thorough(50, 200)
)


@given(
    older=st.sets(st.integers(1, 5), max_size=4),
    errors=st.frozensets(st.integers(1, 5), max_size=3),
    finished=st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from(["success", "error", "incomplete"])),
        max_size=8,
    ),
)
@example(  # the error replaces the older one, after which the first take would have its number
    older={2}, errors=frozenset({2}), finished=[(1, "incomplete"), (2, "error")]
)
@example(  # two change places
    older=set(),
    errors=frozenset(),
    finished=[(1, "incomplete"), (1, "incomplete"), (1, "success")],
)
def test_takes_that_were_held_and_kept_are_where_they_would_be_without_a_hold(
    older: set[int], errors: frozenset[int], finished: list[tuple[int, str]]
) -> None:
    contents: list[dict[int, str]] = []
    for is_held in (False, True):
        allocator = TakeAllocator(older, replace_older=True)
        disk = {number: f"older {number}" for number in older}
        for index, (number, result) in enumerate(finished):
            placement = allocator.place_take(
                number,
                may_replace_older=result == "success",
                same_errors=errors & older if result == "error" else frozenset(),
                is_held=is_held,
            )
            disk[placement.initial_number] = f"new {index}"
            _apply_to_disk(disk, placement)
        assert not is_held or len(disk) == len(older) + len(finished)
        if is_held:
            _apply_to_disk(disk, allocator.replace_by_parked_takes(disk))
        contents.append(disk)
        texts = set(disk.values())
        assert texts >= {f"new {index}" for index in range(len(finished))}
        if all(result != "success" for _, result in finished):
            assert texts >= {f"older {number}" for number in older - errors}
    assert contents[0] == contents[1]


def _apply_to_disk(disk: dict[int, str], changes: TakePlacement | Renumbering) -> None:
    for source, target in changes.moves:
        assert not disk.get(target, "older").startswith("new")
        disk[target] = disk.pop(source)
    for number in changes.removals:
        assert disk.pop(number).startswith("older")


@given(
    own=st.sets(st.integers(1, 20)),
    default=st.sets(st.integers(1, 20)),
    ordinal=st.integers(1, 60),
)
def test_every_take_that_is_played_is_on_disk(
    own: set[int], default: set[int], ordinal: int
) -> None:
    takes = session_take_order(own, default)
    assert [number for is_own, number in takes if is_own] == sorted(own)
    assert {number for is_own, number in takes if not is_own} <= default
    assert [number for _, number in takes] == sorted({number for _, number in takes})
    picked = pick_take(takes, ordinal, "repeat")
    assert (picked is None) == (not own | default)
    assert picked is None or picked in takes
