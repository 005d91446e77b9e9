"""`empty`: the right head, and no body.

    head  0␍␊␍␊
    ├─────┤

The status is that of success and HTTP is in order, but nothing is said.  Most clients of streams
raise nothing, and hand on an answer without words.  An answer that is no success is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import CannotInject, Kind, Moment, Strike, Struck, Work
from llm_proxy.faults.location import AfterBytes, Place


@dataclass(frozen=True, slots=True)
class Empty:
    """The end, behind the head."""

    def work(self, _place: Place | None, /) -> Work:
        """Behind the head."""
        return Strike(_strike, resizes=True, cuts=True, usual=AfterBytes(0))


def _strike(moment: Moment) -> Struck:
    if not 200 <= moment.begun_head().status < 300:
        raise CannotInject("the answer is no success")
    return Struck(over=True)


KIND = Kind("empty", Effect.TRUNCATED, "the right head, and no body", Empty, example="empty")
