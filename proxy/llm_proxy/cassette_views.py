"""Decodes cassettes: their dialect, response, turns and outcome.

A cassette stores the dialect that was recognised when it was recorded.  If it stores none, the
dialect is looked up again: later versions know more dialects, and files stay as they are.
"""

from __future__ import annotations

from http import HTTPStatus

from llm_proxy import dialects, framing
from llm_proxy.cassette import Cassette
from llm_proxy.dialects import OPAQUE, Dialect, DialectResponse
from llm_proxy.exchange import Ending, Outcome
from llm_proxy.turns import Turn

_PARTIAL_REASONS = {
    Ending.FIN: "the upstream closed the connection early",
    Ending.RST: "the upstream reset the connection",
    Ending.STALLED: "the upstream stalled",
    Ending.MALFORMED: "the upstream sent malformed HTTP",
    Ending.CLIENT_GONE: "the client disconnected",
    Ending.RECORDER_ERROR: "the recording failed",
    Ending.KILLED: "llm-proxy was stopped",
}


def cassette_dialect(cassette: Cassette) -> Dialect:
    """The dialect of a cassette; `OPAQUE` if this version knows none for it."""
    if cassette.meta.dialect == OPAQUE.name:
        return dialects.dialect_of_request(cassette.request)
    return dialects.dialect_named(cassette.meta.dialect)


def stored_dialect_response(cassette: Cassette) -> DialectResponse:
    """The response, split into messages by the codec that its dialect uses."""
    codec, messages = cassette.codec_name, cassette.framed_messages
    if cassette.meta.dialect == OPAQUE.name:
        label = cassette_dialect(cassette).codec_name(cassette.request, cassette.response_head)
        codec = framing.codec_name_for_body(label, cassette.response_body)
        if codec != cassette.codec_name:
            messages = tuple(framing.split_messages(codec, cassette.response_body))
    return DialectResponse(cassette.response_head, codec, messages)


def cassette_response_turns(cassette: Cassette) -> tuple[Turn, ...]:
    """The turns of the response, as far as its dialect can decode them."""
    return cassette_dialect(cassette).decode_response(stored_dialect_response(cassette))


def cassette_outcome(cassette: Cassette) -> Outcome:
    """Whether a cassette's exchange is complete, whether that is proven, and why."""
    if cassette.response_end.ending is not Ending.CLEAN:
        return Outcome(
            is_complete=False, is_proven=True, reason=_PARTIAL_REASONS[cassette.response_end.ending]
        )
    is_error = cassette.response_head.status >= HTTPStatus.BAD_REQUEST
    if cassette.response_head.framing == "none":
        return Outcome(is_complete=True, is_proven=True, reason="no body", is_error=is_error)
    judgement = cassette_dialect(cassette).completeness(stored_dialect_response(cassette))
    return Outcome(
        judgement.is_complete, judgement.is_proven, judgement.reason, is_error or judgement.is_error
    )
