"""`drop`: messages are left out, and all else comes as it was.

    event 1  (event 2)  event 3  …
    ├────────┼──────────┼────────┼──

What a client makes of a gap tells whether it looks at numbers, identifiers and block ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    STREAMS,
    FaultArgument,
    FaultKind,
    InjectedActions,
    OneShot,
    Work,
)
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Drop:
    """So many messages that are left out."""

    count: int = 1

    def __post_init__(self) -> None:
        """Raises `ValueError` where nothing would happen."""
        if self.count < 1:
            raise ValueError("count must be 1 or more")

    def mechanism(self, _place: Place | None, /) -> Work:
        """The gap, at its place."""
        return OneShot(lambda _: InjectedActions(), taken_count=self.count, changes_length=True)


KIND = FaultKind(
    "drop", FaultEffect.ALTERED, "messages are left out", Drop,
    {"count": FaultArgument(unit_parsers.parse_count, "how many", "1")},
    allowed_locations=AT_MESSAGES, allowed_bodies=STREAMS, example="drop,after=2",
)  # fmt: skip
