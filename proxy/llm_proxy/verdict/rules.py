"""The verdict rules: each detects one kind of wrong client behaviour after a fault.

`docs/reference/verdict.md` explains why each matters, and shows an example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llm_proxy.display import count_with_noun, format_duration
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.journal_document import ENDING_CUT, ENDING_SENT, JournalEntry
from llm_proxy.verdict.findings import (
    FindingEvidence,
    FindingLevel,
    VerdictFinding,
    attempt_evidence,
    chain_evidence,
    describe_received,
    evidence_of_use,
    format_repeat_count,
)
from llm_proxy.verdict.retry_chains import RetryChain, pause_ms


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """A rule that detects one kind of wrong client behaviour."""

    name: str
    description: str
    """The wrong behaviour, in a sentence without a full stop."""
    advice: str
    """How to fix it, in the same form."""
    applies_to_chain: Callable[[RetryChain], bool]
    """Whether a chain could violate the rule: a chain that could, and does not, has passed."""
    judge_chain: Callable[[RetryChain], VerdictFinding | None]
    """The finding for a chain that the rule applies to; None where the chain passes."""


_RETRYABLE_CLIENT_ERRORS: Final = frozenset((408, 409, 425, 429, 498, 499))
"""Statuses of transient errors below 500: those after which SDKs retry, and Groq's and Cohere's own
for lack of capacity and an aborted request."""


def _forbids_retry(attempt: JournalEntry) -> bool:
    """Whether a retry cannot help: `x-should-retry` takes precedence over the status."""
    if attempt.should_retry is not None:
        return not attempt.should_retry
    return 400 <= attempt.status < 500 and attempt.status not in _RETRYABLE_CLIENT_ERRORS


def _invites_retry(attempt: JournalEntry) -> bool:
    """Whether it is an error after which a retry may help; `x-should-retry` takes precedence."""
    if attempt.should_retry is not None:
        return attempt.should_retry
    return attempt.status in _RETRYABLE_CLIENT_ERRORS or 500 <= attempt.status < 600


_LONG_RETRY_AFTER_MS: Final = 60_000.0
"""With a longer `Retry-After`, a client may reasonably give up."""


def _is_transient(attempt: JournalEntry) -> bool:
    if attempt.should_retry is False:
        return False
    if attempt.first_fault_with_effect(FaultEffect.REFUSED) is not None:
        return _invites_retry(attempt)
    lost_connection = attempt.first_fault_with_effect(
        FaultEffect.UNANSWERED, FaultEffect.DISCONNECTED, FaultEffect.STALLED, FaultEffect.CUT
    )
    return lost_connection is not None


def _judge_giving_up(chain: RetryChain) -> VerdictFinding | None:
    last = chain.last_attempt
    if not _is_transient(last) or last.number in chain.follow_up_by_attempt_number:
        return None
    attempt_count = len(chain.attempts)
    level = FindingLevel.NOTE
    if attempt_count > 1:
        message = (
            f"gave up after {count_with_noun(attempt_count, 'attempt')}: {describe_received(last)}"
        )
    elif last.status and last.streams and not _invites_retry(last):
        message = f"did not retry an interrupted stream: {describe_received(last)}"
    elif (last.retry_after_ms or 0.0) > _LONG_RETRY_AFTER_MS:
        message = f"gave up instead of waiting for {format_duration(last.retry_after_ms or 0.0)}"
    else:
        level = FindingLevel.WARNING
        message = f"gave up after the first failure: {describe_received(last)}"
    return _finding_without_retry(chain, level, message, chain_evidence(chain))


def _finding_without_retry(
    chain: RetryChain, level: FindingLevel, message: str, evidence: tuple[FindingEvidence, ...]
) -> VerdictFinding:
    """The finding that no retry arrived: only a note where the client may have retried in vain."""
    if chain.may_have_refused_retry:
        level = FindingLevel.NOTE
        message += "; a retry may have been refused while the listener was closed"
    return VerdictFinding(level, message, evidence)


_GAVE_UP: Final = VerdictRule(
    name="gave-up",
    description="does not retry after a transient failure",
    advice=(
        "keep the retries of the SDK enabled (max_retries), or retry in the application; the SDK "
        "does not retry after a stream has started: catch the exception, then retry or report the "
        "failure"
    ),
    applies_to_chain=lambda chain: (
        chain.last_attempt.is_over and any(map(_is_transient, chain.attempts))
    ),
    judge_chain=_judge_giving_up,
)


_TOLERANCE_FRACTION: Final = 0.05
"""The fraction of the time that may be missing because of clocks and rounding."""
_TOLERANCE_MS: Final = 50.0
"""The ms that may always be missing: by how much a timer and a scheduler may be early."""


def _is_early(before: JournalEntry, after: JournalEntry) -> bool:
    retry_after_ms = before.retry_after_ms or 0.0
    tolerance_ms = max(_TOLERANCE_FRACTION * retry_after_ms, _TOLERANCE_MS)
    return retry_after_ms > 0 and pause_ms(before, after) < retry_after_ms - tolerance_ms


def _judge_early_retries(chain: RetryChain) -> VerdictFinding | None:
    early_retries = [pair for pair in chain.retried_pairs() if _is_early(*pair)]
    if not early_retries:
        return None
    before, after = min(early_retries, key=lambda pair: pause_ms(*pair))
    message = (
        f"retried too early {format_repeat_count(len(early_retries))}: after "
        f"{format_duration(pause_ms(before, after))} instead of "
        f"{format_duration(before.retry_after_ms or 0.0)}"
    )
    evidence = tuple(attempt_evidence(*pair) for pair in early_retries)
    return VerdictFinding(FindingLevel.ERROR, message, evidence)


_TOO_SOON: Final = VerdictRule(
    name="too-soon",
    description="retries before the time in Retry-After",
    advice=(
        "before a retry, wait for the time in the retry-after-ms or Retry-After header; the SDKs "
        "of OpenAI and Anthropic do this if retries are enabled"
    ),
    applies_to_chain=lambda chain: any(
        (before.retry_after_ms or 0.0) > 0 for before, _ in chain.retried_pairs()
    ),
    judge_chain=_judge_early_retries,
)


_MIN_PAUSE_MS: Final = 100.0
"""A shorter pause counts as none: the SDKs of OpenAI and Anthropic begin with 375 ms."""
_MIN_SHORT_PAUSES: Final = 2
"""This many such pauses are a warning, since AWS's SDK begins with a random fraction of 50 ms, then
of 100 ms, and stops; one more is an error."""
_MIN_COMPARED_PAUSES: Final = 3
"""Pauses that are needed to see growth: of two, jitter can make the second the shorter."""
_MIN_GROWTH_FACTOR: Final = 1.5
"""The least ratio of the longest to the shortest of these, where pauses are doubled."""
_LONG_PAUSE_MS: Final = 5_000.0
"""Pauses of this length need not grow: most SDKs stop growing at 8 s or more."""


def _pauses_without_retry_after_ms(chain: RetryChain) -> list[float]:
    """The pauses without `Retry-After`, in ms; those before forbidden retries are left out."""
    return [
        pause_ms(before, after)
        for before, after in chain.retried_pairs()
        if before.retry_after_ms is None and not _forbids_retry(before)
    ]


def _judge_pauses(chain: RetryChain) -> VerdictFinding | None:
    pauses_ms = _pauses_without_retry_after_ms(chain)
    short_pauses_ms = [pause for pause in pauses_ms if pause < _MIN_PAUSE_MS]
    level = FindingLevel.WARNING
    if len(short_pauses_ms) >= _MIN_SHORT_PAUSES:
        if len(short_pauses_ms) > _MIN_SHORT_PAUSES and not chain.may_be_separate_requests:
            level = FindingLevel.ERROR
        message = (
            f"retried {format_repeat_count(len(short_pauses_ms))} with almost no delay: after at "
            f"most {format_duration(max(short_pauses_ms))}"
        )
    elif (
        len(pauses_ms) >= _MIN_COMPARED_PAUSES
        and max(pauses_ms) < _LONG_PAUSE_MS
        and max(pauses_ms) < _MIN_GROWTH_FACTOR * max(min(pauses_ms), _MIN_PAUSE_MS)
    ):
        message = (
            f"retried without increasing delays: {count_with_noun(len(pauses_ms), 'delay')} of "
            f"{format_duration(min(pauses_ms))} to {format_duration(max(pauses_ms))}"
        )
    else:
        return None
    return VerdictFinding(level, message, chain_evidence(chain))


_NO_BACKOFF: Final = VerdictRule(
    name="no-backoff",
    description="retries without increasing delays",
    advice=(
        "wait 0.5 s before the first retry, double the delay for each further retry up to about "
        "8 s, and randomly shorten each delay, so that clients do not retry at the same time"
    ),
    applies_to_chain=lambda chain: len(_pauses_without_retry_after_ms(chain)) >= _MIN_SHORT_PAUSES,
    judge_chain=_judge_pauses,
)


_MAX_ATTEMPTS: Final = 10
"""The most attempts of one request: SDKs make three, the most persistent five."""
_MAX_ATTEMPTS_PER_SECOND: Final = 5
"""The most attempts of one request within a second."""


def _judge_attempt_count(chain: RetryChain) -> VerdictFinding | None:
    starts_ms = [attempt.at_ms for attempt in chain.attempts]
    has_burst = any(
        later_ms - earlier_ms < 1000
        for earlier_ms, later_ms in zip(
            starts_ms, starts_ms[_MAX_ATTEMPTS_PER_SECOND:], strict=False
        )
    )
    if len(starts_ms) <= _MAX_ATTEMPTS and not has_burst:
        return None
    message = (
        f"sent the same request {count_with_noun(len(starts_ms), 'time')} within "
        f"{format_duration(starts_ms[-1] - starts_ms[0])}"
    )
    level = FindingLevel.WARNING if chain.may_be_separate_requests else FindingLevel.ERROR
    return VerdictFinding(level, message, chain_evidence(chain))


_RETRY_STORM: Final = VerdictRule(
    name="retry-storm",
    description="sends the same request more than 10 times, or more than 5 times within a second",
    advice=(
        "limit each request to about three attempts in total; if the SDK, the framework and the "
        "application all retry, the numbers of attempts multiply"
    ),
    applies_to_chain=lambda chain: len(chain.attempts) > 1,
    judge_chain=_judge_attempt_count,
)


_MAX_RETRY_PAUSE_MS: Final = 5_000.0
"""After a longer pause an equal request counts as a new one, unless an SDK counts it as a retry."""
_UNAUTHORISED: Final = 401


def _judge_forbidden_retries(chain: RetryChain) -> VerdictFinding | None:
    forbidden_retries: list[tuple[JournalEntry, JournalEntry]] = []
    levels: list[FindingLevel] = []
    tolerates_new_key = True
    for before, after in chain.retried_pairs():
        if not _forbids_retry(before):
            continue
        if after.retry_count:  # certainly a retry
            level = FindingLevel.ERROR
        elif pause_ms(before, after) > _MAX_RETRY_PAUSE_MS:
            continue
        else:
            level = FindingLevel.WARNING
        if before.status == _UNAUTHORISED and tolerates_new_key:
            level, tolerates_new_key = FindingLevel.NOTE, False
        forbidden_retries.append((before, after))
        levels.append(level)
    if not forbidden_retries:
        return None
    worst = max(levels, key=lambda level: level.severity)
    before, after = forbidden_retries[levels.index(worst)]
    should_retry_text = ", x-should-retry: false" if before.should_retry is False else ""
    match after.retry_count:
        case None:
            count_text = ""
        case 0:
            count_text = " (a new request by the application)"
        case count:
            count_text = f" (SDK retry count {count})"
    message = (
        f"retried {format_repeat_count(len(forbidden_retries))} after a permanent error: "
        f"HTTP {before.status}{should_retry_text}; "
        f"sent the same request again after {format_duration(pause_ms(before, after))}{count_text}"
    )
    evidence = tuple(attempt_evidence(*pair) for pair in forbidden_retries)
    return VerdictFinding(worst, message, evidence)


_MUST_NOT_RETRY: Final = VerdictRule(
    name="must-not-retry",
    description="retries after a permanent error",
    advice=(
        "do not retry after status 400, 401, 403, 404, 413, 422 or similar, or after the header "
        "x-should-retry: false; raise an error; after a 401, one retry with a new key is acceptable"
    ),
    applies_to_chain=lambda chain: any(map(_forbids_retry, chain.attempts)),
    judge_chain=_judge_forbidden_retries,
)


def _finding_of_use(
    chain: RetryChain, used_attempts: list[JournalEntry], level: FindingLevel, message: str
) -> VerdictFinding:
    message += ", and included this response in a later request"
    return VerdictFinding(level, message, evidence_of_use(chain, used_attempts))


def _unnoticed(chain: RetryChain, level: FindingLevel, message: str) -> VerdictFinding:
    evidence = (attempt_evidence(chain.last_attempt, None),)
    return _finding_without_retry(chain, level, message, evidence)


def _is_disguised_failure(attempt: JournalEntry) -> bool:
    """Whether the response was replaced by something else that has a success status."""
    is_replaced = attempt.first_fault_with_effect(FaultEffect.REFUSED) is not None
    return is_replaced and 200 <= attempt.status < 300


def _is_truncated(attempt: JournalEntry) -> bool:
    is_cut_short = attempt.first_fault_with_effect(FaultEffect.TRUNCATED) is not None
    return is_cut_short or _is_disguised_failure(attempt)


def _is_partial(attempt: JournalEntry) -> bool:
    """Whether HTTP itself shows that it is partial: a client that keeps it knows so."""
    return attempt.first_fault_with_effect(FaultEffect.CUT, FaultEffect.STALLED) is not None


def _judge_truncated_responses(chain: RetryChain) -> VerdictFinding | None:
    if used := chain.used_attempts(_is_truncated):
        return _finding_of_use(
            chain, used, FindingLevel.ERROR, "accepted an incomplete response as complete"
        )
    if used := chain.used_attempts(_is_partial):
        return _finding_of_use(
            chain, used, FindingLevel.WARNING, "continued with an incomplete response"
        )
    last = chain.last_attempt
    if not _is_truncated(last) or last.ending != ENDING_SENT:
        return None
    # Without streaming, half a document cannot be parsed at all.
    can_pass_as_complete = last.streams or _is_disguised_failure(last)
    return _unnoticed(
        chain,
        FindingLevel.WARNING if can_pass_as_complete else FindingLevel.NOTE,
        "did not retry after an incomplete response, and may have accepted the response as "
        "complete",
    )


_TRUNCATED_ACCEPTED: Final = VerdictRule(
    name="truncated-accepted",
    description="accepts an incomplete response as complete",
    advice=(
        "check that each response is complete: it must contain a finish_reason (OpenAI), "
        "message_stop and a stop_reason (Anthropic), a finishReason (Gemini) or done (Ollama); "
        "retry incomplete responses"
    ),
    applies_to_chain=lambda chain: (
        any(map(_is_truncated, chain.attempts)) or bool(chain.used_attempts(_is_partial))
    ),
    judge_chain=_judge_truncated_responses,
)


_MIN_READ_ON_MS: Final = 200.0
"""A client that reads on for this long after the malformed part has ignored it.  A response that
ends sooner shows nothing."""
_TOLERABLE_FAULTS: Final = frozenset(("bom",))
"""Faults that break some clients and that others rightly accept: server-sent events may begin with
a byte order mark."""


def _malformed_fault(attempt: JournalEntry) -> FaultRecord | None:
    for fault in attempt.injected_faults:
        if fault.effect == FaultEffect.MALFORMED and fault.fault not in _TOLERABLE_FAULTS:
            return fault
    return None


def _is_malformed(attempt: JournalEntry) -> bool:
    return _malformed_fault(attempt) is not None


def _judge_malformed_responses(chain: RetryChain) -> VerdictFinding | None:
    if used := chain.used_attempts(_is_malformed):
        return _finding_of_use(
            chain, used, FindingLevel.ERROR, "accepted a response with malformed data"
        )
    last = chain.last_attempt
    fault = _malformed_fault(last)
    read_on_ms = 0.0 if fault is None else last.ms - fault.at_ms
    if last.ending != ENDING_SENT or not last.streams or read_on_ms < _MIN_READ_ON_MS:
        return None
    return _unnoticed(
        chain,
        FindingLevel.WARNING,
        f"read the response for another {format_duration(read_on_ms)} after malformed data, and "
        "did not retry",
    )


_MALFORMED_ACCEPTED: Final = VerdictRule(
    name="malformed-accepted",
    description="ignores malformed data and accepts the rest of the response",
    advice=(
        "if a response contains malformed data, discard the whole response and retry; do not "
        "continue to read the stream after a parse error"
    ),
    applies_to_chain=lambda chain: any(map(_is_malformed, chain.attempts)),
    judge_chain=_judge_malformed_responses,
)


def _has_error_event(attempt: JournalEntry) -> bool:
    return attempt.first_fault_with_effect(FaultEffect.FAILED) is not None


def _judge_failed_responses(chain: RetryChain) -> VerdictFinding | None:
    if used := chain.used_attempts(_has_error_event):
        message = "accepted a response that the provider reported as failed"
        return _finding_of_use(chain, used, FindingLevel.ERROR, message)
    last = chain.last_attempt
    if not _has_error_event(last) or last.ending != ENDING_SENT:
        return None
    return _unnoticed(
        chain,
        FindingLevel.NOTE,
        "did not retry after an error within a response, and may have ignored the error",
    )


_FAILED_ACCEPTED: Final = VerdictRule(
    name="failed-accepted",
    description="ignores an error that the provider sends within a response",
    advice=(
        "catch the exception that the SDK raises while you read the stream (APIError for OpenAI "
        "and Anthropic), and retry; the Cohere SDK raises no exception, so check whether the "
        "finish_reason is ERROR"
    ),
    applies_to_chain=lambda chain: any(map(_has_error_event, chain.attempts)),
    judge_chain=_judge_failed_responses,
)


_MAX_SDK_TIMEOUT_MS: Final = 600_000.0
"""The longest default read timeout of an SDK; a client that waits longer has none."""
_LONG_SILENCE_MS: Final = 60_000.0
"""A silence that hardly any client waits for on purpose; shorter waits can be intended."""
_KEEP_ALIVE_FAULT: Final = "stall-keepalive"
"""The fault whose keep-alives reset a read timeout: only a limit for the whole response ends it."""


def _silence_fault(attempt: JournalEntry) -> FaultRecord | None:
    return attempt.first_fault_with_effect(FaultEffect.UNANSWERED, FaultEffect.STALLED)


def _waited_in_silence_ms(attempt: JournalEntry) -> float:
    """The client's wait in silence, in ms, until the proxy ended it; 0 if the client did."""
    fault = _silence_fault(attempt)
    if fault is None or attempt.ending != ENDING_CUT:
        return 0.0
    return max(0.0, attempt.ms - fault.at_ms)


