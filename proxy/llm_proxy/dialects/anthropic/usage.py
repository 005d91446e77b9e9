"""Decodes and encodes Anthropic's usage fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json, Usage

_FIELD_NAMES: Final = {
    "input": "input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
    "output": "output_tokens",
}
_OUTPUT_DETAILS: Final = "output_tokens_details"
_THINKING_TOKENS: Final = "thinking_tokens"
_KNOWN_FIELDS: Final = (*_FIELD_NAMES.values(), _OUTPUT_DETAILS)

USAGE_FIELDS: Final = (*_FIELD_NAMES, "reasoning")
"""The fields of `Usage` that this API has."""

FINAL_USAGE_FIELDS: Final = ("server_tool_use", "iterations")
"""Usage fields that only the end of a stream has."""


def decode_usage(counts: Fields) -> Usage | None:
    """The usage; its input excludes tokens read from a cache or written to one."""
    if not counts:
        return None
    details = lenient_json.object_fields(counts.get(_OUTPUT_DETAILS))
    return Usage(
        **{
            field: lenient_json.first_integer(counts.get(name))
            for field, name in _FIELD_NAMES.items()
        },
        reasoning=lenient_json.first_integer(details.get(_THINKING_TOKENS)),
    )


def extra_usage_fields(counts: Fields) -> dict[str, Json]:
    """The usage fields that `Usage` does not have."""
    return {
        name: value
        for name, value in counts.items()
        if name not in _KNOWN_FIELDS and value is not None
    }


def initial_usage(usage: Usage) -> Usage:
    """The usage at the start of a stream; the output is counted at the end."""
    return replace(usage, output=min(usage.output or 0, 1), reasoning=None)


def encode_usage(usage: Usage, extra_fields: Fields) -> Document:
    """The usage object, with `extra_fields` that `Usage` does not have."""
    counts = {name: getattr(usage, field) for field, name in _FIELD_NAMES.items()}
    fields: Document = {name: count for name, count in counts.items() if count is not None}
    if usage.reasoning is not None:
        fields[_OUTPUT_DETAILS] = {_THINKING_TOKENS: usage.reasoning}
    return {**fields, **extra_fields}
