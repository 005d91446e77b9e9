"""`bad-encoding`: the head declares a compressed body, and the body is not compressed.

    content-encoding: gzip  event 1  event 2  …
    ├───────────────────────┼────────┼────────┼──

The bytes are unchanged, and a client that trusts the head cannot decompress them.  Where the body
really is compressed with gzip, the head declares deflate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.actions import Action, Begin, Burst
from llm_proxy.exchange import Headers, header_value
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FRAMINGS_WITH_BODY, FaultKind, Mechanism, Transform
from llm_proxy.faults.location import StreamLocation

_NAME: Final = "Content-Encoding"


@dataclass(frozen=True, slots=True)
class BadEncoding:
    """Declares a content coding that the body does not have."""

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Changes the head."""
        return Transform(lambda _: _FalseEncodingTransform())


class _FalseEncodingTransform:
    def feed(self, action: Action) -> Burst:
        if not isinstance(action, Begin):
            return (action,)
        return (
            Begin(replace(action.head, headers=_with_false_content_encoding(action.head.headers))),
        )

    def close(self) -> Burst:
        return ()


def _with_false_content_encoding(headers: Headers) -> Headers:
    actual_coding = (header_value(headers, _NAME) or "").lower()
    kept = tuple(header for header in headers if header[0].lower() != _NAME.lower())
    return (*kept, (_NAME, "deflate" if "gzip" in actual_coding else "gzip"))


KIND = FaultKind(
    "bad-encoding", FaultEffect.MALFORMED, "the head says gzip, and the body is not "
                                           "packed", BadEncoding,
    allowed_framings=FRAMINGS_WITH_BODY, example="bad-encoding",
)  # fmt: skip
