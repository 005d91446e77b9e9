"""`bad-encoding`: the head says that the body is packed, and it is not.

    content-encoding: gzip  event 1  event 2  …
    ├───────────────────────┼────────┼────────┼──

The bytes are the same, and a client that believes the head cannot unpack them.  Where the body is
packed with gzip indeed, the head says deflate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.actions import Action, Begin, Burst
from llm_proxy.exchange import Headers, header_value
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import WITH_BODY, FaultKind, Transform, Work
from llm_proxy.faults.location import Place

_NAME: Final = "Content-Encoding"


@dataclass(frozen=True, slots=True)
class BadEncoding:
    """A content coding that is none of the body's."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """In the head."""
        return Transform(lambda _: _CodingClaim())


class _CodingClaim:
    def feed(self, action: Action) -> Burst:
        if not isinstance(action, Begin):
            return (action,)
        return (Begin(replace(action.head, headers=_with_content_encoding(action.head.headers))),)

    def close(self) -> Burst:
        return ()


def _with_content_encoding(headers: Headers) -> Headers:
    real = (header_value(headers, _NAME) or "").lower()
    kept = tuple(header for header in headers if header[0].lower() != _NAME.lower())
    return (*kept, (_NAME, "deflate" if "gzip" in real else "gzip"))


KIND = FaultKind(
    "bad-encoding", FaultEffect.MALFORMED, "the head says gzip, and the body is not "
                                           "packed", BadEncoding,
    needs_messages=WITH_BODY, example="bad-encoding",
)  # fmt: skip
