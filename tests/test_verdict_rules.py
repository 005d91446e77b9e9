"""What each rule finds in attempts that are told by hand, and that no other finds anything."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

import pytest

from journal_documents import Entry, entry, fault, found, judged, refused
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.rules import RULES

Told = dict[str, tuple[list[Entry], str]]


def after(*pauses: float, status: int = 503, **fields: object) -> list[Entry]:
    """Attempts that were refused, with these pauses between them, in ms."""
    starts = accumulate((pause + 10.0 for pause in pauses), initial=0.0)
    return [refused(number, at, status, **fields) for number, at in enumerate(starts, 1)]


def then_answered(entries: list[Entry], later: float = 900.0) -> list[Entry]:
    """The same, and an answer at last."""
    last = entries[-1]
    at = last["at_ms"] + last["ms"] + later
    return [*entries, entry(len(entries) + 1, at)]


WELL: Final[Told] = {
    "OpenAI's SDK": (then_answered(after(420.0)), ""),
    "growing pauses": (then_answered(after(420, 900, 1_700, 3_900, 7_000, 6_500), 7_900), ""),
    "as told": (then_answered(after(2_010, status=429, retry_after_ms=2000.0), 2_010), ""),
    "told to come at once": (then_answered(after(1, 1, retry_after_ms=0.0), 1), ""),
    "a refusal for good, taken so": (after(status=400), ""),
    "told not to ask again, and did not": (after(status=500, should_retry=False), ""),
    "told to ask again after 400": (then_answered(after(status=400, should_retry=True)), ""),
    "the same wish much later": (after(6_000, status=404), ""),
    "truncated, and asked again": (
        [entry(1, 0, fault(FaultEffect.TRUNCATED, 9)), entry(2, 500)],
        "",
    ),
    "malformed, and left": (
        [entry(1, 0, fault(FaultEffect.MALFORMED, 100), ms=101.0, ending="client_gone")],
        "",
    ),
    "a byte order mark, and read on": (
        [entry(1, 0, fault(FaultEffect.MALFORMED, fault="bom"), ms=900.0)],
        "",
    ),
    "malformed, and all sent at once": ([entry(1, 0, fault(FaultEffect.MALFORMED, 9))], ""),
    "malformed, read on, and asked again": (
        [entry(1, 0, fault(FaultEffect.MALFORMED, 9), ms=800.0), entry(2, 1200)],
        "",
    ),
    "the provider's error, and asked again": (
        [entry(1, 0, fault(FaultEffect.FAILED, 9)), entry(2, 500)],
        "",
    ),
    "left a silence, and asked again": (
        [
            entry(1, 0, fault(FaultEffect.UNANSWERED), status=0, ms=9_000.0, ending="client_gone"),
            entry(2, 9_500),
        ],
        "",
    ),
    "altered or slow": ([entry(1, 0, fault(FaultEffect.ALTERED), fault(FaultEffect.SLOWED))], ""),
    "left before it struck": (
        [entry(1, 0, fault(FaultEffect.CUT, 500), ms=400.0, ending="client_gone")],
        "",
    ),
    "an effect of a later version": ([entry(1, 0, {"effect": "haunted", "rule": "r"})], ""),
}

GAVE_UP: Final[Told] = {
    "at once": (
        after(),
        "gave-up, warning: gave up at the first failure: HTTP 503 (fault a rule, refused)",
    ),
    "with a limit": (
        after(status=429, retry_after_ms=1_500.0),
        (
            "gave-up, warning: gave up at the first failure: HTTP 429, told to wait 1.5 s "
            "(fault a rule, refused)"
        ),
    ),
    "after three": (
        after(420, 900),
        "gave-up, note: gave up after it had asked 3 times: HTTP 503 (fault a rule, refused)",
    ),
    "told to wait long": (
        after(status=429, retry_after_ms=130_000.0),
        "gave-up, note: gave up, as it was told to wait 2 min 10 s",
    ),
    "told to ask again after 400": (
        after(status=400, should_retry=True),
        (
            "gave-up, warning: gave up at the first failure: HTTP 400, x-should-retry: true "
            "(fault a rule, refused)"
        ),
    ),
    "a lost stream": (
        [entry(1, 0, fault(FaultEffect.CUT, 9, event=3), ending="cut")],
        (
            "gave-up, note: a stream was lost, and nobody asked again: a body that broke off "
            "after 3 events (fault a rule, cut)"
        ),
    ),
    "a lost document": (
        [entry(1, 0, fault(FaultEffect.CUT, 9, byte=20), ending="cut", streams=False)],
        (
            "gave-up, warning: gave up at the first failure: a body that broke off after 20 "
            "bytes (fault a rule, cut)"
        ),
    ),
    "a connection": (
        [entry(1, 0, fault(FaultEffect.DISCONNECTED), ending="cut", status=0)],
        (
            "gave-up, warning: gave up at the first failure: a connection that closed before "
            "any answer (fault a rule, disconnected)"
        ),
    ),
    "a silence that it left": (
        [entry(1, 0, fault(FaultEffect.UNANSWERED), ending="client_gone", status=0, ms=10_000.0)],
        "gave-up, warning: gave up at the first failure: no answer (fault a rule, unanswered)",
    ),
    "a scenario's failure": (
        [entry(1, status=429, simulated={"source": "refund, turn 1", "failure": "rate_limit"})],
        (
            "gave-up, warning: gave up at the first failure: HTTP 429 (fault refund, turn 1: "
            "rate_limit)"
        ),
    ),
    "a scenario's reset": (
        [entry(1, status=0, ending="cut", simulated={"source": "a", "failure": "network_error"})],
        (
            "gave-up, warning: gave up at the first failure: a connection that closed before "
            "any answer (fault a: network_error)"
        ),
    ),
}

TOO_SOON: Final[Told] = {
    "by much": (
        then_answered(after(status=429, retry_after_ms=2_000.0), 500),
        (
            "too-soon, error: asked again too soon, once: after 500 ms, where it was told to "
            "wait 2.0 s"
        ),
    ),
    "within what a clock may be off": (
        then_answered(after(status=429, retry_after_ms=10_000.0), 9_501),
        "",
    ),
    "just beyond that": (
        then_answered(after(status=429, retry_after_ms=10_000.0), 9_499),
        (
            "too-soon, error: asked again too soon, once: after 9.5 s, where it was told to "
            "wait 10.0 s"
        ),
    ),
    "within what a timer may be early": (
        then_answered(after(status=429, retry_after_ms=300.0), 251),
        "",
    ),
    "twice": (
        then_answered(after(800, status=429, retry_after_ms=1_000.0), 700),
        (
            "too-soon, error: asked again too soon, twice: after 700 ms, where it was told "
            "to wait 1.0 s"
        ),
    ),
}

NO_BACKOFF: Final[Told] = {
    "two": (
        then_answered(after(2), 3),
        "no-backoff, warning: asked again without a pause: 2 times within 3.00 ms",
    ),
    "three": (
        then_answered(after(2, 99), 3),
        "no-backoff, error: asked again without a pause: 3 times within 99 ms",
    ),
    "one is chance": (then_answered(after(2), 600), ""),
    "always the same": (
        then_answered(after(1_000, 1_010), 1_005),
        "no-backoff, warning: waits no longer each time: 3 pauses of 1.0 s to 1.0 s",
    ),
    "always the same, and long": (then_answered(after(8_000, 8_000), 8_000), ""),
    "the same twice": (then_answered(after(1_000), 1_000), ""),
    "a random share": (then_answered(after(300, 250), 1_100), ""),
}

RETRY_STORM: Final[Told] = {
    "eleven": (
        then_answered(after(*(500 * 1.5**n for n in range(9))), 20_000),
        "retry-storm, error: asked 11 times for the same within 57.5 s",
    ),
    "ten": (then_answered(after(*(500 * 1.5**n for n in range(8))), 20_000), ""),
    "six within a second": (
        then_answered(after(100, 151, 227, 341), 10),
        "retry-storm, error: asked 6 times for the same within 879 ms",
    ),
    "three calls of one prompt, each counted anew": (
        then_answered([refused(n, n * (90 + n * 10), retry_count=n % 3) for n in range(1, 8)], 300),
        "retry-storm, warning: asked 8 times for the same within 1.3 s",
    ),
    "six within more": (then_answered(after(100, 151, 227, 341), 300), ""),
}

MUST_NOT_RETRY: Final[Told] = {
    "a client without a count": (
        after(300, status=400),
        (
            "must-not-retry, warning: asked again for what was refused for good, once: HTTP "
            "400, and 300 ms later the same request"
        ),
    ),
    "twice": (
        after(300, 700, status=422),
        (
            "must-not-retry, warning: asked again for what was refused for good, twice: HTTP "
            "422, and 300 ms later the same request"
        ),
    ),
    "without a pause, which is told once": (
        after(9, 9, 9, status=404),
        (
            "must-not-retry, warning: asked again for what was refused for good, 3 times: HTTP "
            "404, and 9.00 ms later the same request"
        ),
    ),
    "against what it was told": (
        then_answered(after(status=503, should_retry=False), 300),
        (
            "must-not-retry, warning: asked again for what was refused for good, once: HTTP "
            "503, x-should-retry: false, and 300 ms later the same request"
        ),
    ),
    "an SDK's retry, however late": (
        [refused(1, 0, 404, retry_count=0), refused(2, 9_000, 404, retry_count=1)],
        (
            "must-not-retry, error: asked again for what was refused for good, once: HTTP "
            "404, and 9.0 s later the same request, which its SDK counts as retry 1"
        ),
    ),
    "an application around its SDK": (
        [refused(1, 0, 404, retry_count=0), refused(2, 510, 404, retry_count=0)],
        (
            "must-not-retry, warning: asked again for what was refused for good, once: HTTP "
            "404, and 500 ms later the same request, which its SDK counts as a new one: the "
            "application asked again by itself"
        ),
    ),
    "a key that may have been renewed": (
        then_answered(after(status=401), 300),
        (
            "must-not-retry, note: asked again for what was refused for good, once: HTTP "
            "401, and 300 ms later the same request"
        ),
    ),
    "a key that was not": (
        after(300, 700, status=401),
        (
            "must-not-retry, warning: asked again for what was refused for good, twice: HTTP "
            "401, and 700 ms later the same request"
        ),
    ),
}

SHORT: Final = entry(1, 0, fault(FaultEffect.TRUNCATED, 9))

TRUNCATED: Final[Told] = {
    "nothing shows": (
        [SHORT],
        (
            "truncated-accepted, warning: an answer that was not whole was not asked for "
            "again, and nothing shows that it was noticed"
        ),
    ),
    "nothing shows, of a document": (
        [SHORT | {"streams": False}],
        (
            "truncated-accepted, note: an answer that was not whole was not asked for "
            "again, and nothing shows that it was noticed"
        ),
    ),
    "it was used": (
        [SHORT, entry(2, 500, key="other", continues=1)],
        (
            "truncated-accepted, error: took half an answer for a whole one: it stands in "
            "the history of a later request"
        ),
    ),
    "it was used although asked again": (
        [SHORT, entry(2, 500), entry(3, 900, key="o", continues=1)],
        (
            "truncated-accepted, error: took half an answer for a whole one: it stands in "
            "the history of a later request"
        ),
    ),
    "what was cut was used": (
        [
            entry(1, 0, fault(FaultEffect.CUT, 9), ending="cut"),
            entry(2, 500, key="other", continues=1),
        ],
        (
            "truncated-accepted, warning: went on with half an answer: it stands in the "
            "history of a later request"
        ),
    ),
    "a gateway's page with 200": (
        [entry(1, 0, fault(FaultEffect.REFUSED))],
        (
            "truncated-accepted, warning: an answer that was not whole was not asked for "
            "again, and nothing shows that it was noticed"
        ),
    ),
    "it left": ([entry(1, 0, fault(FaultEffect.TRUNCATED, 9), ending="client_gone")], ""),
}

MALFORMED: Final[Told] = {
    "read on": (
        [entry(1, 0, fault(FaultEffect.MALFORMED, 100), ms=900.0)],
        (
            "malformed-accepted, warning: read on for 800 ms behind what cannot be read, to "
            "the end, and did not ask again"
        ),
    ),
    "it was used": (
        [entry(1, 0, fault(FaultEffect.MALFORMED, 9)), entry(2, 500, key="other", continues=1)],
        (
            "malformed-accepted, error: used an answer that cannot be read in full: it "
            "stands in the history of a later request"
        ),
    ),
    "a document cannot be left": (
        [entry(1, 0, fault(FaultEffect.MALFORMED), ms=900, streams=False)],
        "",
    ),
}

FAILED: Final[Told] = {
    "nothing shows": (
        [entry(1, 0, fault(FaultEffect.FAILED, 9))],
        (
            "failed-accepted, note: the provider's error amid an answer was not asked again "
            "after, and nothing shows that it was noticed"
        ),
    ),
    "it was used": (
        [entry(1, 0, fault(FaultEffect.FAILED, 9)), entry(2, 500, key="other", continues=1)],
        (
            "failed-accepted, error: used an answer of which the provider said that it "
            "failed: it stands in the history of a later request"
        ),
    ),
}


def silence(ms: float, effect: FaultEffect = FaultEffect.STALLED, **fields: object) -> list[Entry]:
    """A silence of so many ms that we ended, and another attempt."""
    of_fault = {"fault": fields.pop("fault", "stall")}
    first = entry(1, 0, fault(effect, 100.0, **of_fault), ms=ms + 100.0, ending="cut", **fields)
    return [first, entry(2, ms + 600.0)]


NO_READ_TIMEOUT: Final[Told] = {
    "for ever": (
        silence(660_000.0),
        (
            "no-read-timeout, error: waited 11 min 0 s in silence until it was ended: no "
            "read timeout"
        ),
    ),
    "for long": (
        silence(120_000.0, FaultEffect.UNANSWERED, status=0),
        (
            "no-read-timeout, warning: waited 2 min 0 s in silence until it was ended: no "
            "read timeout below 2 min 0 s"
        ),
    ),
    "for a while": (
        silence(5_000.0),
        (
            "no-read-timeout, note: waited 5.0 s in silence until it was ended: no read "
            "timeout below 5.0 s"
        ),
    ),
    "kept alive": (
        silence(660_000.0, fault="stall-keepalive"),
        (
            "no-read-timeout, warning: waited 11 min 0 s in silence until it was ended: no "
            "limit for the whole answer"
        ),
    ),
    "left": (
        [entry(1, 0, fault(FaultEffect.STALLED), ms=6e5, ending="client_gone"), entry(2, 601_000)],
        "",
    ),
}


TABLES: Final[dict[str, Told]] = {
    "well": WELL,
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


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(*told, id=f"{name}: {case}")
        for name, table in TABLES.items()
        for case, told in table.items()
    ],
)
def test_attempts_are_judged_by_every_rule(entries: list[Entry], expected: str) -> None:
    assert "\n".join(found(judged(*entries))) == expected


def test_each_rule_has_a_name_and_advice_of_its_own() -> None:
    for words in (
        [rule.name for rule in RULES],
        [rule.looks_for for rule in RULES],
        [rule.advice for rule in RULES],
    ):
        assert len(set(words)) == len(RULES)
        assert all(words)


@pytest.mark.parametrize("entries", [it for it, _ in GAVE_UP.values()])
def test_the_evidence_names_what_came_and_what_was_done(entries: list[Entry]) -> None:
    for case in judged(*entries).findings:
        assert case.finding is not None
        assert [item.entry for item in case.finding.evidence] == [
            item["number"] for item in entries
        ]
        assert all(item.told and item.did for item in case.finding.evidence)