def _judge_silence(chain: RetryChain) -> VerdictFinding | None:
    silent_attempts = [attempt for attempt in chain.attempts if _waited_in_silence_ms(attempt) > 0]
    if not silent_attempts:
        return None
    longest_attempt = max(silent_attempts, key=_waited_in_silence_ms)
    waited_ms = _waited_in_silence_ms(longest_attempt)
    is_kept_alive = any(
        fault.fault == _KEEP_ALIVE_FAULT for fault in longest_attempt.injected_faults
    )
    limit = "deadline for the whole response" if is_kept_alive else "read timeout"
    message = (
        f"waited {format_duration(waited_ms)} until the proxy closed the connection; the client "
        f"has no {limit}"
    )
    if waited_ms < _MAX_SDK_TIMEOUT_MS:
        message += f" below {format_duration(waited_ms)}"
    level = FindingLevel.ERROR
    if waited_ms < _LONG_SILENCE_MS:
        level = FindingLevel.NOTE
    elif waited_ms < _MAX_SDK_TIMEOUT_MS or is_kept_alive:
        level = FindingLevel.WARNING
    next_attempts = {before.number: after for before, after in chain.retried_pairs()}
    evidence = tuple(
        attempt_evidence(attempt, next_attempts.get(attempt.number)) for attempt in silent_attempts
    )
    return VerdictFinding(level, message, evidence)


_NO_READ_TIMEOUT: Final = VerdictRule(
    name="no-read-timeout",
    description="waits without a timeout for a stalled response",
    advice=(
        "set a read timeout and a deadline for the whole response; in the SDKs of OpenAI, "
        "Anthropic and Ollama, set timeout=30, because by default they wait ten minutes or forever"
    ),
    applies_to_chain=lambda chain: any(
        attempt.is_over and _silence_fault(attempt) is not None for attempt in chain.attempts
    ),
    judge_chain=_judge_silence,
)


RULES: Final = (
    _GAVE_UP,
    _TOO_SOON,
    _NO_BACKOFF,
    _RETRY_STORM,
    _MUST_NOT_RETRY,
    _TRUNCATED_ACCEPTED,
    _MALFORMED_ACCEPTED,
    _FAILED_ACCEPTED,
    _NO_READ_TIMEOUT,
)
"""The rules in output order."""
