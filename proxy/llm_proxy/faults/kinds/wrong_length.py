"""`wrong-length`: the body has fewer bytes than the head declares.

    content-length: 1100  {"id": … }  FIN
    ├─────────────────────┼──────────┤
                            1000 bytes

The body is complete, but not by HTTP; then the connection is closed.  Applicable only to a body of
a declared length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Action, Begin, Burst
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultKind, Mechanism, Transform
from llm_proxy.faults.location import StreamLocation


@dataclass(frozen=True, slots=True)
class WrongLength:
    """Declares `by` bytes too many."""

    by: int = 100

    def __post_init__(self) -> None:
        """Raises `ValueError` for less than 1 byte."""
        if self.by < 1:
            raise ValueError("by must be 1 byte or more")

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Changes the head, and closes the connection at the end."""
        return Transform(lambda _: _ContentLengthTransform(self.by))


class _ContentLengthTransform:
    def __init__(self, extra_bytes: int) -> None:
        self._extra_bytes = extra_bytes

    def feed(self, action: Action) -> Burst:
        match action:
            case Begin(ResponseHead(content_length=int(length)) as head):
                return (Begin(replace(head, content_length=length + self._extra_bytes)),)
            case _:
                return (action,)

    def close(self) -> Burst:
        return (Abort("fin"),)


KIND = FaultKind(
    "wrong-length", FaultEffect.CUT, "fewer bytes come than the head declares", WrongLength,
    {"by": FaultArgument(unit_parsers.parse_size_bytes, "how many bytes are missing", "100")},
    allowed_framings=frozenset(("length",)), example="wrong-length",
)  # fmt: skip
