"""`bom`: a byte order mark precedes the body.

    head  EF BB BF  event 1  event 2  …
    ├─────┼─────────┼────────┼────────┼──

Some SSE and JSON parsers skip the byte order mark; others fail or lose the first event. AWS event
streams and compressed bodies are not supported.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import replace

from llm_proxy.actions import Action, Begin, Burst, Send
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults import framed_message_contents
from llm_proxy.faults.kind import (
    ALL_CODECS,
    FRAMINGS_WITH_BODY,
    ActionTransform,
    FaultEffect,
    FaultKind,
    FaultNotApplicable,
    StreamPosition,
    Transform,
)
from llm_proxy.framing import eventstream


class _BomTransform(ActionTransform):
    def __init__(self, position: StreamPosition) -> None:
        """Raises `FaultNotApplicable` for a compressed body."""
        if coding := framed_message_contents.content_coding(position.require_head()):
            raise FaultNotApplicable(f"the body is compressed with {coding}")
        self._is_inserted = False

    def feed(self, action: Action) -> Burst:
        match action:
            case Begin(ResponseHead(framing="length", content_length=int(length)) as head):
                return (Begin(replace(head, content_length=length + len(BOM_UTF8))),)
            case Send(data) if not self._is_inserted:
                self._is_inserted = True
                return (Send(BOM_UTF8 + data),)
            case _:
                return (action,)

    def close(self) -> Burst:
        return () if self._is_inserted else (Send(BOM_UTF8),)


KIND = FaultKind(
    "bom",
    FaultEffect.MALFORMED,
    "a byte order mark before the body",
    lambda: Transform(_BomTransform),
    allowed_codecs=ALL_CODECS - {eventstream.CODEC_NAME},
    allowed_framings=FRAMINGS_WITH_BODY,
    example="bom",
)
