"""Where an answer comes from, one mode a file.

A mode is asked once per call, in the order of arrival, and gives an `Answer`: a source of
actions, and where it came from.
"""

from llm_proxy.modes.auto import Auto
from llm_proxy.modes.base import Answer, Mode
from llm_proxy.modes.record import Record
from llm_proxy.modes.replay import Replay
from llm_proxy.modes.simulate import Simulate, Simulation
from llm_proxy.modes.take_player import Player

__all__ = ["Answer", "Auto", "Mode", "Player", "Record", "Replay", "Simulate", "Simulation"]
