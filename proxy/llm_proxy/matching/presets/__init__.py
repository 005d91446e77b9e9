"""Rules for clients that ask otherwise in each run, one client a file, found by running it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from llm_proxy.matching.presets.preset import Preset

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType({})
"""All of them by name."""

__all__ = ["PRESETS", "Preset"]
