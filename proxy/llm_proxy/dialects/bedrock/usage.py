"""Decodes and encodes Amazon Bedrock's usage fields, metrics and headers.

Converse sends usage at its end.  InvokeModel adds the service's counts to every model's own format:
in the last event of a stream, or in the headers of a document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Headers, header_value
from llm_proxy.turns import Json, Usage

_FieldNames = Mapping[str, tuple[str, ...]]
"""For each field of `Usage`, its names in a format."""

_CONVERSE_NAMES: Final[_FieldNames] = {
    "input": ("inputTokens",),
    "output": ("outputTokens",),
    "total": ("totalTokens",),
    "cache_read": ("cacheReadInputTokens", "cacheReadInputTokenCount"),
    "cache_write": ("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
}
"""The first is Converse's name, the last that of Amazon's own models."""

_METRIC_NAMES: Final[_FieldNames] = {
    "input": ("inputTokenCount",),
    "output": ("outputTokenCount",),
    "cache_read": ("cacheReadInputTokenCount",),
    "cache_write": ("cacheWriteInputTokenCount",),
}
_HEADER_NAMES: Final[Mapping[str, str]] = {
    "input": "x-amzn-bedrock-input-token-count",
    "output": "x-amzn-bedrock-output-token-count",
    "cache_read": "x-amzn-bedrock-cache-read-input-token-count",
    "cache_write": "x-amzn-bedrock-cache-write-input-token-count",
}
_NUMBER: Final = re.compile("[0-9]{1,15}")

_KNOWN_FIELDS: Final = frozenset(name for names in _CONVERSE_NAMES.values() for name in names)

METRICS_FIELD: Final = "amazon-bedrock-invocationMetrics"
"""The field of the service's metrics."""

USAGE_FIELDS: Final = tuple(_CONVERSE_NAMES)
"""The fields of `Usage` that Converse has."""

SERVICE_USAGE_FIELDS: Final = tuple(_METRIC_NAMES)
"""Those that the service counts for InvokeModel."""

FAKE_LATENCY_MS: Final = 100
"""A constant, since encoding uses no clock."""


def decode_usage(counts: Fields) -> Usage | None:
    """The usage; its input excludes tokens read from a cache or written to one."""
    return _decode_counts(counts, _CONVERSE_NAMES) if counts else None


def decode_service_metrics(counts: Fields) -> Usage | None:
    """The usage in the service's metrics."""
    return _decode_counts(counts, _METRIC_NAMES) if counts else None


def decode_header_usage(headers: Headers) -> Usage | None:
    """The usage in the headers of a document."""
    fields = {field: header_value(headers, name) for field, name in _HEADER_NAMES.items()}
    counts = {
        field: int(text) for field, text in fields.items() if text and _NUMBER.fullmatch(text)
    }
    return Usage(**counts) if counts else None


def extra_usage_fields(counts: Fields) -> dict[str, Json]:
    """The usage fields that `Usage` does not have."""
    return dict(
        lenient_json.select_metadata(counts, (name for name in counts if name not in _KNOWN_FIELDS))
    )


def encode_usage(usage: Usage | None) -> Document:
    """The usage object of Converse."""
    return _encode_counts(usage, _CONVERSE_NAMES, 0)


def encode_nova_usage(usage: Usage | None) -> Document:
    """The usage object of Amazon's own models."""
    return _encode_counts(usage, _CONVERSE_NAMES, -1)


def encode_service_metrics(usage: Usage | None, fields: Fields) -> Document:
    """The service's metrics; `fields` are given ones, whose token counts are replaced."""
    counts = [name for names in _METRIC_NAMES.values() for name in names]
    latencies = {"invocationLatency": FAKE_LATENCY_MS, "firstByteLatency": FAKE_LATENCY_MS}
    other_fields = {name: value for name, value in fields.items() if name not in counts}
    return {**_encode_counts(usage, _METRIC_NAMES, 0), **latencies, **other_fields}


def encode_usage_headers(usage: Usage | None) -> Headers:
    """The usage headers of a document."""
    counts = {name: getattr(usage, field, None) for field, name in _HEADER_NAMES.items()}
    values = tuple((name, str(count)) for name, count in counts.items() if count is not None)
    return (*values, ("x-amzn-bedrock-invocation-latency", str(FAKE_LATENCY_MS)))


def _decode_counts(counts: Fields, names: _FieldNames) -> Usage:
    usage_fields = {
        field: lenient_json.first_integer(*map(counts.get, known)) for field, known in names.items()
    }
    return Usage(**usage_fields)


def _encode_counts(usage: Usage | None, names: _FieldNames, name_index: int) -> Document:
    named_counts = {
        known[name_index]: getattr(usage, field, None) for field, known in names.items()
    }
    return {name: count for name, count in named_counts.items() if count is not None}
