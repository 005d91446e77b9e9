"""Provider-specific metadata of scenarios.

A response carries the metadata under the keys of its dialect; the rest is only reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from llm_proxy.scenario.documents.document import ReasoningSpec
from llm_proxy.turns import Metadata, Reasoning

_METADATA_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
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
"""By dialect, the keys of `provider_metadata` that it uses, besides the provider's name."""

_SIGNATURE_FIELDS: Final = ("signature", "thoughtSignature", "thought_signature")
_REDACTED_FIELDS: Final = (
    *("redactedData", "redacted_data", "data"),
    *("encrypted_content", "encryptedContent", "reasoningEncryptedContent"),
)


def provider_metadata(
    metadata_by_provider: Mapping[str, Mapping[str, Any]], dialect: str, provider: str
) -> Metadata:
    """The (name, value) pairs under the keys of this dialect, then of the provider."""
    return tuple(
        (name, value)
        for key in _provider_keys(dialect, provider)
        for name, value in metadata_by_provider.get(key, {}).items()
    )


def reasoning_part(reasoning_spec: ReasoningSpec, dialect: str, provider: str) -> Reasoning:
    """The reasoning part, with the signature and redacted content for this dialect."""
    fields = dict(provider_metadata(reasoning_spec.provider_metadata, dialect, provider))
    signature, redacted = (
        next(_text_fields(fields, _SIGNATURE_FIELDS), None),
        next(_text_fields(fields, _REDACTED_FIELDS), None),
    )
    other_fields = {
        name: value
        for name, value in fields.items()
        if name not in (*_SIGNATURE_FIELDS, *_REDACTED_FIELDS)
    }
    return Reasoning(reasoning_spec.text, signature, redacted, tuple(other_fields.items()))


def _provider_keys(dialect: str, provider: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_METADATA_KEYS.get(dialect, ()), provider)))


def _text_fields(fields: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    return (fields[name] for name in names if isinstance(fields.get(name), str) and fields[name])
