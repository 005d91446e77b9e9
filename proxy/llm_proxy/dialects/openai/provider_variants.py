"""The providers with OpenAI-compatible chats, and how each deviates.

Read from what they send: see `docs/dialects.md`.  A provider that is not here speaks as OpenAI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """One member of the family."""

    reasoning_field: Literal["reasoning_content", "reasoning", "details", "blocks"] = (
        "reasoning_content"
    )
    """The field that reasoning stands in, by itself; `details` repeats what stands in `reasoning`
    with its type and seal; `blocks` are typed parts of `content`."""
    sends_whole_tool_calls: bool = False
    """Whether a tool call comes in one piece."""
    usage_with_finish: bool = False
    """Whether usage comes, unasked, with the reason to finish; else in a chunk of its own, asked
    for by `stream_options.include_usage`."""
    sends_done: bool = True
    """Whether `[DONE]` ends a stream."""
    error_event_name: str = ""
    """The name of the event that holds an error; nothing else is named."""
    has_flat_errors: bool = False
    """Whether an HTTP error is an object of its own, and not under `error`."""
    has_numeric_codes: bool = False
    """Whether the code of an HTTP error is its status."""
    preamble_chunk: Mapping[str, Json] | None = None
    """What a chunk before the first one says."""


OPENAI: Final = FamilyMember()

SPOKEN: Final = ("openai-chat", "openai-completions", "openai-responses")
"""The dialects that have members who speak in their own ways."""

FAMILY: Final[Mapping[str, FamilyMember]] = {
    "azure": FamilyMember(
        preamble_chunk={
            "choices": [], "created": 0, "id": "", "model": "", "object": "",
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
        },
    ),
    "deepseek": FamilyMember(usage_with_finish=True),
    "fireworks": FamilyMember(usage_with_finish=True),
    "groq": FamilyMember(
        reasoning_field="reasoning", sends_whole_tool_calls=True,
        usage_with_finish=True, error_event_name="error"
    ),
    "mistral": FamilyMember(
        reasoning_field="blocks", sends_whole_tool_calls=True,
        usage_with_finish=True, has_flat_errors=True
    ),
    "ollama": FamilyMember(reasoning_field="reasoning", sends_whole_tool_calls=True),
    "openrouter": FamilyMember(reasoning_field="details", has_numeric_codes=True),
    "perplexity": FamilyMember(usage_with_finish=True, sends_done=False),
    # No provider: so a test asks for `reasoning`.
    "test-llm": FamilyMember(reasoning_field="reasoning"),
    "together": FamilyMember(reasoning_field="reasoning", usage_with_finish=True),
    "vllm": FamilyMember(reasoning_field="reasoning", has_numeric_codes=True),
    "xai": FamilyMember(usage_with_finish=True),
    "zai": FamilyMember(usage_with_finish=True),
}  # fmt: skip


def family_member(provider: str) -> FamilyMember:
    """How this provider speaks."""
    return FAMILY.get(provider, OPENAI)
