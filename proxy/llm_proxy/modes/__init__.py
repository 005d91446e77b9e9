"""The modes, one per file: where a response comes from.

A mode is asked once per call, in the order of arrival, and gives an `Answer`: a source of
actions, and where it came from.
"""

from llm_proxy.modes.auto import AutoMode
from llm_proxy.modes.base import Mode, ModeResponse
from llm_proxy.modes.record import RecordMode
from llm_proxy.modes.replay import ReplayMode
from llm_proxy.modes.simulate import SimulateMode, SimulationSettings
from llm_proxy.modes.take_player import TakePlayer

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
