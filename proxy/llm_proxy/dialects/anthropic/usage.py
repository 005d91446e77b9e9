"""Decodes and encodes Anthropic's usage fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json, Usage

_NAMES: Final = {
    "input": "input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
    "output": "output_tokens",
}
_DETAILS: Final = "output_tokens_details"
_THOUGHT: Final = "thinking_tokens"
_KNOWN: Final = (*_NAMES.values(), _DETAILS)

COUNTS: Final = (*_NAMES, "reasoning")
"""The fields of `Usage` that have a name here."""

AT_END: Final = ("server_tool_use", "iterations")
"""What is known at the end of a stream only."""


def decode_usage(counts: Fields) -> Usage | None:
    """The input does not count what was read from a cache or written to it."""
    if not counts:
        return None
    details = lenient_json.object_fields(counts.get(_DETAILS))
    return Usage(
        **{field: lenient_json.first_count(counts.get(name)) for field, name in _NAMES.items()},
        reasoning=lenient_json.first_count(details.get(_THOUGHT)),
    )


def extra_usage_fields(counts: Fields) -> dict[str, Json]:
    """What is told of the cost that `Usage` has no word for."""
    return {
        name: value for name, value in counts.items() if name not in _KNOWN and value is not None
    }


def encode_initial_usage(usage: Usage) -> Usage:
    """What is told of it before anything is said; the output is counted at the end."""
    return replace(usage, output=min(usage.output or 0, 1), reasoning=None)


def encode_usage(usage: Usage, also: Fields) -> Document:
    """Usage as it is told, and `also` what it has no word for."""
    counts = {name: getattr(usage, field) for field, name in _NAMES.items()}
    fields: Document = {name: count for name, count in counts.items() if count is not None}
    if usage.reasoning is not None:
        fields[_DETAILS] = {_THOUGHT: usage.reasoning}
    return {**fields, **also}
