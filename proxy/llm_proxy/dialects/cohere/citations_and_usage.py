"""Usage and citations, as both versions of Cohere's API encode them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.cohere import shared_fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, FinishReason, Json, Metadata, Text, Turn

USAGE_FIELDS: Final = (*shared_fields.USAGE_WIRE_NAMES, "cache_read")
"""The fields of `Usage` that a response can hold."""

REQUIRED_USAGE_FIELDS: Final = ("input", "output")
"""Those that every response holds."""


def with_billed_units(turn: Turn) -> Turn:
    """The turn with `billed_units` in its metadata; where missing, its own token counts."""
    if turn.usage is None:
        return turn
    fields = dict(turn.metadata)
    if not isinstance(fields.get(shared_fields.BILLED_UNITS), dict):
        fields[shared_fields.BILLED_UNITS] = {
            shared_fields.USAGE_WIRE_NAMES[name]: getattr(turn.usage, name)
            for name in REQUIRED_USAGE_FIELDS
        }
    return replace(turn, metadata=tuple(fields.items()))


def failed_stream_turn(turn: Turn) -> Turn:
    """A turn that ends in an error, as a stream can hold it: without usage and metadata."""
    return replace(
        turn,
        usage=None,
        metadata=(),
        finish=FinishReason.ERROR,
        finish_raw=shared_fields.ERROR_FINISH,
    )


def encode_usage(turn: Turn) -> Document:
    """The usage of a turn with the metadata that belongs to it; empty without usage."""
    usage = turn.usage
    if usage is None:
        return {}
    tokens: Document = {
        name: count
        for field, name in shared_fields.USAGE_WIRE_NAMES.items()
        if (count := getattr(usage, field)) is not None
    }
    cached = {} if usage.cache_read is None else {shared_fields.CACHED_TOKENS: usage.cache_read}
    extra_fields: Document = dict(nonempty_metadata(turn.metadata, shared_fields.USAGE_METADATA))
    extra_token_fields: Document = dict(
        nonempty_metadata(turn.metadata, shared_fields.TOKENS_METADATA)
    )
    return {**extra_fields, "tokens": {**tokens, **extra_token_fields}, **cached}


def convert_cited_text(text: Text, convert_citation: Callable[[Citation], Citation]) -> Text:
    """A text with its citations converted; an empty text has none."""
    return Text(text.text, tuple(map(convert_citation, text.citations)) if text.text else ())


def nonempty_span(citation: Citation) -> tuple[int, int] | None:
    """The cited characters of the text (start, end); None where the span is missing or empty."""
    return citation.span if citation.span and citation.span[0] < citation.span[1] else None


def metadata_with_cited_text(citation: Citation, text: str) -> dict[str, Json]:
    """The metadata of a citation, with the cited passage of this text as `text` if missing."""
    name = shared_fields.CITATION_METADATA[0]
    fields = dict(citation.metadata)
    value = fields.get(name)
    if isinstance(value, str) and value:
        return fields
    span = nonempty_span(citation)
    return {**fields, name: text[slice(*span)] if span else ""}


def citation_source_id(citation: Citation) -> str:
    """The id of a citation's source; empty where it has none."""
    source_id = dict(citation.metadata).get(shared_fields.SOURCE_METADATA[0])
    return source_id if isinstance(source_id, str) else ""


def encode_citation_without_sources(citation: Citation) -> Document:
    """A citation without its sources."""
    span_fields = (
        {} if citation.span is None else {"start": citation.span[0], "end": citation.span[1]}
    )
    return {
        **span_fields,
        "text": "",
        **dict(nonempty_metadata(citation.metadata, shared_fields.CITATION_METADATA)),
    }


def group_by_span(citations: Sequence[Citation]) -> Iterator[list[Citation]]:
    """Groups neighbours that one citation on the wire holds: same span, several sources."""
    for identity, group in groupby(citations, _citation_group_key):
        same_span = list(group)
        yield from [same_span] if identity[-1] else ([citation] for citation in same_span)


def _citation_group_key(citation: Citation) -> tuple[tuple[int, int] | None, bytes, bool]:
    has_source = any(name in shared_fields.SOURCE_METADATA for name, _ in citation.metadata)
    fields: dict[str, Json] = dict(
        nonempty_metadata(citation.metadata, shared_fields.CITATION_METADATA)
    )
    return citation.span, lenient_json.compact_json(fields).encode("utf-8", "replace"), has_source


def citation_metadata(fields: dict[str, Json]) -> Metadata:
    """The metadata that a citation can hold, out of these fields."""
    return lenient_json.select_metadata(
        fields, (*shared_fields.CITATION_METADATA, *shared_fields.SOURCE_METADATA)
    )
