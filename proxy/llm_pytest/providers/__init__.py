"""The providers that let a model carry out tests, by name."""

from __future__ import annotations

from typing import Final

PROVIDER_NAMES: Final = (
    "claude-code", "openai", "openai-responses", "anthropic", "gemini", "ollama", "bedrock",
)  # fmt: skip
