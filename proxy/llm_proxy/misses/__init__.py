"""Why no cassette answers a request.

    call, candidates ──▶ nearest ──▶ differences ──▶ advice ──▶ words

`index` finds the candidates among very many; `finding` the one that comes nearest, by the
`likeness` of all it says and of what is `asked`; `differing` where it differs, `advice` the rules
by which it would answer.  `telling` makes values of that, for pages and journals, `wording`
sentences, for exceptions and logs; `summing_up` tells those of a run.
"""

from llm_proxy.misses.messages import asked_for, no_cassette, unusable, used_up
from llm_proxy.misses.nearest import Candidate, Near, Nearest, nearest

__all__ = [
    "Candidate",
    "Near",
    "Nearest",
    "asked_for",
    "nearest",
    "no_cassette",
    "unusable",
    "used_up",
]
