"""Presets: rules for clients whose requests differ from run to run, one client per file."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from llm_proxy.matching.presets.ai_sdk import AI_SDK
from llm_proxy.matching.presets.claude_code import CLAUDE_CODE
from llm_proxy.matching.presets.codex import CODEX
from llm_proxy.matching.presets.langchain import LANGCHAIN
from llm_proxy.matching.presets.preset import Preset
from llm_proxy.matching.presets.pydantic_ai import PYDANTIC_AI

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {preset.name: preset for preset in (CLAUDE_CODE, CODEX, LANGCHAIN, PYDANTIC_AI, AI_SDK)}
)
"""All presets by name."""
