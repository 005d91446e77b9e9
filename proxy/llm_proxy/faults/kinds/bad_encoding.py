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
from llm_proxy.exchange import Headers, header
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import WITH_BODY, Bend, Kind, Work
from llm_proxy.faults.location import Place

_NAME: Final = "Content-Encoding"


@dataclass(frozen=True, slots=True)
class BadEncoding:
    """A content coding that is none of the body's."""

    def work(self, _place: Place | None, /) -> Work:
        """In the head."""
        return Bend(lambda _: _Claiming())


class _Claiming:
    def feed(self, action: Action) -> Burst:
        if not isinstance(action, Begin):
            return (action,)
        return (Begin(replace(action.head, headers=_claimed(action.head.headers))),)

    def close(self) -> Burst:
        return ()


def _claimed(headers: Headers) -> Headers:
    real = (header(headers, _NAME) or "").lower()
    kept = tuple(it for it in headers if it[0].lower() != _NAME.lower())
    return (*kept, (_NAME, "deflate" if "gzip" in real else "gzip"))


KIND = Kind(
    "bad-encoding", Effect.MALFORMED, "the head says gzip, and the body is not packed", BadEncoding,
    delimited=WITH_BODY, example="bad-encoding",
)  # fmt: skip
