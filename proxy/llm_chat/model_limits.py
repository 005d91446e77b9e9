"""The context windows of known models, in tokens: what input and output share.

Each provider's figures are those of the pages that its comment names, and of the catalogue
models.dev of 2 July 2026.  A name stands for its family: `gpt-4o` also for `gpt-4o-2024-08-06`, and
`llama3.1` for `llama3.1:8b` (see `TokenLimits.limit_of`).  Where the models of a family differ, the
family has the smallest window, and those with a larger one are listed.

The window of a model that Ollama runs is what the model supports.  The server may use less: 4,096
tokens by default on small graphics cards (`OLLAMA_CONTEXT_LENGTH`, `num_ctx`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Final

COLLECTED_ON: Final = date(2026, 11, 28)
"""When the table was last compared with its sources."""

MODEL_LIMITS: Final[Mapping[str, int]] = {
    # OpenAI: the page of each model in its API documentation.
    "gpt-3.5-turbo": 16_385,
    "gpt-4": 8_192,
    "gpt-4-turbo": 128_000,
    "gpt-4o": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-5": 400_000,
    "gpt-5-chat": 128_000,
    "gpt-5.1": 400_000,
    "gpt-5.1-chat": 128_000,
    "gpt-5.2": 400_000,
    "gpt-5.2-chat": 128_000,
    "gpt-5.3-chat": 128_000,
    "gpt-5.3-codex": 400_000,
    "gpt-5.4": 1_050_000,
    "gpt-5.4-mini": 400_000,
    "gpt-5.4-nano": 400_000,
    "gpt-5.5": 1_050_000,
    "gpt-oss": 131_072,
    "o1": 200_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    # Anthropic: "Models overview", and the overview page of each model.
    "claude-3": 200_000,
    "claude-haiku-4-5": 200_000,
    "claude-opus-4": 200_000,
    "claude-opus-4-6": 1_000_000,
    "claude-opus-4-7": 1_000_000,
    "claude-opus-4-8": 1_000_000,
    "claude-opus-5": 1_000_000,
    "claude-sonnet-4": 200_000,
    "claude-sonnet-4-6": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    "claude-fable-5": 1_000_000,
    # Google: the page of each model in the Gemini API documentation (its input limit).
    "gemini-2.0-flash": 1_048_576,
    "gemini-2.5-flash": 1_048_576,
    "gemini-2.5-pro": 1_048_576,
    "gemini-3-flash": 1_048_576,
    "gemini-3-pro": 1_048_576,
    "gemini-3.1-flash-lite": 1_048_576,
    "gemini-3.1-pro": 1_048_576,
    "gemini-3.5-flash": 1_048_576,
    # Mistral: "Models", and the pages of the models in Ollama's library.
    "codestral-latest": 256_000,
    "devstral": 128_000,
    "magistral-medium": 128_000,
    "ministral": 128_000,
    "mistral-large": 131_072,
    "mistral-large-2512": 262_144,
    "mistral-large-latest": 262_144,
    "mistral-medium": 131_072,
    "mistral-medium-latest": 262_144,
    "mistral-nemo": 128_000,
    "mistral-small-2506": 128_000,
    "mistral-small-latest": 256_000,
    # DeepSeek: "Models & Pricing"; the older names are served by the current models.
    "deepseek-chat": 1_000_000,
    "deepseek-flash": 1_000_000,
    "deepseek-reasoner": 1_000_000,
    "deepseek-v4": 1_000_000,
    # xAI: "Models".
    "grok-3": 131_072,
    "grok-4": 256_000,
    "grok-4-1-fast": 2_000_000,
    "grok-4-fast": 2_000_000,
    "grok-4.20": 1_000_000,
    "grok-4.3": 1_000_000,
    "grok-code-fast-1": 256_000,
    # Cohere: "Models", and the page of each model.
    "command-a-03-2025": 256_000,
    "command-a-reasoning": 256_000,
    "command-r": 128_000,
    "command-r7b": 128_000,
    # Families of Ollama's library: their model cards, and what `ollama show` prints.
    "deepseek-r1": 131_072,
    "gemma2": 8_192,
    "gemma4": 131_072,
    "llama3": 8_192,
    "llama3.1": 131_072,
    "llama3.2": 131_072,
    "llama3.3": 131_072,
    "mistral": 32_768,
    "qwen2.5": 32_768,
    "qwen3": 40_960,
    "qwen3-coder": 262_144,
    "qwen3-vl": 262_144,
}
