"""Preset for Vercel's AI SDK: it generates missing call ids, and apps send the date."""

from typing import Final

from llm_proxy.matching.presets.preset import Preset

AI_SDK: Final = Preset("ai-sdk", 2, "Vercel's AI SDK")
