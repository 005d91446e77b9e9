"""Plans when the bytes of a response are sent, and in which pieces.

pace            what can be asked for: the recorded times, none, a rate, a model of latency
distributions   times that are drawn by chance that repeats
grammar         how a pace is written, and read
profiles        latencies that were measured
choosing        which pace holds for a request
timing          when each piece is due
rechunking      in which pieces the body goes out
arranging       pieces and their times become actions
telling         what there is to be paced: pieces, and how much each says
playing         the actions that give a recording once more
endings         how an ending is passed on

All times are in ms since the request was read in full.  Due times are absolute, so nothing
drifts, and a late write makes no later one late.
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
