"""Amazon Bedrock's usage fields, metrics and headers.

Converse sends usage at its end.  InvokeModel adds the service's counts to every model's own format:
in the last event of a stream, or in the headers of a document.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from llm_proxy.dialects.lenient_json import Fields, metadata_except
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import UsageFields
from llm_proxy.exchange import Headers, header_value
from llm_proxy.turns import Json, Usage

_NOVA_CACHE: Final = {
    "cache_read": ("cacheReadInputTokenCount",),
    "cache_write": ("cacheWriteInputTokenCount",),
}

CONVERSE: Final = UsageFields(
    {
        "input": ("inputTokens",),
        "output": ("outputTokens",),
        "total": ("totalTokens",),
        "cache_read": ("cacheReadInputTokens",),
        "cache_write": ("cacheWriteInputTokens",),
    },
    required=("input", "output", "total"),
    is_required=True,
    also_at={name: (path,) for name, path in _NOVA_CACHE.items()},
)
"""The usage of Converse, and when decoding that of Amazon's own models.

Its input excludes tokens read from a cache or written to one.
"""

NOVA: Final = replace(CONVERSE, paths={**CONVERSE.paths, **_NOVA_CACHE})
"""The usage of Amazon's own models."""

_KNOWN_NAMES: Final = {name for fields in (CONVERSE, NOVA) for (name,) in fields.paths.values()}

NOVA_STREAM: Final = replace(
    NOVA,
    paths={name: path for name, path in NOVA.paths.items() if name != "total"},
    required=("input", "output"),
)
"""That of their streams."""

METRICS: Final = UsageFields(
    {
        "input": ("inputTokenCount",),
        "output": ("outputTokenCount",),
        **_NOVA_CACHE,
    },
    required=("input", "output"),
    is_required=True,
)
"""What the service counts for InvokeModel."""

_HEADERS: Final = UsageFields(
    {
        "input": ("x-amzn-bedrock-input-token-count",),
        "output": ("x-amzn-bedrock-output-token-count",),
        "cache_read": ("x-amzn-bedrock-cache-read-input-token-count",),
        "cache_write": ("x-amzn-bedrock-cache-write-input-token-count",),
    }
)
_NUMBER: Final = re.compile("[0-9]{1,15}")

METRICS_FIELD: Final = "amazon-bedrock-invocationMetrics"
"""The field of the service's metrics."""

FAKE_LATENCY_MS: Final = 100
"""A constant, since encoding uses no clock."""


def decode(fields: UsageFields, counts: Fields) -> Usage | None:
    """The usage; None if there are no fields at all."""
    return fields.decode(counts) or (Usage() if counts else None)


def decode_headers(headers: Headers) -> Usage | None:
    """The usage in the headers of a document."""
    texts = {name: header_value(headers, name) for (name,) in _HEADERS.paths.values()}
    return _HEADERS.decode(
        {name: int(text) for name, text in texts.items() if text and _NUMBER.fullmatch(text)}
    )


def extra_usage_fields(counts: Fields) -> dict[str, Json]:
    """The usage fields that `Usage` does not have."""
    return dict(metadata_except(counts, _KNOWN_NAMES))


def encode_metrics(usage: Usage | None, fields: Fields) -> Document:
    """The service's metrics; `fields` are given ones, whose token counts are replaced."""
    counts = {name for (name,) in METRICS.paths.values()}
    latencies = {"invocationLatency": FAKE_LATENCY_MS, "firstByteLatency": FAKE_LATENCY_MS}
    other_fields = {name: value for name, value in fields.items() if name not in counts}
    return {**METRICS.encode(usage), **latencies, **other_fields}


def encode_headers(usage: Usage | None) -> Headers:
    """The usage headers of a document."""
    counts = ((name, str(count)) for name, count in _HEADERS.encode(usage).items())
    return (*counts, ("x-amzn-bedrock-invocation-latency", str(FAKE_LATENCY_MS)))
