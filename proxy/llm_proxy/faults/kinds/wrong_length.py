"""`wrong-length`: fewer bytes come than the head declares.

    content-length: 1100  {"id": … }  FIN
    ├─────────────────────┼──────────┤
                            1000 bytes

The body is whole, and HTTP says that it is not: then the connection is closed.  Only a body of a
declared length can have a wrong one, so it has no meaning in a chunked stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Action, Begin, Burst
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultKind, Transform, Work
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class WrongLength:
    """A length that is too large by so many bytes."""

    by: int = 100

    def __post_init__(self) -> None:
        """Raises `ValueError` where the length would be right."""
        if self.by < 1:
            raise ValueError("by must be 1 byte or more")

    def mechanism(self, _place: Place | None, /) -> Work:
        """In the head, and at the end."""
        return Transform(lambda _: _LengthClaim(self.by))


class _LengthClaim:
    def __init__(self, by: int) -> None:
        self._by = by

    def feed(self, action: Action) -> Burst:
        match action:
            case Begin(ResponseHead(length=int(length)) as head):
                return (Begin(replace(head, length=length + self._by)),)
            case _:
                return (action,)

    def close(self) -> Burst:
        return (Abort("fin"),)


KIND = FaultKind(
    "wrong-length", FaultEffect.CUT, "fewer bytes come than the head declares", WrongLength,
    {"by": FaultArgument(unit_parsers.parse_size, "how many bytes are missing", "100")},
    needs_messages=frozenset(("length",)), example="wrong-length",
)  # fmt: skip
