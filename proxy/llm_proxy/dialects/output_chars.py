"""Counts the output characters of a stream; signatures, citations and names count nothing."""

from __future__ import annotations

from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult


def fragment_output_chars(fragment: Part) -> int:
    """How many output characters a fragment adds.

    A tool call, a tool result, a sound and an image count as at least one.
    """
    match fragment:
        case Text(text=text) | Reasoning(text=text) | Refusal(text=text):
            return len(text)
        case Media():
            has_content = bool(fragment.url or fragment.base64)
            return len(fragment.transcript) or int(has_content)
        case ToolCall():
            return max(1, len(fragment.name) + len(fragment.arguments))
        case ToolResult():
            return 1
