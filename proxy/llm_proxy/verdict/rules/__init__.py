"""The verdict rules, one per file, in output order."""

from __future__ import annotations

from typing import Final

from llm_proxy.verdict.findings import VerdictRule
from llm_proxy.verdict.rules.failed_accepted import FAILED_ACCEPTED
from llm_proxy.verdict.rules.gave_up import GAVE_UP
from llm_proxy.verdict.rules.malformed_accepted import MALFORMED_ACCEPTED
from llm_proxy.verdict.rules.must_not_retry import MUST_NOT_RETRY
from llm_proxy.verdict.rules.no_backoff import NO_BACKOFF
from llm_proxy.verdict.rules.no_read_timeout import NO_READ_TIMEOUT
from llm_proxy.verdict.rules.retry_storm import RETRY_STORM
from llm_proxy.verdict.rules.too_soon import TOO_SOON
from llm_proxy.verdict.rules.truncated_accepted import TRUNCATED_ACCEPTED

RULES: Final[tuple[VerdictRule, ...]] = (
    GAVE_UP,
    TOO_SOON,
    NO_BACKOFF,
    RETRY_STORM,
    MUST_NOT_RETRY,
    TRUNCATED_ACCEPTED,
    MALFORMED_ACCEPTED,
    FAILED_ACCEPTED,
    NO_READ_TIMEOUT,
)
