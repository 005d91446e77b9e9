"""What an ending means: the outcome, computed whenever a cassette is loaded.

It is a view, so a dialect that is learned later judges old files too.
"""

from __future__ import annotations

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import dialect_of, response_of
from llm_proxy.exchange import Ending, Outcome

_WHY = {
    Ending.FIN: "the upstream closed before the end",
    Ending.RST: "the upstream reset the connection",
    Ending.STALLED: "the upstream stalled",
    Ending.MALFORMED: "the upstream broke its framing",
    Ending.CLIENT_GONE: "the client left",
    Ending.RECORDER_ERROR: "the recording failed",
    Ending.KILLED: "the recorder was stopped",
}


def outcome(cassette: Cassette) -> Outcome:
    """Whether this exchange is complete, whether that is proven, and why."""
    if cassette.end.ending is not Ending.CLEAN:
        return Outcome(complete=False, proven=True, reason=_WHY[cassette.end.ending])
    if cassette.head.framing == "none":
        return Outcome(complete=True, proven=True, reason="no body")
    judgement = dialect_of(cassette).judge(response_of(cassette))
    return Outcome(judgement.whole, judgement.proven, judgement.reason)
