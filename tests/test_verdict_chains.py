"""Which requests are attempts of one logical request."""

from __future__ import annotations

import pytest

from case_tables import each_row
from journal_documents import Entry, fault_entry, parse_attempts, refused_entry, request_entry
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.retry_chains import retry_chains


def chain_numbers(*entries: Entry) -> list[list[int]]:
    """The numbers of the attempts of each chain."""
    return [
        [attempt.number for attempt in chain.attempts]
        for chain in retry_chains(parse_attempts(*entries))
    ]


def test_what_comes_after_a_failure_is_a_further_attempt() -> None:
    assert chain_numbers(refused_entry(1), refused_entry(2, 500), request_entry(3, 1500)) == [
        [1, 2, 3]
    ]


def test_what_comes_after_an_answer_is_a_new_request() -> None:
    assert chain_numbers(refused_entry(1), request_entry(2, 500), request_entry(3, 900)) == [
        [1, 2],
        [3],
    ]


@each_row("field", ["session", "key", "path"])
def test_another_session_key_or_path_is_another_request(field: str) -> None:
    assert chain_numbers(refused_entry(1), request_entry(2, 500, **{field: "another"})) == [
        [1],
        [2],
    ]


def test_what_arrives_before_the_end_is_no_retry() -> None:
    assert chain_numbers(refused_entry(1, 0, ms=1000.0), refused_entry(2, 400, ms=1000.0)) == [
        [1],
        [2],
    ]


def test_the_end_may_be_logged_shortly_after_the_next_attempt() -> None:
    assert chain_numbers(refused_entry(1, 0, ms=100.0), request_entry(2, 98)) == [[1, 2]]


def test_the_retry_count_of_an_sdk_distinguishes_parallel_requests() -> None:
    first = [refused_entry(1, 0, retry_count=0), refused_entry(2, 5, retry_count=0)]
    again = [refused_entry(3, 400, retry_count=1), refused_entry(4, 500, retry_count=1)]
    last = [request_entry(5, 1300, retry_count=2), request_entry(6, 1500, retry_count=2)]
    assert chain_numbers(*first, *again, *last) == [[1, 3, 5], [2, 4, 6]]


def test_a_new_request_between_two_attempts_is_recognised_by_its_count() -> None:
    first_attempts = [refused_entry(1, 0, retry_count=0), request_entry(2, 50, retry_count=0)]
    assert chain_numbers(*first_attempts, request_entry(3, 450, retry_count=1)) == [[1, 3], [2]]


def test_an_application_that_asks_again_around_its_sdk_goes_on_with_the_same() -> None:
    by_sdk = [refused_entry(1, 0, retry_count=0), refused_entry(2, 450, retry_count=1)]
    by_application = [refused_entry(3, 2000, retry_count=0), request_entry(4, 2500, retry_count=1)]
    assert chain_numbers(*by_sdk, *by_application) == [[1, 2, 3, 4]]


def test_of_several_that_failed_the_first_to_end_is_asked_again() -> None:
    failed = [refused_entry(1, 0, ms=300.0), refused_entry(2, 10, ms=100.0)]
    assert chain_numbers(*failed, request_entry(3, 700), request_entry(4, 800)) == [[1, 4], [2, 3]]


@each_row(
    "spoiled",
    [
        request_entry(1, 0, status=500),
        request_entry(1, 0, ending="cut"),
        request_entry(1, 0, fault_entry(FaultEffect.TRUNCATED)),
        request_entry(1, 0, fault_entry(FaultEffect.UNANSWERED), status=0, ending="client_gone"),
    ],
    ids=["an error that nobody injected", "cut", "truncated", "left"],
)
def test_every_spoiled_answer_can_be_asked_again(spoiled: Entry) -> None:
    assert chain_numbers(spoiled, request_entry(2, 500)) == [[1, 2]]


@pytest.mark.parametrize("effect", [FaultEffect.ALTERED, FaultEffect.SLOWED])
def test_an_answer_that_can_be_used_needs_no_further_attempt(effect: FaultEffect) -> None:
    assert chain_numbers(request_entry(1, 0, fault_entry(effect)), request_entry(2, 500)) == [
        [1],
        [2],
    ]


def test_a_skipped_fault_spoils_nothing() -> None:
    skipped = fault_entry(FaultEffect.TRUNCATED, skipped="there are no events")
    assert chain_numbers(request_entry(1, 0, skipped), request_entry(2, 500)) == [[1], [2]]


def test_a_request_that_the_proxy_refused_is_no_attempt() -> None:
    assert chain_numbers(request_entry(1, key="", status=403, origin="refused")) == []


def test_the_order_of_the_journal_does_not_matter() -> None:
    assert chain_numbers(request_entry(3, 1500), refused_entry(1), refused_entry(2, 500)) == [
        [1, 2, 3]
    ]


def test_a_chain_knows_the_request_that_used_its_answer() -> None:
    short = request_entry(1, 0, fault_entry(FaultEffect.TRUNCATED))
    later = [
        request_entry(2, 500, key="next", continues=1),
        request_entry(3, 900, key="third", continues=1),
    ]
    [first, *_] = retry_chains(parse_attempts(short, *later))
    assert {
        number: attempt.number for number, attempt in first.follow_up_by_attempt_number.items()
    } == {1: 2}
