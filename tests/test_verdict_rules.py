"""The findings of each rule in handwritten attempts, in which no other rule finds anything."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

import pytest

from case_tables import each_row
from journal_documents import (
    Entry,
    fault_entry,
    finding_lines,
    judge_entries,
    refused_entry,
    request_entry,
)
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.journal_document import ListenerClosure
from llm_proxy.verdict.rules import RULES

JudgedCases = dict[str, tuple[list[Entry], str]]


def refused_attempts(*pauses: float, status: int = 503, **fields: object) -> list[Entry]:
    """Refused attempts with these pauses between them, in ms."""
    starts = accumulate((pause + 10.0 for pause in pauses), initial=0.0)
    return [refused_entry(number, at, status, **fields) for number, at in enumerate(starts, 1)]


def then_answered(entries: list[Entry], later: float = 900.0) -> list[Entry]:
    """These attempts, followed by a successful one."""
    last = entries[-1]
    at = last["at_ms"] + last["ms"] + later
    return [*entries, request_entry(len(entries) + 1, at)]


NO_FINDINGS: Final[JudgedCases] = {
    "OpenAI's SDK": (then_answered(refused_attempts(420.0)), ""),
    "growing pauses": (
        then_answered(refused_attempts(420, 900, 1_700, 3_900, 7_000, 6_500), 7_900),
        "",
    ),
    "as told": (
        then_answered(refused_attempts(2_010, status=429, retry_after_ms=2000.0), 2_010),
        "",
    ),
    "told to come at once": (then_answered(refused_attempts(1, 1, retry_after_ms=0.0), 1), ""),
    "a refusal for good, taken so": (refused_attempts(status=400), ""),
    "told not to ask again, and did not": (refused_attempts(status=500, should_retry=False), ""),
    "told to ask again after 400": (
        then_answered(refused_attempts(status=400, should_retry=True)),
        "",
    ),
    "the same wish much later": (refused_attempts(6_000, status=404), ""),
    "truncated, and asked again": (
        [request_entry(1, 0, fault_entry(FaultEffect.TRUNCATED, 9)), request_entry(2, 500)],
        "",
    ),
    "malformed, and left": (
        [
            request_entry(
                1, 0, fault_entry(FaultEffect.MALFORMED, 100), ms=101.0, ending="client_gone"
            )
        ],
        "",
    ),
    "a byte order mark, and read on": (
        [request_entry(1, 0, fault_entry(FaultEffect.MALFORMED, fault="bom"), ms=900.0)],
        "",
    ),
    "malformed, and all sent at once": (
        [request_entry(1, 0, fault_entry(FaultEffect.MALFORMED, 9))],
        "",
    ),
    "malformed, read on, and asked again": (
        [
            request_entry(1, 0, fault_entry(FaultEffect.MALFORMED, 9), ms=800.0),
            request_entry(2, 1200),
        ],
        "",
    ),
    "the provider's error, and asked again": (
        [request_entry(1, 0, fault_entry(FaultEffect.FAILED, 9)), request_entry(2, 500)],
        "",
    ),
    "left a silence, and asked again": (
        [
            request_entry(
                1,
                0,
                fault_entry(FaultEffect.UNANSWERED),
                status=0,
                ms=9_000.0,
                ending="client_gone",
            ),
            request_entry(2, 9_500),
        ],
        "",
    ),
    "altered or slow": (
        [request_entry(1, 0, fault_entry(FaultEffect.ALTERED), fault_entry(FaultEffect.SLOWED))],
        "",
    ),
    "left before it struck": (
        [request_entry(1, 0, fault_entry(FaultEffect.CUT, 500), ms=400.0, ending="client_gone")],
        "",
    ),
    "an effect of a later version": ([request_entry(1, 0, {"effect": "haunted", "rule": "r"})], ""),
}

GAVE_UP: Final[JudgedCases] = {
    "at once": (
        refused_attempts(),
        "gave-up, warning: gave up after the first failure: HTTP 503 (fault a rule, refused)",
    ),
    "with a limit": (
        refused_attempts(status=429, retry_after_ms=1_500.0),
        (
            "gave-up, warning: gave up after the first failure: HTTP 429, Retry-After 1.5 s "
            "(fault a rule, refused)"
        ),
    ),
    "after three": (
        refused_attempts(420, 900),
        "gave-up, note: gave up after 3 attempts: HTTP 503 (fault a rule, refused)",
    ),
    "retry after long": (
        refused_attempts(status=429, retry_after_ms=130_000.0),
        "gave-up, note: gave up instead of waiting for 2 min 10 s",
    ),
    "told to ask again after 400": (
        refused_attempts(status=400, should_retry=True),
        (
            "gave-up, warning: gave up after the first failure: HTTP 400, x-should-retry: true "
            "(fault a rule, refused)"
        ),
    ),
    "a lost stream": (
        [request_entry(1, 0, fault_entry(FaultEffect.CUT, 9, event=3), ending="cut")],
        (
            "gave-up, note: did not retry an interrupted stream: body cut off after 3 events "
            "(fault a rule, cut)"
        ),
    ),
    "a lost document": (
        [
            request_entry(
                1, 0, fault_entry(FaultEffect.CUT, 9, byte=20), ending="cut", streams=False
            )
        ],
        (
            "gave-up, warning: gave up after the first failure: body cut off after 20 bytes "
            "(fault a rule, cut)"
        ),
    ),
    "a connection": (
        [request_entry(1, 0, fault_entry(FaultEffect.DISCONNECTED), ending="cut", status=0)],
        (
            "gave-up, warning: gave up after the first failure: connection closed before the "
            "response (fault a rule, disconnected)"
        ),
    ),
    "a silence that it left": (
        [
            request_entry(
                1,
                0,
                fault_entry(FaultEffect.UNANSWERED),
                ending="client_gone",
                status=0,
                ms=10_000.0,
            )
        ],
        "gave-up, warning: gave up after the first failure: no response (fault a rule, unanswered)",
    ),
    "a scenario's failure": (
        [
            request_entry(
                1, status=429, simulated={"source": "refund, turn 1", "failure": "rate_limit"}
            )
        ],
        (
            "gave-up, warning: gave up after the first failure: HTTP 429 (fault refund, turn 1:"
            " rate_limit)"
        ),
    ),
    "a scenario's reset": (
        [
            request_entry(
                1, status=0, ending="cut", simulated={"source": "a", "failure": "network_error"}
            )
        ],
        (
            "gave-up, warning: gave up after the first failure: connection closed before the "
            "response (fault a: network_error)"
        ),
    ),
}

TOO_SOON: Final[JudgedCases] = {
    "by much": (
        then_answered(refused_attempts(status=429, retry_after_ms=2_000.0), 500),
        ("too-soon, error: retried too early once: after 500 ms instead of 2.0 s"),
    ),
    "within what a clock may be off": (
        then_answered(refused_attempts(status=429, retry_after_ms=10_000.0), 9_501),
        "",
    ),
    "just beyond that": (
        then_answered(refused_attempts(status=429, retry_after_ms=10_000.0), 9_499),
        ("too-soon, error: retried too early once: after 9.5 s instead of 10.0 s"),
    ),
    "within what a timer may be early": (
        then_answered(refused_attempts(status=429, retry_after_ms=300.0), 251),
        "",
    ),
    "twice": (
        then_answered(refused_attempts(800, status=429, retry_after_ms=1_000.0), 700),
        ("too-soon, error: retried too early twice: after 700 ms instead of 1.0 s"),
    ),
}

NO_BACKOFF: Final[JudgedCases] = {
    "two": (
        then_answered(refused_attempts(2), 3),
        "no-backoff, warning: retried twice with almost no delay: after at most 3.00 ms",
    ),
    "three": (
        then_answered(refused_attempts(2, 99), 3),
        "no-backoff, error: retried 3 times with almost no delay: after at most 99 ms",
    ),
    "one is chance": (then_answered(refused_attempts(2), 600), ""),
    "always the same": (
        then_answered(refused_attempts(1_000, 1_010), 1_005),
        "no-backoff, warning: retried without increasing delays: 3 delays of 1.0 s to 1.0 s",
    ),
    "always the same, and long": (then_answered(refused_attempts(8_000, 8_000), 8_000), ""),
    "the same twice": (then_answered(refused_attempts(1_000), 1_000), ""),
    "a random share": (then_answered(refused_attempts(300, 250), 1_100), ""),
}

RETRY_STORM: Final[JudgedCases] = {
    "eleven": (
        then_answered(refused_attempts(*(500 * 1.5**n for n in range(9))), 20_000),
        "retry-storm, error: sent the same request 11 times within 57.5 s",
    ),
    "ten": (then_answered(refused_attempts(*(500 * 1.5**n for n in range(8))), 20_000), ""),
    "six within a second": (
        then_answered(refused_attempts(100, 151, 227, 341), 10),
        "retry-storm, error: sent the same request 6 times within 879 ms",
    ),
    "three calls of one prompt, each counted anew": (
        then_answered(
            [refused_entry(n, n * (90 + n * 10), retry_count=n % 3) for n in range(1, 8)], 300
        ),
        "retry-storm, warning: sent the same request 8 times within 1.3 s",
    ),
    "six within more": (then_answered(refused_attempts(100, 151, 227, 341), 300), ""),
}

MUST_NOT_RETRY: Final[JudgedCases] = {
    "a client without a count": (
        refused_attempts(300, status=400),
        (
            "must-not-retry, warning: retried once after a permanent error: HTTP 400; "
            "sent the same request again after 300 ms"
        ),
    ),
    "twice": (
        refused_attempts(300, 700, status=422),
        (
            "must-not-retry, warning: retried twice after a permanent error: HTTP 422; "
            "sent the same request again after 300 ms"
        ),
    ),
    "without a pause, which is told once": (
        refused_attempts(9, 9, 9, status=404),
        (
            "must-not-retry, warning: retried 3 times after a permanent error: HTTP 404; "
            "sent the same request again after 9.00 ms"
        ),
    ),
    "against what it was told": (
        then_answered(refused_attempts(status=503, should_retry=False), 300),
        (
            "must-not-retry, warning: retried once after a permanent error: HTTP 503, "
            "x-should-retry: false; sent the same request again after 300 ms"
        ),
    ),
    "an SDK's retry, however late": (
        [refused_entry(1, 0, 404, retry_count=0), refused_entry(2, 9_000, 404, retry_count=1)],
        (
            "must-not-retry, error: retried once after a permanent error: HTTP 404; "
            "sent the same request again after 9.0 s (SDK retry count 1)"
        ),
    ),
    "an application around its SDK": (
        [refused_entry(1, 0, 404, retry_count=0), refused_entry(2, 510, 404, retry_count=0)],
        (
            "must-not-retry, warning: retried once after a permanent error: HTTP 404; "
            "sent the same request again after 500 ms (a new request by the application)"
        ),
    ),
    "a key that may have been renewed": (
        then_answered(refused_attempts(status=401), 300),
        (
            "must-not-retry, note: retried once after a permanent error: HTTP 401; "
            "sent the same request again after 300 ms"
        ),
    ),
    "a key that was not": (
        refused_attempts(300, 700, status=401),
        (
            "must-not-retry, warning: retried twice after a permanent error: HTTP 401; "
            "sent the same request again after 700 ms"
        ),
    ),
}

TRUNCATED_ENTRY: Final = request_entry(1, 0, fault_entry(FaultEffect.TRUNCATED, 9))

TRUNCATED: Final[JudgedCases] = {
    "nothing shows": (
        [TRUNCATED_ENTRY],
        (
            "truncated-accepted, warning: did not retry after an incomplete response, and may "
            "have accepted the response as complete"
        ),
    ),
    "nothing shows, of a document": (
        [TRUNCATED_ENTRY | {"streams": False}],
        (
            "truncated-accepted, note: did not retry after an incomplete response, and may "
            "have accepted the response as complete"
        ),
    ),
    "it was used": (
        [TRUNCATED_ENTRY, request_entry(2, 500, key="other", continues=1)],
        (
            "truncated-accepted, error: accepted an incomplete response as complete, and "
            "included this response in a later request"
        ),
    ),
    "it was used although asked again": (
        [TRUNCATED_ENTRY, request_entry(2, 500), request_entry(3, 900, key="o", continues=1)],
        (
            "truncated-accepted, error: accepted an incomplete response as complete, and "
            "included this response in a later request"
        ),
    ),
    "what was cut was used": (
        [
            request_entry(1, 0, fault_entry(FaultEffect.CUT, 9), ending="cut"),
            request_entry(2, 500, key="other", continues=1),
        ],
        (
            "truncated-accepted, warning: continued with an incomplete response, and "
            "included this response in a later request"
        ),
    ),
    "a gateway's page with 200": (
        [request_entry(1, 0, fault_entry(FaultEffect.REFUSED))],
        (
            "truncated-accepted, warning: did not retry after an incomplete response, and may "
            "have accepted the response as complete"
        ),
    ),
    "it left": (
        [request_entry(1, 0, fault_entry(FaultEffect.TRUNCATED, 9), ending="client_gone")],
        "",
    ),
}

MALFORMED: Final[JudgedCases] = {
    "read on": (
        [request_entry(1, 0, fault_entry(FaultEffect.MALFORMED, 100), ms=900.0)],
        (
            "malformed-accepted, warning: read the response for another 800 ms after malformed "
            "data, and did not retry"
        ),
    ),
    "it was used": (
        [
            request_entry(1, 0, fault_entry(FaultEffect.MALFORMED, 9)),
            request_entry(2, 500, key="other", continues=1),
        ],
        (
            "malformed-accepted, error: accepted a response with malformed data, and "
            "included this response in a later request"
        ),
    ),
    "a document cannot be left": (
        [request_entry(1, 0, fault_entry(FaultEffect.MALFORMED), ms=900, streams=False)],
        "",
    ),
}

FAILED: Final[JudgedCases] = {
    "nothing shows": (
        [request_entry(1, 0, fault_entry(FaultEffect.FAILED, 9))],
        (
            "failed-accepted, note: did not retry after an error within a response, and may "
            "have ignored the error"
        ),
    ),
    "it was used": (
        [
            request_entry(1, 0, fault_entry(FaultEffect.FAILED, 9)),
            request_entry(2, 500, key="other", continues=1),
        ],
        (
            "failed-accepted, error: accepted a response that the provider reported as failed, "
            "and included this response in a later request"
        ),
    ),
}


def ended_silence(
    ms: float, effect: FaultEffect = FaultEffect.STALLED, **fields: object
) -> list[Entry]:
    """A silence of so many ms that the proxy ended, and another attempt."""
    fault_fields = {"fault": fields.pop("fault", "stall")}
    first = request_entry(
        1, 0, fault_entry(effect, 100.0, **fault_fields), ms=ms + 100.0, ending="cut", **fields
    )
    return [first, request_entry(2, ms + 600.0)]


NO_READ_TIMEOUT: Final[JudgedCases] = {
    "for ever": (
        ended_silence(660_000.0),
        (
            "no-read-timeout, error: waited 11 min 0 s until the proxy closed the connection; "
            "the client has no read timeout"
        ),
    ),
    "for long": (
        ended_silence(120_000.0, FaultEffect.UNANSWERED, status=0),
        (
            "no-read-timeout, warning: waited 2 min 0 s until the proxy closed the connection; "
            "the client has no read timeout below 2 min 0 s"
        ),
    ),
    "for a while": (
        ended_silence(5_000.0),
        (
            "no-read-timeout, note: waited 5.0 s until the proxy closed the connection; "
            "the client has no read timeout below 5.0 s"
        ),
    ),
    "kept alive": (
        ended_silence(660_000.0, fault="stall-keepalive"),
        (
            "no-read-timeout, warning: waited 11 min 0 s until the proxy closed the connection; "
            "the client has no deadline for the whole response"
        ),
    ),
    "left": (
        [
            request_entry(1, 0, fault_entry(FaultEffect.STALLED), ms=6e5, ending="client_gone"),
            request_entry(2, 601_000),
        ],
        "",
    ),
}


TABLES: Final[dict[str, JudgedCases]] = {
    "well": NO_FINDINGS,
    "gave-up": GAVE_UP,
    "too-soon": TOO_SOON,
    "no-backoff": NO_BACKOFF,
    "retry-storm": RETRY_STORM,
    "must-not-retry": MUST_NOT_RETRY,
    "truncated-accepted": TRUNCATED,
    "malformed-accepted": MALFORMED,
    "failed-accepted": FAILED,
    "no-read-timeout": NO_READ_TIMEOUT,
}


@each_row(
    ("entries", "expected"),
    [
        pytest.param(*parameters, id=f"{name}: {case}")
        for name, table in TABLES.items()
        for case, parameters in table.items()
    ],
)
def test_attempts_are_judged_by_every_rule(entries: list[Entry], expected: str) -> None:
    assert "\n".join(finding_lines(judge_entries(*entries))) == expected


REFUSED_RETRY: Final = "; a retry may have been refused while the listener was closed"


@each_row(
    ("entry", "closure", "level"),
    [
        (refused_entry(1), (5.0, None), "note"),
        (refused_entry(1), (400.0, 500.0), "note"),
        (refused_entry(1), (0.0, 10.0), "warning"),
        (refused_entry(1), (60_010.0, None), "note"),
        (refused_entry(1), (60_011.0, None), "warning"),
        (refused_entry(1, status=429, retry_after_ms=40_000.0), (80_000.0, None), "note"),
        (TRUNCATED_ENTRY, (5.0, None), "note"),
        (TRUNCATED_ENTRY, (0.0, 10.0), "warning"),
    ],
)
def test_a_client_whose_retry_may_have_been_refused_is_not_blamed(
    entry: Entry, closure: ListenerClosure, level: str
) -> None:
    [unaware] = finding_lines(judge_entries(entry))
    [aware] = finding_lines(judge_entries(entry, listener_closures=[closure]))

    assert ", warning: " in unaware
    is_note = level == "note"
    assert aware == unaware.replace("warning", level) + (REFUSED_RETRY if is_note else "")


def test_a_response_that_is_proven_to_be_used_is_blamed_whether_or_not_clients_could_connect() -> (
    None
):
    entries = (TRUNCATED_ENTRY, request_entry(2, 100.0, key="next", continues=1))
    [finding] = finding_lines(judge_entries(*entries, listener_closures=[(5.0, None)]))

    assert finding.startswith("truncated-accepted, error: ")
    assert REFUSED_RETRY not in finding


def test_each_rule_has_a_name_and_advice_of_its_own() -> None:
    for texts in (
        [rule.name for rule in RULES],
        [rule.description for rule in RULES],
        [rule.advice for rule in RULES],
    ):
        assert len(set(texts)) == len(RULES)
        assert all(texts)


@each_row("entries", [attempts for attempts, _ in GAVE_UP.values()])
def test_the_evidence_names_the_response_and_the_reaction(entries: list[Entry]) -> None:
    for case in judge_entries(*entries).cases_with_findings:
        assert case.finding is not None
        assert [item.entry for item in case.finding.evidence] == [
            item["number"] for item in entries
        ]
        assert all(item.received and item.reaction for item in case.finding.evidence)
