"""Counts the output characters of a stream; signatures, citations and names count nothing."""

from __future__ import annotations

from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult


def fragment_output_chars(fragment: Part) -> int:
    """How many characters a fragment adds to what was said.

    A call, the result of one, a sound and an image count as one at least.
    """
    match fragment:
        case Text(text=text) | Reasoning(text=text) | Refusal(text=text):
            return len(text)
        case Media():
            is_there = bool(fragment.url or fragment.base64)
            return len(fragment.transcript) or int(is_there)
        case ToolCall():
            return max(1, len(fragment.name) + len(fragment.arguments))
        case ToolResult():
            return 1
