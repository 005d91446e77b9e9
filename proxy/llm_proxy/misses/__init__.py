"""Explains why no cassette answers a request.

    request, candidates ──▶ nearest ──▶ differences ──▶ advice ──▶ report, messages

`word_index` preselects candidates among very many cassettes; `nearest` finds the most similar one;
`advice` finds the rules with which it would match.  `report` builds values for error pages and
journals, and text for exceptions and logs; `run_summary` summarises the misses of a run;
`key_explanation` explains how a key is derived.
"""

from llm_proxy.misses.nearest import (
    CassetteCandidate,
    NearestSearchResult,
    RankedCandidate,
    find_nearest,
)
from llm_proxy.misses.report import (
    no_cassette_miss,
    request_summary,
    unusable_cassette_report,
    used_up_takes_miss,
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
