"""`malformed-json`: a message, or a whole body, whose JSON stops in the middle.

    data: {"id":"a","choices":[…]}     becomes     data: {"id":"a","ch

Its framing is right: the line ends, the event has its name, lengths and checksums fit.  All other
messages come as they were.  Most clients raise the error of their JSON reader, and no error of
their own; some pass over it.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Send
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import AT_MESSAGES, Kind, Moment, Strike, Struck, Work
from llm_proxy.faults.location import Place
from llm_proxy.framing.truncated_json import spoil


@dataclass(frozen=True, slots=True)
class MalformedJson:
    """Half of a message's JSON."""

    def work(self, _place: Place | None, /) -> Work:
        """The message behind its place, or the body."""
        return Strike(_strike, takes=1, resizes=True)


def _strike(moment: Moment) -> Struck:
    return Struck((Send(spoil(moment.codec, moment.taken[0])),))


KIND = Kind(
    "malformed-json", Effect.MALFORMED, "the JSON of a message stops in the middle", MalformedJson,
    places=AT_MESSAGES, example="malformed-json,after=2",
)  # fmt: skip
