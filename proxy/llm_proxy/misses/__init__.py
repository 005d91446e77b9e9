"""Explains why no cassette answers a request.

    call, candidates ──▶ nearest ──▶ differences ──▶ advice ──▶ words

`index` finds the candidates among very many; `finding` the one that comes nearest, by the
`likeness` of all it says and of what is `asked`; `differing` where it differs, `advice` the rules
by which it would answer.  `telling` makes values of that, for pages and journals, `wording`
sentences, for exceptions and logs; `summing_up` tells those of a run.
"""

from llm_proxy.misses.messages import (
    miss_unusable,
    miss_used_up,
    miss_without_cassette,
    request_summary,
)
from llm_proxy.misses.nearest import CassetteCandidate, NearestMatch, NearestSearch, find_nearest

__all__ = [
    "CassetteCandidate",
    "NearestMatch",
    "NearestSearch",
    "find_nearest",
    "miss_unusable",
    "miss_used_up",
    "miss_without_cassette",
    "request_summary",
]
