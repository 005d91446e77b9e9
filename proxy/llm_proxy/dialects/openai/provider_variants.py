"""How OpenAI-compatible providers deviate from OpenAI's wire format.

Observed in their responses: see `docs/dialects.md`.  A provider not listed behaves as OpenAI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class ProviderVariant:
    """The deviations of one OpenAI-compatible provider; the defaults are OpenAI's."""

    reasoning_field: Literal["reasoning_content", "reasoning", "details", "blocks"] = (
        "reasoning_content"
    )
    """The field that holds reasoning text; `details` repeats the text of `reasoning` with its type
    and signature in `reasoning_details`; `blocks` are typed blocks of `content`."""
    sends_whole_tool_calls: bool = False
    """Whether a stream sends a tool call in one chunk."""
    sends_usage_with_finish: bool = False
    """Whether the chunk with the finish reason always holds usage; else usage is a separate chunk,
    sent if the request sets `stream_options.include_usage`."""
    sends_done: bool = True
    """Whether `[DONE]` ends a stream."""
    error_event_name: str = ""
    """The SSE event name of an error; no other event has a name."""
    has_flat_errors: bool = False
    """Whether the body of an HTTP error is the error itself, not an object with `error`."""
    has_numeric_error_codes: bool = False
    """Whether the code of an HTTP error is its status, as a number."""
    preamble_chunk: Mapping[str, Json] | None = None
    """A chunk sent before the first one; None where there is none."""


OPENAI_VARIANT: Final = ProviderVariant()

VARIANT_BY_PROVIDER: Final[Mapping[str, ProviderVariant]] = {
    "azure": ProviderVariant(
        preamble_chunk={
            "choices": [], "created": 0, "id": "", "model": "", "object": "",
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
        },
    ),
    "deepseek": ProviderVariant(sends_usage_with_finish=True),
    "fireworks": ProviderVariant(sends_usage_with_finish=True),
    "groq": ProviderVariant(
        reasoning_field="reasoning", sends_whole_tool_calls=True,
        sends_usage_with_finish=True, error_event_name="error"
    ),
    "mistral": ProviderVariant(
        reasoning_field="blocks", sends_whole_tool_calls=True,
        sends_usage_with_finish=True, has_flat_errors=True
    ),
    "ollama": ProviderVariant(reasoning_field="reasoning", sends_whole_tool_calls=True),
    "openrouter": ProviderVariant(reasoning_field="details", has_numeric_error_codes=True),
    "perplexity": ProviderVariant(sends_usage_with_finish=True, sends_done=False),
    # Not a provider: a test uses it to get `reasoning`.
    "test-llm": ProviderVariant(reasoning_field="reasoning"),
    "together": ProviderVariant(reasoning_field="reasoning", sends_usage_with_finish=True),
    "vllm": ProviderVariant(reasoning_field="reasoning", has_numeric_error_codes=True),
    "xai": ProviderVariant(sends_usage_with_finish=True),
    "zai": ProviderVariant(sends_usage_with_finish=True),
}  # fmt: skip


def provider_variant(provider: str) -> ProviderVariant:
    """The deviations of this provider; OpenAI's own for an unknown one."""
    return VARIANT_BY_PROVIDER.get(provider, OPENAI_VARIANT)
