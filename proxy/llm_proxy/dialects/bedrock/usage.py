"""Decodes and encodes Amazon Bedrock's usage fields, metrics and headers.

Converse counts at its end.  With what a model says of its own come the service's counts, whoever
made the model: beside the last event of a stream, or in the headers of a document.
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

_Names = Mapping[str, tuple[str, ...]]
"""For each field of `Usage`, what it is called."""

_COUNTS: Final[_Names] = {
    "input": ("inputTokens",),
    "output": ("outputTokens",),
    "total": ("totalTokens",),
    "cache_read": ("cacheReadInputTokens", "cacheReadInputTokenCount"),
    "cache_write": ("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
}
"""Converse's name is the first, and that of Amazon's own models the last."""

_OF_METRICS: Final[_Names] = {
    "input": ("inputTokenCount",),
    "output": ("outputTokenCount",),
    "cache_read": ("cacheReadInputTokenCount",),
    "cache_write": ("cacheWriteInputTokenCount",),
}
_IN_HEADERS: Final[Mapping[str, str]] = {
    "input": "x-amzn-bedrock-input-token-count",
    "output": "x-amzn-bedrock-output-token-count",
    "cache_read": "x-amzn-bedrock-cache-read-input-token-count",
    "cache_write": "x-amzn-bedrock-cache-write-input-token-count",
}
_NUMBER: Final = re.compile("[0-9]{1,15}")

_KNOWN: Final = frozenset(name for names in _COUNTS.values() for name in names)

METRICS: Final = "amazon-bedrock-invocationMetrics"
"""The field of the service's metrics."""

COUNTS: Final = tuple(_COUNTS)
"""The fields of `Usage` that Converse has names for."""

OF_SERVICE: Final = tuple(_OF_METRICS)
"""Those that the service itself counts."""

LATENCY: Final = 100
"""Milliseconds that an answer is said to have taken: nothing here looks at a clock."""


def decode_usage(counts: Fields) -> Usage | None:
    """The input does not count what was read from a cache or written to it."""
    return _decode_counts(counts, _COUNTS) if counts else None


def decode_service_metrics(counts: Fields) -> Usage | None:
    """What the service itself counts."""
    return _decode_counts(counts, _OF_METRICS) if counts else None


def decode_header_usage(headers: Headers) -> Usage | None:
    """The same, as a document is told it."""
    fields = {field: header_value(headers, name) for field, name in _IN_HEADERS.items()}
    counts = {
        field: int(text) for field, text in fields.items() if text and _NUMBER.fullmatch(text)
    }
    return Usage(**counts) if counts else None


def extra_usage_fields(counts: Fields) -> dict[str, Json]:
    """What is told of the cost that `Usage` has no word for."""
    return dict(
        lenient_json.named_metadata(counts, (name for name in counts if name not in _KNOWN))
    )


def encode_usage(usage: Usage | None) -> Document:
    """Usage as Converse tells it."""
    return _encode_counts(usage, _COUNTS, 0)


def encode_model_usage(usage: Usage | None) -> Document:
    """Usage as Amazon's own models tell it."""
    return _encode_counts(usage, _COUNTS, -1)


def encode_service_metrics(usage: Usage | None, fields: Fields) -> Document:
    """Usage as the service's metrics tell it, with what else is given of them."""
    counts = [name for names in _OF_METRICS.values() for name in names]
    times = {"invocationLatency": LATENCY, "firstByteLatency": LATENCY}
    document = {name: value for name, value in fields.items() if name not in counts}
    return {**_encode_counts(usage, _OF_METRICS, 0), **times, **document}


def encode_usage_headers(usage: Usage | None) -> Headers:
    """Usage as the headers of a document tell it."""
    counts = {name: getattr(usage, field, None) for field, name in _IN_HEADERS.items()}
    values = tuple((name, str(count)) for name, count in counts.items() if count is not None)
    return (*values, ("x-amzn-bedrock-invocation-latency", str(LATENCY)))


def _decode_counts(counts: Fields, names: _Names) -> Usage:
    found = {
        field: lenient_json.first_count(*map(counts.get, known)) for field, known in names.items()
    }
    return Usage(**found)


def _encode_counts(usage: Usage | None, names: _Names, which: int) -> Document:
    counted = {known[which]: getattr(usage, field, None) for field, known in names.items()}
    return {name: count for name, count in counted.items() if count is not None}
