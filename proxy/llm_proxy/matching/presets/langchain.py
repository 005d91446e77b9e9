"""Preset for LangChain: it generates ids of messages and calls, and apps send the date."""

from typing import Final

from llm_proxy.matching.presets.preset import Preset

LANGCHAIN: Final = Preset("langchain", 2, "LangChain")
