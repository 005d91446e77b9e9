"""Fields that both versions of Cohere's API share: finish reasons, usage, sources, errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Citation, Failure, Finish, Metadata, Usage

FINISH: Final = {
    "COMPLETE": Finish.STOP,
    "STOP_SEQUENCE": Finish.STOP_SEQUENCE,
    "MAX_TOKENS": Finish.LENGTH,
    "TOOL_CALL": Finish.TOOL_CALLS,
    "ERROR": Finish.ERROR,
    "ERROR_LIMIT": Finish.CONTEXT_FULL,
    "ERROR_TOXIC": Finish.CONTENT_FILTER,
    "TIMEOUT": Finish.ERROR,
}
"""`USER_CANCEL` is `OTHER`."""

ERROR: Final = "ERROR"
"""Why an answer ends that an error breaks off."""

PAID: Final = "billed_units"
ACCOUNT: Final = (PAID, "warnings")
ACCOUNT_OF_TOKENS: Final = ("image_tokens",)
"""The metadata that stands beside the counts, and among them."""

COUNTS: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_tokens",
}
"""What the fields of `Usage` are called among the tokens."""

CACHED: Final = "cached_tokens"

OF_CITATION: Final = ("text", "type", "content_index")
OF_SOURCE: Final = ("source", "source_type")
"""The metadata of a citation: what it says itself, and what its source does."""

_QUOTED: Final = ("text", "snippet", "content", "output")
"""Where documents and the results of tools keep their words."""


def finish_of_raw(raw: str) -> Finish | None:
    """The shared word for one of Cohere's; None where it said nothing."""
    return FINISH.get(raw, Finish.OTHER) if raw else None


def decode_usage(fields: Fields) -> Usage | None:
    """The counts in `usage` (version 2) or `meta` (version 1).

    `tokens` counts what the model read and wrote, `billed_units` what is paid for, which is
    less; `/v1/generate` says only the latter.
    """
    tokens = lenient_json.object_fields(fields.get("tokens"))
    counts = tokens or lenient_json.object_fields(fields.get(PAID))
    if not counts:
        return None
    return Usage(
        input=lenient_json.first_count(counts.get(COUNTS["input"])),
        output=lenient_json.first_count(counts.get(COUNTS["output"])),
        cache_read=lenient_json.first_count(fields.get(CACHED)),
        reasoning=lenient_json.first_count(tokens.get(COUNTS["reasoning"])),
    )


def extra_usage_fields(fields: Fields) -> Metadata:
    """What stands beside the counts, in the same place."""
    tokens = lenient_json.object_fields(fields.get("tokens"))
    return (
        *lenient_json.named_metadata(fields, ACCOUNT),
        *lenient_json.named_metadata(tokens, ACCOUNT_OF_TOKENS),
    )


def decode_failure(fields: Fields) -> Failure | None:
    """The error that an event or a document reports: a message, with its type beside it.

    `message` is an object in an answer, and a string in an error.
    """
    message = fields.get("message")
    alone = message if isinstance(message, str) else None
    candidates = (fields.get("error"), fields.get("err"), alone)
    error = next(
        (candidate for candidate in candidates if candidate and candidate is not True), None
    )
    if error is None:
        return None
    read = json_api.decode_failure(error)
    return replace(read, type=lenient_json.printable_text(fields.get("error_type")) or read.type)


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A document, or the result of a tool, that a citation may name."""

    url: str = ""
    title: str = ""
    quoted: str = ""
    metadata: Metadata = ()


def decode_source(fields: Fields, metadata: Metadata = ()) -> CitedSource:
    """A source as its fields describe it; applications choose most of their names."""
    return CitedSource(
        url=lenient_json.printable_text(fields.get("url")),
        title=lenient_json.printable_text(fields.get("title")),
        quoted=next(
            filter(None, (lenient_json.printable_text(fields.get(name)) for name in _QUOTED)), ""
        ),
        metadata=metadata,
    )


def decode_citations(fields: Fields, documents: Mapping[str, CitedSource]) -> Iterator[Citation]:
    """One citation for each source that a span of the text rests on.

    Version 2 spells the sources out, version 1 names documents.  The span's own words are the
    answer's, not the source's: they are kept as `text`.
    """
    start, end = (
        lenient_json.first_count(fields.get("start")),
        lenient_json.first_count(fields.get("end")),
    )
    span = None if start is None or end is None or start >= end else (start, end)
    metadata = lenient_json.named_metadata(fields, OF_CITATION)
    for cited_source in [*_decode_sources(fields, documents)] or [CitedSource()]:
        yield Citation(
            cited_source.url,
            cited_source.title,
            cited_source.quoted,
            span,
            (*metadata, *cited_source.metadata),
        )


def _decode_sources(fields: Fields, documents: Mapping[str, CitedSource]) -> Iterator[CitedSource]:
    for object_item in lenient_json.object_items(fields.get("sources")):
        document = lenient_json.object_fields(
            object_item.get("document") or object_item.get("tool_output")
        )
        named = zip(OF_SOURCE, (object_item.get("id"), object_item.get("type")), strict=True)
        yield decode_source(document, lenient_json.named_metadata(dict(named), OF_SOURCE))
    for name in map(
        lenient_json.printable_text, lenient_json.array_items(fields.get("document_ids"))
    ):
        known = documents.get(name, CitedSource())
        yield replace(known, metadata=((OF_SOURCE[0], name),))
