"""Explains why no cassette answers a request.

    request, candidates ──▶ nearest ──▶ differences ──▶ remedies ──▶ report, messages

`nearest` finds the most similar cassette, preselected among very many by an index of words;
`report` finds the rules with which it would match, and builds values for error pages and journals,
and text for exceptions and logs; `run_summary` summarises the misses of a run.
"""

from llm_proxy.misses.nearest import CassetteCandidate, RankedCandidate, rank_candidates
from llm_proxy.misses.report import (
    no_cassette_miss,
    no_takes_left_miss,
    request_summary,
    unusable_cassette_report,
)

__all__ = [
    "CassetteCandidate",
    "RankedCandidate",
    "no_cassette_miss",
    "no_takes_left_miss",
    "rank_candidates",
    "request_summary",
    "unusable_cassette_report",
]
