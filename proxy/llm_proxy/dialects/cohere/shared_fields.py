"""Fields that both versions of Cohere's API share: finish reasons, usage, sources, errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Citation, Failure, FinishReason, Metadata, Usage

FINISH_BY_REASON: Final = {
    "COMPLETE": FinishReason.STOP,
    "STOP_SEQUENCE": FinishReason.STOP_SEQUENCE,
    "MAX_TOKENS": FinishReason.LENGTH,
    "TOOL_CALL": FinishReason.TOOL_CALLS,
    "ERROR": FinishReason.ERROR,
    "ERROR_LIMIT": FinishReason.CONTEXT_FULL,
    "ERROR_TOXIC": FinishReason.CONTENT_FILTER,
    "TIMEOUT": FinishReason.ERROR,
}
"""`USER_CANCEL` is `OTHER`."""

ERROR_FINISH: Final = "ERROR"
"""The finish reason of a response that an error ends."""

BILLED_UNITS: Final = "billed_units"
USAGE_METADATA: Final = (BILLED_UNITS, "warnings")
TOKENS_METADATA: Final = ("image_tokens",)
"""The turn's metadata in `tokens`; `USAGE_METADATA` is that in `usage` or `meta` itself."""

USAGE_WIRE_NAMES: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_tokens",
}
"""Fields of `Usage` -> fields of `tokens`."""

CACHED_TOKENS: Final = "cached_tokens"

CITATION_METADATA: Final = ("text", "type", "content_index")
SOURCE_METADATA: Final = ("source", "source_type")
"""A citation's metadata: id and type of its source; `CITATION_METADATA` are its own fields."""

_QUOTE_FIELDS: Final = ("text", "snippet", "content", "output")
"""The fields in which documents and tool results may keep their text."""


def decode_finish_reason(raw: str) -> FinishReason | None:
    """The `FinishReason` of one of Cohere's finish reasons; None for an empty one."""
    return FINISH_BY_REASON.get(raw, FinishReason.OTHER) if raw else None


def decode_usage(fields: Fields) -> Usage | None:
    """The counts in `usage` (version 2) or `meta` (version 1).

    `tokens` counts what the model read and wrote; `billed_units` counts less, and is the only
    one that `/v1/generate` has.
    """
    tokens = lenient_json.object_fields(fields.get("tokens"))
    counts = tokens or lenient_json.object_fields(fields.get(BILLED_UNITS))
    if not counts:
        return None
    return Usage(
        input=lenient_json.first_integer(counts.get(USAGE_WIRE_NAMES["input"])),
        output=lenient_json.first_integer(counts.get(USAGE_WIRE_NAMES["output"])),
        cache_read=lenient_json.first_integer(fields.get(CACHED_TOKENS)),
        reasoning=lenient_json.first_integer(tokens.get(USAGE_WIRE_NAMES["reasoning"])),
    )


def decode_usage_metadata(fields: Fields) -> Metadata:
    """The turn's metadata in `usage` (version 2) or `meta` (version 1)."""
    tokens = lenient_json.object_fields(fields.get("tokens"))
    return (
        *lenient_json.select_metadata(fields, USAGE_METADATA),
        *lenient_json.select_metadata(tokens, TOKENS_METADATA),
    )


def decode_failure(fields: Fields) -> Failure | None:
    """The error in an event or a document, if there is one.

    `message` is an error where it is a string; in a response it is an object.
    """
    message = fields.get("message")
    error_text = message if isinstance(message, str) else None
    candidates = (fields.get("error"), fields.get("err"), error_text)
    error = next(
        (candidate for candidate in candidates if candidate and candidate is not True), None
    )
    if error is None:
        return None
    failure = json_api.decode_failure(error)
    return replace(
        failure, type=lenient_json.value_as_text(fields.get("error_type")) or failure.type
    )


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A document or tool result that a citation refers to."""

    url: str = ""
    title: str = ""
    quoted: str = ""
    metadata: Metadata = ()


def decode_source(fields: Fields, metadata: Metadata = ()) -> CitedSource:
    """A source from a document's fields, most of whose names the application chooses."""
    return CitedSource(
        url=lenient_json.value_as_text(fields.get("url")),
        title=lenient_json.value_as_text(fields.get("title")),
        quoted=next(
            filter(None, (lenient_json.value_as_text(fields.get(name)) for name in _QUOTE_FIELDS)),
            "",
        ),
        metadata=metadata,
    )


def decode_citations(
    fields: Fields, sources_by_id: Mapping[str, CitedSource]
) -> Iterator[Citation]:
    """One citation for each source of a span; one without a source where there is none.

    Version 2 has the sources inline, version 1 refers to documents by id.  `text` is the cited
    passage of the response, not of the source, and is kept as metadata.
    """
    start, end = (
        lenient_json.first_integer(fields.get("start")),
        lenient_json.first_integer(fields.get("end")),
    )
    span = None if start is None or end is None or start >= end else (start, end)
    metadata = lenient_json.select_metadata(fields, CITATION_METADATA)
    for cited_source in [*_decode_sources(fields, sources_by_id)] or [CitedSource()]:
        yield Citation(
            cited_source.url,
            cited_source.title,
            cited_source.quoted,
            span,
            (*metadata, *cited_source.metadata),
        )


def _decode_sources(
    fields: Fields, sources_by_id: Mapping[str, CitedSource]
) -> Iterator[CitedSource]:
    for object_item in lenient_json.array_objects(fields.get("sources")):
        document = lenient_json.object_fields(
            object_item.get("document") or object_item.get("tool_output")
        )
        source_fields = zip(
            SOURCE_METADATA, (object_item.get("id"), object_item.get("type")), strict=True
        )
        yield decode_source(
            document, lenient_json.select_metadata(dict(source_fields), SOURCE_METADATA)
        )
    for document_id in map(
        lenient_json.value_as_text, lenient_json.array_items(fields.get("document_ids"))
    ):
        source = sources_by_id.get(document_id, CitedSource())
        yield replace(source, metadata=((SOURCE_METADATA[0], document_id),))
