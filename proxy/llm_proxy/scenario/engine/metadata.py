"""What a scenario says to one provider alone, under that provider's name.

The dialect that answers is told what stands under its own names; the rest is only reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from llm_proxy.scenario.documents.document import Thought
from llm_proxy.turns import Metadata, Reasoning

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic",),
    "bedrock": ("bedrock", "amazon", "anthropic"),
    "cohere": ("cohere",),
    "gemini": ("google", "gemini", "vertex"),
    "gemini-interactions": ("google", "gemini", "vertex"),
    "ollama": ("ollama",),
    "openai-chat": ("openai", "azure"),
    "openai-completions": ("openai", "azure"),
    "openai-responses": ("openai", "azure"),
}
"""The names under which a dialect looks, beside that of the provider that is asked."""

_SEALS: Final = ("signature", "thoughtSignature", "thought_signature")
_SEALED: Final = (
    *("redactedData", "redacted_data", "data"),
    *("encrypted_content", "encryptedContent", "reasoningEncryptedContent"),
)


def told(provided: Mapping[str, Mapping[str, Any]], dialect: str, provider: str) -> Metadata:
    """What this dialect is to tell, by its own names."""
    return tuple(
        (name, value)
        for key in _keys(dialect, provider)
        for name, value in provided.get(key, {}).items()
    )


def reasoning(thought: Thought, dialect: str, provider: str) -> Reasoning:
    """A part of reasoning, with the seal that this dialect knows."""
    said = dict(told(thought.provider_metadata, dialect, provider))
    seal, sealed = next(_texts(said, _SEALS), None), next(_texts(said, _SEALED), None)
    left = {name: it for name, it in said.items() if name not in (*_SEALS, *_SEALED)}
    return Reasoning(thought.text, seal, sealed, tuple(left.items()))


def _keys(dialect: str, provider: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_NAMES.get(dialect, ()), provider)))


def _texts(said: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    return (said[name] for name in names if isinstance(said.get(name), str) and said[name])
