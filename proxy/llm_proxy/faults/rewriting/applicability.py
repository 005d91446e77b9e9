"""Decides from a response's head whether a fault is applicable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.exchange import Framing, ResponseHead
from llm_proxy.faults import framed_message_contents
from llm_proxy.faults.kind import FaultKind, FaultNotApplicable, OneShot, Transform

_FRAMING_DESCRIPTIONS: Final[Mapping[Framing, str]] = {
    "chunked": "a body that comes in chunks",
    "close": "a body that ends with the connection",
    "length": "a body of a declared length",
    "none": "an answer without a body",
}


def readable_codec(decoded_request: DecodedRequest, head: ResponseHead) -> str:
    """The codec of the body's messages; `whole` where a content coding makes them unreadable."""
    return (
        "whole"
        if framed_message_contents.content_coding(head)
        else decoded_request.dialect.codec_name(decoded_request.request, head)
    )


def check_applicable(
    kind: FaultKind, mechanism: OneShot | Transform, head: ResponseHead, codec: str
) -> None:
    """Raises `FaultNotApplicable` where a fault is not applicable to a body with this codec."""
    needs_messages = "whole" not in kind.allowed_codecs or (
        isinstance(mechanism, OneShot) and mechanism.taken_message_count
    )
    if needs_messages and (content_coding := framed_message_contents.content_coding(head)):
        raise FaultNotApplicable(f"the body is packed with {content_coding}")
    unsupported_body = ""
    if head.framing not in kind.allowed_framings:
        unsupported_body = _FRAMING_DESCRIPTIONS[head.framing]
    elif codec not in kind.allowed_codecs:
        unsupported_body = "a whole body" if codec == "whole" else f"a body of {codec}"
    if unsupported_body:
        raise FaultNotApplicable(f"{kind.name} has no meaning in {unsupported_body}")
