"""What both versions of Cohere's API share: finish reasons, usage, citations, errors, headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil
from typing import Final

from llm_proxy.dialects import json_api, response_encoding, wire
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    compact_json,
    get_integer,
    get_items,
    get_object,
    get_objects,
    get_string,
    get_text,
    object_fields,
    select_metadata,
    selected_fields,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import Errors, UsageFields
from llm_proxy.exchange import Headers
from llm_proxy.turns import Citation, Failure, FinishReason, Json, Metadata, Turn, Usage

FINISH_BY_RAW: Final = {
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

USAGE: Final = UsageFields(
    {
        "input": ("tokens", "input_tokens"),
        "output": ("tokens", "output_tokens"),
        "reasoning": ("tokens", "reasoning_tokens"),
        "cache_read": ("cached_tokens",),
    },
    required=("input", "output"),
    is_required=True,
)

CITATION_METADATA: Final = ("text", "type", "content_index")
SOURCE_METADATA: Final = ("source", "source_type")
"""A citation's metadata: id and type of its source; `CITATION_METADATA` are its own fields."""

_QUOTE_FIELDS: Final = ("text", "snippet", "content", "output")
"""The fields in which documents and tool results may keep their text."""


_NOT_FOUND_MESSAGE: Final = (
    "not found, make sure the correct model ID was used and that you have access to the model."
)
ERRORS: Final = Errors(
    {
        400: Failure("invalid request"),
        401: Failure("no valid api key was given"),
        402: Failure("the account has no payment method"),
        403: Failure("the key may not do this"),
        404: Failure(f"model {_NOT_FOUND_MESSAGE}"),
        422: Failure("the request cannot be processed"),
        429: Failure("too many requests"),
        498: Failure("invalid token"),
        499: Failure("the request was cancelled"),
        500: Failure("internal server error"),
        501: Failure("not implemented"),
        503: Failure("the service is unavailable"),
        504: Failure("the request took too long"),
    },
    {"TOO_MANY_TOKENS": 400, "INVALID_TOOL_GENERATION": 422},
)


def decode_usage(fields: Fields) -> Usage | None:
    """The counts in `usage` (version 2) or `meta` (version 1).

    `tokens` counts what the model read and wrote; `billed_units` counts less, and is the only
    one that `/v1/generate` has.
    """
    counts = get_object(fields, "tokens") or get_object(fields, BILLED_UNITS)
    return USAGE.decode({**fields, "tokens": dict(counts)}) if counts else None


def decode_usage_metadata(fields: Fields) -> Metadata:
    """The turn's metadata in `usage` (version 2) or `meta` (version 1)."""
    tokens = get_object(fields, "tokens")
    return (
        *select_metadata(fields, USAGE_METADATA),
        *select_metadata(tokens, TOKENS_METADATA),
    )


def encode_usage(turn: Turn) -> Document:
    """The usage of a turn with the metadata that belongs to it; empty without usage.

    `billed_units` are its own token counts where its metadata has none.
    """
    if turn.usage is None:
        return {}
    metadata = dict(turn.metadata)
    if not isinstance(metadata.get(BILLED_UNITS), dict):
        counts = {"input_tokens": turn.usage.input, "output_tokens": turn.usage.output}
        metadata[BILLED_UNITS] = dict(counts)
    fields = USAGE.encode(turn.usage)
    fields["tokens"] |= dict(select_metadata(metadata, TOKENS_METADATA))
    return {**dict(select_metadata(metadata, USAGE_METADATA)), **fields}


def as_sent_before_failure(turn: Turn) -> Turn:
    """A failed turn as a stream has sent it: without usage and metadata.  Others are unchanged."""
    if turn.failure is None:
        return turn
    return replace(turn, usage=None, metadata=(), finish_raw=ERROR_FINISH)


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
        url=get_text(fields, "url"),
        title=get_text(fields, "title"),
        quoted=next(
            filter(None, (get_text(fields, name) for name in _QUOTE_FIELDS)),
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
        get_integer(fields, "start"),
        get_integer(fields, "end"),
    )
    span = None if start is None or end is None or start >= end else (start, end)
    metadata = select_metadata(fields, CITATION_METADATA)
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
    for object_item in get_objects(fields, "sources"):
        document = object_fields(object_item.get("document") or object_item.get("tool_output"))
        source_fields = zip(
            SOURCE_METADATA, (object_item.get("id"), object_item.get("type")), strict=True
        )
        yield decode_source(document, select_metadata(dict(source_fields), SOURCE_METADATA))
    for document_id in map(value_as_text, get_items(fields, "document_ids")):
        source = sources_by_id.get(document_id, CitedSource())
        yield replace(source, metadata=((SOURCE_METADATA[0], document_id),))


