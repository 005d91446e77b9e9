"""Replays the ending of a recorded response."""

from __future__ import annotations

from llm_proxy.actions import Abort
from llm_proxy.exchange import Ending


def abort_of_ending(ending: Ending) -> Abort | None:
    """The abort that reproduces a recorded ending; None for a clean end."""
    match ending:
        case Ending.CLEAN:
            return None
        case Ending.FIN | Ending.CLIENT_GONE | Ending.RECORDER_ERROR | Ending.KILLED:
            return Abort("fin")
        case Ending.RST | Ending.STALLED | Ending.MALFORMED:
            return Abort("rst")
