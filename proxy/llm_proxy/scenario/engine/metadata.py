"""Provider-specific metadata of scenarios.

The dialect that answers is told what stands under its own names; the rest is only reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from llm_proxy.scenario.documents.document import ReasoningSpec
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


def provider_metadata(
    provided: Mapping[str, Mapping[str, Any]], dialect: str, provider: str
) -> Metadata:
    """What this dialect is to tell, by its own names."""
    return tuple(
        (name, value)
        for key in _provider_keys(dialect, provider)
        for name, value in provided.get(key, {}).items()
    )


def reasoning_part(thought: ReasoningSpec, dialect: str, provider: str) -> Reasoning:
    """A part of reasoning, with the seal that this dialect knows."""
    fields = dict(provider_metadata(thought.provider_metadata, dialect, provider))
    seal, sealed = (
        next(_text_fields(fields, _SEALS), None),
        next(_text_fields(fields, _SEALED), None),
    )
    left = {name: value for name, value in fields.items() if name not in (*_SEALS, *_SEALED)}
    return Reasoning(thought.text, seal, sealed, tuple(left.items()))


def _provider_keys(dialect: str, provider: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_NAMES.get(dialect, ()), provider)))


def _text_fields(fields: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    return (fields[name] for name in names if isinstance(fields.get(name), str) and fields[name])