def _nonempty_span(citation: Citation) -> tuple[int, int] | None:
    """The cited characters of the text (start, end); None where the span is missing or empty."""
    return citation.span if citation.span and citation.span[0] < citation.span[1] else None


def with_wire_metadata(citation: Citation, text: str, **fields: Json) -> Citation:
    """The citation as the wire holds it, with these fields in its metadata.

    A span that is empty is left out; the cited passage of this text is `text` where it is missing.
    """
    metadata = selected_fields(citation.metadata, CITATION_METADATA)
    span = _nonempty_span(citation)
    if not isinstance(metadata.get("text"), str):
        metadata["text"] = text[slice(*span)] if span else ""
    return replace(
        citation,
        span=span,
        metadata=select_metadata({**metadata, **fields}, (*CITATION_METADATA, *SOURCE_METADATA)),
    )


def citation_source_id(citation: Citation) -> str:
    """The id of a citation's source; empty where it has none."""
    source = selected_fields(citation.metadata, ("source",))
    return get_string(source, "source")


def encode_citations(
    citations: Sequence[Citation], encode_sources: Callable[[list[Citation]], Document]
) -> list[Document]:
    """The citations, of which neighbours with the same span become one with several sources."""
    documents: list[Document] = []
    for identity, group in groupby(citations, _citation_group_key):
        same_span = list(group)
        for sources in [same_span] if identity[-1] else [[citation] for citation in same_span]:
            citation = sources[0]
            span = (
                {}
                if citation.span is None
                else dict(zip(("start", "end"), citation.span, strict=True))
            )
            metadata = selected_fields(citation.metadata, CITATION_METADATA)
            documents.append({**span, "text": "", **metadata, **encode_sources(sources)})
    return documents


def _citation_group_key(citation: Citation) -> tuple[tuple[int, int] | None, bytes, bool]:
    has_source = any(name in SOURCE_METADATA for name, _ in citation.metadata)
    fields = selected_fields(citation.metadata, CITATION_METADATA)
    return citation.span, compact_json(fields).encode("utf-8", "replace"), has_source


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
    return replace(failure, type=get_text(fields, "error_type") or failure.type)


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after_s: float | None = None
) -> DialectResponse:
    """An HTTP error, with the headers of every response."""
    error = ERRORS.with_defaults(failure, status)
    type_fields = {"error_type": error.type} if error.type else {}
    body: Document = {**type_fields, "id": context.fake_uuid("error"), "message": error.message}
    return response_encoding.json_response(
        body, (*common_response_headers(context), *_retry_headers(retry_after_s)), status
    )


def model_not_found_response(name: str, context: EncodeContext) -> DialectResponse:
    """The HTTP error (404) for an unknown model."""
    return error_response(404, Failure(f"model '{name}' {_NOT_FOUND_MESSAGE}"), context)


def stream_error_fields(failure: Failure) -> Document:
    """The fields of an error in the last event of a stream."""
    message = wire.with_default_error_message(failure).message
    return {"error": message, **({"error_type": failure.type} if failure.type else {})}


def common_response_headers(context: EncodeContext) -> Headers:
    """The headers of every response: a trace id, and the limit of requests."""
    trace = ("X-Debug-Trace-Id", context.fake_uuid("trace").replace("-", ""))
    return (trace, *rate_limit_headers(context))


def rate_limit_headers(context: EncodeContext) -> Headers:
    """The account's limit of requests; empty where there is none."""
    request_limit = (
        None if context.account_limits is None else context.account_limits.request_window
    )
    if request_limit is None:
        return ()
    return (
        ("X-Trial-Endpoint-Call-Limit", str(request_limit.limit)),
        ("X-Trial-Endpoint-Call-Remaining", str(request_limit.remaining)),
    )


def _retry_headers(retry_after_s: float | None) -> Headers:
    """When to retry, as headers in s and in ms."""
    if retry_after_s is None:
        return ()
    return (
        ("Retry-After", str(ceil(retry_after_s))),
        ("Retry-After-Ms", f"{retry_after_s * 1000:.0f}"),
    )
