"""Explains why no cassette answers a request.

    request, candidates ──▶ nearest ──▶ differences ──▶ advice ──▶ report, messages

`word_index` preselects candidates among very many cassettes; `nearest` finds the most similar one,
by the `similarity` of all values and of the `prompt_fields`; `document_diff` lists its differences,
`advice` the rules with which it would match.  `report` builds values for error pages and journals,
`messages` text for exceptions and logs; `grouping` groups the misses of a run, `step_summary`
renders them for CI; `key_explanation` explains how a key is derived.
"""

from llm_proxy.misses.messages import (
    no_cassette_miss,
    request_summary,
    unusable_cassette_report,
    used_up_takes_miss,
)
from llm_proxy.misses.nearest import (
    CassetteCandidate,
    NearestSearchResult,
    RankedCandidate,
    find_nearest,
)

__all__ = [
    "CassetteCandidate",
    "NearestSearchResult",
    "RankedCandidate",
    "find_nearest",
    "no_cassette_miss",
    "request_summary",
    "unusable_cassette_report",
    "used_up_takes_miss",
]
