"""Plans when the bytes of a response are sent, and in which pieces.

pace             the paces: recorded times, no waiting, a token rate, a latency model; their syntax
distributions    durations drawn by seeded chance, and their syntax
timing           when each piece is due, and the actions that send the pieces then
tokens           token counts of requests and responses
cassette_player  the actions that replay a cassette

All times are in ms since the request was read in full.  Due times are absolute, so nothing drifts,
and a late write does not delay later ones.
"""

from llm_proxy.pacing.pace import (
    InstantPace,
    ModelledPace,
    Pace,
    PaceRegistry,
    RecordedPace,
    TokenRatePace,
    parse_pace,
)
from llm_proxy.pacing.timing import abort_of_ending

__all__ = [
    "InstantPace",
    "ModelledPace",
    "Pace",
    "PaceRegistry",
    "RecordedPace",
    "TokenRatePace",
    "abort_of_ending",
    "parse_pace",
]
