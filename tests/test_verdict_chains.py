"""Which requests are attempts of one and the same."""

from __future__ import annotations

import pytest

from journal_documents import Entry, attempts, entry, fault, refused
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.retry_chains import retry_chains


def parts(*entries: Entry) -> list[list[int]]:
    """The numbers of the attempts of each chain."""
    return [
        [attempt.number for attempt in chain.attempts] for chain in retry_chains(attempts(*entries))
    ]


def test_what_comes_after_a_failure_is_a_further_attempt() -> None:
    assert parts(refused(1), refused(2, 500), entry(3, 1500)) == [[1, 2, 3]]


def test_what_comes_after_an_answer_is_a_new_wish() -> None:
    assert parts(refused(1), entry(2, 500), entry(3, 900)) == [[1, 2], [3]]


@pytest.mark.parametrize("field", ["session", "key", "path"])
def test_another_session_key_or_path_is_another_request(field: str) -> None:
    assert parts(refused(1), entry(2, 500, **{field: "another"})) == [[1], [2]]


def test_what_arrives_before_the_end_is_no_retry() -> None:
    assert parts(refused(1, 0, ms=1000.0), refused(2, 400, ms=1000.0)) == [[1], [2]]


def test_the_end_may_be_noted_a_moment_after_the_next_attempt() -> None:
    assert parts(refused(1, 0, ms=100.0), entry(2, 98)) == [[1, 2]]


def test_the_count_of_an_sdk_tells_parallel_requests_apart() -> None:
    first = [refused(1, 0, retry_count=0), refused(2, 5, retry_count=0)]
    again = [refused(3, 400, retry_count=1), refused(4, 500, retry_count=1)]
    last = [entry(5, 1300, retry_count=2), entry(6, 1500, retry_count=2)]
    assert parts(*first, *again, *last) == [[1, 3, 5], [2, 4, 6]]


def test_a_new_wish_between_two_attempts_is_told_by_its_count() -> None:
    wishes = [refused(1, 0, retry_count=0), entry(2, 50, retry_count=0)]
    assert parts(*wishes, entry(3, 450, retry_count=1)) == [[1, 3], [2]]


def test_an_application_that_asks_again_around_its_sdk_goes_on_with_the_same() -> None:
    by_sdk = [refused(1, 0, retry_count=0), refused(2, 450, retry_count=1)]
    by_application = [refused(3, 2000, retry_count=0), entry(4, 2500, retry_count=1)]
    assert parts(*by_sdk, *by_application) == [[1, 2, 3, 4]]


def test_of_several_that_failed_the_first_to_end_is_asked_again() -> None:
    failed = [refused(1, 0, ms=300.0), refused(2, 10, ms=100.0)]
    assert parts(*failed, entry(3, 700), entry(4, 800)) == [[1, 4], [2, 3]]


@pytest.mark.parametrize(
    "spoiled",
    [
        entry(1, 0, status=500),
        entry(1, 0, ending="cut"),
        entry(1, 0, fault(FaultEffect.TRUNCATED)),
        entry(1, 0, fault(FaultEffect.UNANSWERED), status=0, ending="client_gone"),
    ],
    ids=["an error that nobody injected", "cut", "truncated", "left"],
)
def test_every_spoiled_answer_can_be_asked_again(spoiled: Entry) -> None:
    assert parts(spoiled, entry(2, 500)) == [[1, 2]]


@pytest.mark.parametrize("effect", [FaultEffect.ALTERED, FaultEffect.SLOWED])
def test_an_answer_that_can_be_used_needs_no_further_attempt(effect: FaultEffect) -> None:
    assert parts(entry(1, 0, fault(effect)), entry(2, 500)) == [[1], [2]]


def test_a_fault_that_had_no_meaning_spoils_nothing() -> None:
    skipped = fault(FaultEffect.TRUNCATED, skipped="there are no events")
    assert parts(entry(1, 0, skipped), entry(2, 500)) == [[1], [2]]


def test_what_was_refused_at_the_door_is_no_attempt() -> None:
    assert parts(entry(1, key="", status=403, origin="refused")) == []


def test_the_order_of_the_journal_does_not_count() -> None:
    assert parts(entry(3, 1500), refused(1), refused(2, 500)) == [[1, 2, 3]]


def test_a_chain_knows_the_request_that_used_its_answer() -> None:
    short = entry(1, 0, fault(FaultEffect.TRUNCATED))
    later = [entry(2, 500, key="next", continues=1), entry(3, 900, key="third", continues=1)]
    [first, *_] = retry_chains(attempts(short, *later))
    assert {number: it.number for number, it in first.is_continued.items()} == {1: 2}
