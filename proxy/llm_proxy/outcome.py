"""Computes the outcome of an exchange from its ending.

It is a view, so dialects that are added later apply to old files too.
"""

from __future__ import annotations

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, stored_dialect_response
from llm_proxy.exchange import Ending, Outcome

_PARTIAL_REASONS = {
    Ending.FIN: "the upstream closed before the end",
    Ending.RST: "the upstream reset the connection",
    Ending.STALLED: "the upstream stalled",
    Ending.MALFORMED: "the upstream broke its framing",
    Ending.CLIENT_GONE: "the client left",
    Ending.RECORDER_ERROR: "the recording failed",
    Ending.KILLED: "the recorder was stopped",
}


def cassette_outcome(cassette: Cassette) -> Outcome:
    """Whether a cassette's exchange is complete, whether that is proven, and why."""
    if cassette.response_end.ending is not Ending.CLEAN:
        return Outcome(
            is_complete=False, is_proven=True, reason=_PARTIAL_REASONS[cassette.response_end.ending]
        )
    if cassette.response_head.framing == "none":
        return Outcome(is_complete=True, is_proven=True, reason="no body")
    judgement = cassette_dialect(cassette).completeness(stored_dialect_response(cassette))
    return Outcome(judgement.is_complete, judgement.is_proven, judgement.reason)
