"""`bom`: a byte order mark in front of the body.

    head  EF BB BF  event 1  event 2  …
    ├─────┼─────────┼────────┼────────┼──

The standards of SSE and JSON let a reader pass over it, and many do not: they lose the first
event, or fail.  Frames of an eventstream and packed bodies are no text, so it has no meaning there.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass, replace

from llm_proxy.actions import Action, Begin, Burst, Send
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults import message_contents
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    BODIES,
    WITH_BODY,
    FaultKind,
    FaultNotApplicable,
    StreamPosition,
    Transform,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.framing import eventstream


@dataclass(frozen=True, slots=True)
class Bom:
    """The mark."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """With the first bytes."""
        return Transform(_begin_transform)


def _begin_transform(position: StreamPosition) -> _BomInsertion:
    if coding := message_contents.content_coding(position.require_head()):
        raise FaultNotApplicable(f"the body is packed with {coding}")
    return _BomInsertion()


class _BomInsertion:
    def __init__(self) -> None:
        self._is_inserted = False

    def feed(self, action: Action) -> Burst:
        match action:
            case Begin(ResponseHead(framing="length", length=int(length)) as head):
                return (Begin(replace(head, length=length + len(BOM_UTF8))),)
            case Send(data) if not self._is_inserted:
                self._is_inserted = True
                return (Send(BOM_UTF8 + data),)
            case _:
                return (action,)

    def close(self) -> Burst:
        return () if self._is_inserted else (Send(BOM_UTF8),)


KIND = FaultKind(
    "bom", FaultEffect.MALFORMED, "a byte order mark in front of the body", Bom,
    allowed_bodies=BODIES - {eventstream.NAME}, needs_messages=WITH_BODY, example="bom",
)  # fmt: skip
