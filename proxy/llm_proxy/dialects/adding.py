"""What of a stream adds to what was said; seals, citations and names don't."""

from __future__ import annotations

from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult


def adds(fragment: Part) -> bool:
    """Whether a fragment has words, sound or an image, or is of a call or its result."""
    match fragment:
        case Text(text=text) | Reasoning(text=text) | Refusal(text=text):
            return bool(text)
        case Media():
            return bool(fragment.url or fragment.base64 or fragment.transcript)
        case ToolCall() | ToolResult():
            return True
