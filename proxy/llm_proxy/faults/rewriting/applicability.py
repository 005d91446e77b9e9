"""Decides from a response's head whether a fault is applicable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.exchange import Framing, ResponseHead
from llm_proxy.faults import message_contents
from llm_proxy.faults.kind import FaultKind, FaultNotApplicable, OneShot, Transform

_DELIMITED: Final[Mapping[Framing, str]] = {
    "chunked": "a body that comes in chunks",
    "close": "a body that ends with the connection",
    "length": "a body of a declared length",
    "none": "an answer without a body",
}


def visible_codec(request: DecodedRequest, head: ResponseHead) -> str:
    """The framing of the body's messages; `whole` where a content coding hides them."""
    return (
        "whole"
        if message_contents.content_coding(head)
        else request.dialect.codec(request.request, head)
    )


def check_applicable(
    kind: FaultKind, mechanism: OneShot | Transform, head: ResponseHead, framing: str
) -> None:
    """Raises `FaultNotApplicable` where a fault has no meaning in a body of this framing."""
    works_on_messages = "whole" not in kind.allowed_bodies or (
        isinstance(mechanism, OneShot) and mechanism.taken_count
    )
    if works_on_messages and (coding := message_contents.content_coding(head)):
        raise FaultNotApplicable(f"the body is packed with {coding}")
    what = ""
    if head.framing not in kind.needs_messages:
        what = _DELIMITED[head.framing]
    elif framing not in kind.allowed_bodies:
        what = "a whole body" if framing == "whole" else f"a body of {framing}"
    if what:
        raise FaultNotApplicable(f"{kind.name} has no meaning in {what}")
