"""Those who speak as OpenAI's chats do, and what each of them spells in its own way.

Read from what they send: see `docs/dialects.md`.  A provider that is not here speaks as OpenAI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the family."""

    reasoning: Literal["reasoning_content", "reasoning", "details", "blocks"] = "reasoning_content"
    """The field that reasoning stands in, by itself; `details` repeats what stands in `reasoning`
    with its type and seal; `blocks` are typed parts of `content`."""
    whole_calls: bool = False
    """Whether a tool call comes in one piece."""
    usage_at_finish: bool = False
    """Whether usage comes, unasked, with the reason to finish; else in a chunk of its own, asked
    for by `stream_options.include_usage`."""
    done: bool = True
    """Whether `[DONE]` ends a stream."""
    error_event: str = ""
    """The name of the event that holds an error; nothing else is named."""
    flat_errors: bool = False
    """Whether an HTTP error is an object of its own, and not under `error`."""
    numeric_codes: bool = False
    """Whether the code of an HTTP error is its status."""
    preamble: Mapping[str, Json] | None = None
    """What a chunk before the first one says."""


OPENAI: Final = Member()

SPOKEN: Final = ("openai-chat", "openai-completions", "openai-responses")
"""The dialects that have members who speak in their own ways."""

FAMILY: Final[Mapping[str, Member]] = {
    "azure": Member(
        preamble={
            "choices": [], "created": 0, "id": "", "model": "", "object": "",
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
        },
    ),
    "deepseek": Member(usage_at_finish=True),
    "fireworks": Member(usage_at_finish=True),
    "groq": Member(
        reasoning="reasoning", whole_calls=True, usage_at_finish=True, error_event="error"
    ),
    "mistral": Member(
        reasoning="blocks", whole_calls=True, usage_at_finish=True, flat_errors=True
    ),
    "ollama": Member(reasoning="reasoning", whole_calls=True),
    "openrouter": Member(reasoning="details", numeric_codes=True),
    "perplexity": Member(usage_at_finish=True, done=False),
    "test-llm": Member(reasoning="reasoning"),  # no provider: so a test asks for `reasoning`
    "together": Member(reasoning="reasoning", usage_at_finish=True),
    "vllm": Member(reasoning="reasoning", numeric_codes=True),
    "xai": Member(usage_at_finish=True),
    "zai": Member(usage_at_finish=True),
}  # fmt: skip


def member(provider: str) -> Member:
    """How this provider speaks."""
    return FAMILY.get(provider, OPENAI)
