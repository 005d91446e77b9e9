"""`duplicate`: an event is sent more than once.

    event 1  event 2  event 2  event 3  …
    ├────────┼────────┼────────┼────────┼──

The copies are identical, including sequence numbers and identifiers.
"""

from __future__ import annotations

from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.errors import UsageError
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    STREAM_CODECS,
    FaultArgument,
    FaultEffect,
    FaultKind,
    FaultNotApplicable,
    Mechanism,
    StreamPosition,
    edit_messages,
)
from llm_proxy.faults.kinds.reorder import taken_in_order

_MAX_COPIES: Final = 10_000
_MAX_COPIED_BYTES: Final = 64 * 1024 * 1024
"""Limits the bytes of all copies: they are kept, to judge how the client handles them."""


def _duplicate(count: int) -> Mechanism:
    if not 1 <= count <= _MAX_COPIES:
        raise UsageError(f"count= must be between 1 and {_MAX_COPIES}")

    def repeat_message(position: StreamPosition) -> list[bytes]:
        if count * len(position.taken_messages[0]) > _MAX_COPIED_BYTES:
            raise FaultNotApplicable(f"the copies would add more than {_MAX_COPIED_BYTES} bytes")
        return taken_in_order(position, [0] * (1 + count))

    return edit_messages(repeat_message)


KIND = FaultKind(
    "duplicate",
    FaultEffect.ALTERED,
    "a repeated event",
    _duplicate,
    {"count": FaultArgument(unit_parsers.parse_count, "additional copies", "1")},
    allowed_locations=MESSAGE_LOCATIONS,
    allowed_codecs=STREAM_CODECS,
    example="duplicate,after=2",
)
