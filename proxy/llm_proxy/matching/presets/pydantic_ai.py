"""Preset for Pydantic AI: it generates missing call ids, and apps send the date."""

from typing import Final

from llm_proxy.matching.presets.preset import Preset

PYDANTIC_AI: Final = Preset("pydantic-ai", 2, "Pydantic AI")
