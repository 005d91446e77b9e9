"""The modes, one per module: where a response comes from.

A mode is called once per request, in the order of arrival, and returns a `ModeResponse`: a source
of actions and its origin.
"""

from llm_proxy.modes.auto import AutoMode
from llm_proxy.modes.base import Mode, ModeResponse
from llm_proxy.modes.record import RecordMode
from llm_proxy.modes.replay import ReplayMode, TakePlayer
from llm_proxy.modes.simulate import SimulateMode, SimulationSettings

__all__ = [
    "AutoMode",
    "Mode",
    "ModeResponse",
    "RecordMode",
    "ReplayMode",
    "SimulateMode",
    "SimulationSettings",
    "TakePlayer",
]
