"""Plans when the bytes of a response are sent, and in which pieces.

pace             the paces: recorded times, no waiting, a token rate, a latency model
distributions    durations drawn by seeded chance
durations        the syntax of durations and distributions
grammar          the syntax of paces
profiles         measured latencies of models
requested_pace   the pace in a request's header
timing           when each piece is due
rechunking       in which pieces the body is sent
pace_actions     turns pieces and due times into actions
pace_input       the pieces of a recorded response, and the output characters of each
tokens           token counts of requests and responses
cassette_player  the actions that replay a cassette
endings          the action that replays a recorded ending

All times are in ms since the request was read in full.  Due times are absolute, so nothing drifts,
and a late write does not delay later ones.
"""

from llm_proxy.pacing.endings import abort_of_ending
from llm_proxy.pacing.grammar import parse_pace
from llm_proxy.pacing.pace import InstantPace, ModelledPace, Pace, RecordedPace, TokenRatePace

__all__ = [
    "InstantPace",
    "ModelledPace",
    "Pace",
    "RecordedPace",
    "TokenRatePace",
    "abort_of_ending",
    "parse_pace",
]
